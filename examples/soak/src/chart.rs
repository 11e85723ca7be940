//! What should not grow, over time: memory, lateness, the longest calls.

use crate::second::Second;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (1000, 900);
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const FAINT: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);
const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);

/// A panel's label, and its figure of a second.
type Panel = (&'static str, fn(&Second) -> f64);

const PANELS: [Panel; 4] = [
    ("resident, MiB", |second| second.resident_kib.map_or(0.0, |kib| kib as f64 / 1024.0)),
    ("entries", |second| second.entries as f64),
    ("late by, 99 %, ms", |second| second.late_micros as f64 / 1000.0),
    ("calls, 99.99 %, ms", |second| second.call_micros as f64 / 1000.0),
];

/// Draws to an SVG file.
pub fn draw(path: &Path, seconds: &[Second]) -> Result<()> {
    // To memory first: plotters writes to a file only when dropped, and keeps its errors to itself.
    let mut svg = String::new();
    paint(&mut svg, seconds).map_err(|error| anyhow!("cannot draw the chart: {error}"))?;
    std::fs::write(path, svg).map_err(|error| anyhow!("cannot write {}: {error}", path.display()))
}

fn paint(svg: &mut String, seconds: &[Second]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let operations = seconds.last().map_or(0, |second| second.operations);
    let title = format!("{operations} operations by threads that are born and die");
    let root = root.titled(&title, ("sans-serif", 20).into_font().color(&INK))?;
    let end = seconds.last().map_or(1.0, |second| second.at as f64);
    for (area, (label, figure)) in root.split_evenly((PANELS.len(), 1)).iter().zip(PANELS) {
        let line: Vec<(f64, f64)> =
            seconds.iter().map(|second| (second.at as f64, figure(second))).collect();
        let top = line.iter().map(|point| point.1).fold(1e-3, f64::max) * 1.15;
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(24)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .y_labels(5)
            .y_desc(label)
            .draw()?;
        chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2)))?;
    }
    root.present()?;
    Ok(())
}
