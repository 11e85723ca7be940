//! What the plots have in common.

use anyhow::{Context, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

pub const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
pub const GREY: RGBColor = RGBColor(0x6a, 0x73, 0x7d);
pub const FAINT: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);

/// One colour after another, told apart also by those who see fewer.
pub const PALETTE: [RGBColor; 8] = [
    RGBColor(0x1f, 0x6f, 0xb4),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x55, 0x8a),
    RGBColor(0x7a, 0x5c, 0xa8),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0x7f, 0x7f, 0x7f),
];

pub fn text_style(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Of plotters, whose errors are not all `Send`.
pub fn error(error: impl std::error::Error) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

/// Paints on white and writes the file.
pub fn write(
    path: &Path,
    size: (u32, u32),
    paint: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // To memory first: plotters writes to a file only when dropped, and keeps its errors to itself.
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(error)?;
        paint(&area)?;
        area.present().map_err(error)?;
    }
    std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}
