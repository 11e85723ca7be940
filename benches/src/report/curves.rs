//! Figures over a parameter: a line for each subject, both axes logarithmic.

use super::Record;
use super::draw::{FAINT, GREY, INK, PALETTE, error, text_style, write};
use super::table::distinct;
use crate::figure::short;
use plotters::prelude::*;
use std::path::Path;

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
    write(path, (900, 500), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, text_style(19))
            .margin(14)
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
            .x_label_formatter(&|at| short(*at))
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
            chart.draw_series(line).map_err(error)?.label(*subject).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
            });
            let dots = points.iter().map(|&point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(dots).map_err(error)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(text_style(13))
            .background_style(WHITE.mix(0.8))
            .border_style(INK.mix(0.2))
            .draw()
            .map_err(error)
    })
}
