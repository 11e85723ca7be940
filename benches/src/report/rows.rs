//! Figures of one unit in rows: bars where they are of one order of magnitude, dots on a
//! logarithmic axis where they are not.

use super::Record;
use super::draw::{FAINT, GREY, INK, PALETTE, error, text_style, write};
use super::table::distinct;
use crate::figure::short;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const WIDTH: i32 = 900;
const LEFT: i32 = 190;
const RIGHT: i32 = 90;
const TOP: i32 = 66;
const BOTTOM: i32 = 34;
const BAR: i32 = 13;
const GAP: i32 = 9;

/// More between the least and the greatest than this, and the axis is logarithmic.
const LINEAR: f64 = 200.0;

type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;

/// From figures to pixels.
struct Axis {
    least: f64,
    greatest: f64,
    logarithmic: bool,
}

impl Axis {
    fn of(records: &[Record]) -> Self {
        let figures = || records.iter().map(|record| record.median).filter(|&figure| figure > 0.0);
        let (least, greatest) =
            (figures().fold(f64::MAX, f64::min), figures().fold(f64::MIN_POSITIVE, f64::max));
        if greatest / least > LINEAR {
            let decade = |figure: f64| 10f64.powf(figure);
            let least = decade(least.log10().floor());
            Self { least, greatest: decade(greatest.log10().ceil()), logarithmic: true }
        } else {
            Self { least: 0.0, greatest, logarithmic: false }
        }
    }

    fn pixel(&self, figure: f64) -> i32 {
        let share = if self.logarithmic {
            (figure.max(self.least) / self.least).ln() / (self.greatest / self.least).ln()
        } else {
            figure / self.greatest
        };
        LEFT + (share * f64::from(WIDTH - LEFT - RIGHT)) as i32
    }

    /// Where to draw a line.
    fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            let next = |mark: &f64| Some(mark * 10.0).filter(|&mark| mark <= self.greatest * 1.01);
            std::iter::successors(Some(self.least), next).collect()
        } else {
            let rough = self.greatest / 5.0;
            let decade = 10f64.powf(rough.log10().floor());
            let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
            let step = step.into_iter().find(|&step| step >= rough).unwrap_or(rough);
            (0..).map(|n| f64::from(n) * step).take_while(|&mark| mark <= self.greatest).collect()
        }
    }
}

/// A row for each subject; what `series` tells apart differs in colour.
///
/// # Errors
/// If the file cannot be written.
pub fn rows(
    path: &Path,
    title: &str,
    records: &[Record],
    series: impl Fn(&Record) -> String,
) -> anyhow::Result<()> {
    let names = distinct(records, &series);
    let subjects = distinct(records, |record| record.subject.clone());
    let axis = Axis::of(records);
    let thick = if axis.logarithmic { 1 } else { names.len() as i32 };
    let row = thick * BAR + GAP;
    let height = TOP + row * subjects.len() as i32 + BOTTOM;
    write(path, (WIDTH as u32, height as u32), |area| {
        area.draw(&Text::new(title.to_owned(), (14, 10), text_style(19))).map_err(error)?;
        legend(area, &names)?;
        grid(area, &axis, height - BOTTOM)?;
        for (number, subject) in subjects.iter().enumerate() {
            let top = TOP + GAP / 2 + row * number as i32;
            let middle = top + thick * BAR / 2;
            let right = text_style(14).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(subject.clone(), (LEFT - 8, middle), right)).map_err(error)?;
            for record in records.iter().filter(|record| record.subject == *subject) {
                let name = series(record);
                let place = names.iter().position(|other| *other == name).unwrap_or(0);
                let colour = PALETTE[place % PALETTE.len()];
                let x = axis.pixel(record.median);
                if axis.logarithmic {
                    area.draw(&Circle::new((x, middle), 5, colour.filled())).map_err(error)?;
                } else {
                    bar(area, top + BAR * place as i32, x, colour, record)?;
                }
            }
        }
        Ok(())
    })
}

fn bar(
    area: &Area<'_>,
    top: i32,
    end: i32,
    colour: RGBColor,
    record: &Record,
) -> anyhow::Result<()> {
    let corners = [(LEFT, top), (end.max(LEFT + 1), top + BAR - 1)];
    area.draw(&Rectangle::new(corners, colour.filled())).map_err(error)?;
    let style = text_style(12).pos(Pos::new(HPos::Left, VPos::Center));
    let label = Text::new(short(record.median), (end + 5, top + BAR / 2), style);
    area.draw(&label).map_err(error)
}

fn legend(area: &Area<'_>, names: &[String]) -> anyhow::Result<()> {
    let mut x = LEFT;
    for (name, colour) in names.iter().zip(PALETTE.iter().cycle()) {
        area.draw(&Rectangle::new([(x, 40), (x + 12, 52)], colour.filled())).map_err(error)?;
        area.draw(&Text::new(name.clone(), (x + 17, 39), text_style(14))).map_err(error)?;
        x += 40 + 8 * name.chars().count() as i32;
    }
    Ok(())
}

fn grid(area: &Area<'_>, axis: &Axis, bottom: i32) -> anyhow::Result<()> {
    for mark in axis.marks() {
        let x = axis.pixel(mark);
        area.draw(&PathElement::new([(x, TOP), (x, bottom)], FAINT)).map_err(error)?;
        let style = text_style(12).color(&GREY).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(short(mark), (x, bottom + 6), style)).map_err(error)?;
    }
    area.draw(&PathElement::new([(LEFT, TOP), (LEFT, bottom)], INK)).map_err(error)
}
