//! Figures over a parameter: a line for each subject, both axes logarithmic.

use super::Record;
use super::draw::{FAINT, GREY, PALETTE, error, text_style, write};
use super::table::distinct;
use crate::figure::short;
use plotters::prelude::*;
use std::path::Path;

const WIDTH: i32 = 900;
/// The room for the names at the right.
const LEGEND: i32 = 250;

/// A number of things: `10 k`, `1 M`.
fn large(number: f64) -> String {
    match number {
        _ if number >= 1e6 => format!("{} M", number / 1e6),
        _ if number >= 1e3 => format!("{} k", number / 1e3),
        _ => number.to_string(),
    }
}

/// The least and the greatest, with a little room.
fn range(figures: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let least = figures.clone().fold(f64::MAX, f64::min);
    let greatest = figures.fold(f64::MIN_POSITIVE, f64::max);
    least / 1.3..greatest * 1.3
}

/// Draws the medians of these records, which are of one metric, over their parameter.
///
/// # Errors
/// If the file cannot be written.
pub fn curves(path: &Path, title: &str, records: &[Record]) -> anyhow::Result<()> {
    let shown = || records.iter().filter(|record| record.median > 0.0 && record.at > 0);
    let Some(first) = shown().next() else { return Ok(()) };
    let x = range(shown().map(|record| record.at as f64));
    let y = range(shown().map(|record| record.median));
    write(path, (WIDTH as u32, 500), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, text_style(19))
            .margin(14)
            .margin_right(LEGEND)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x.log_scale(), y.log_scale())
            .map_err(error)?;
        chart
            .configure_mesh()
            .x_desc(first.parameter)
            .y_desc(first.unit)
            .label_style(text_style(13))
            .axis_style(GREY)
            .bold_line_style(FAINT)
            .light_line_style(WHITE)
            .x_labels(4)
            .x_label_formatter(&|at| large(*at))
            .y_label_formatter(&|figure| short(*figure))
            .draw()
            .map_err(error)?;
        for (number, subject) in distinct(records, |r| r.subject.as_str()).iter().enumerate() {
            let colour = PALETTE[number % PALETTE.len()];
            let points: Vec<(f64, f64)> = shown()
                .filter(|record| record.subject == **subject)
                .map(|record| (record.at as f64, record.median))
                .collect();
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line).map_err(error)?;
            let dots = points.iter().map(|&point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(dots).map_err(error)?;
            let (x, y) = (WIDTH - LEGEND + 14, 50 + 22 * number as i32);
            let square = Rectangle::new([(x, y), (x + 12, y + 12)], colour.filled());
            area.draw(&square).map_err(error)?;
            let name = Text::new((*subject).to_owned(), (x + 18, y - 1), text_style(14));
            area.draw(&name).map_err(error)?;
        }
        Ok(())
    })
}
