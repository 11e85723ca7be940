//! Hit ratio over capacity: one picture per trace, with cortado, the marks and the best of the
//! others.

use crate::scores::{Case, Scores};
use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const SIZE: (u32, u32) = (1000, 560);
/// Room for the names.
const RIGHT: i32 = 260;
/// Rivals in a picture, those with the best mean over the trace's capacities.
const RIVALS: usize = 8;
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const FAINT: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);

/// Always in the picture.
const KEPT: [&str; 3] = ["cortado", "opt", "unbounded"];

type Line = Vec<(f64, f64)>;

/// Draws all traces into `folder`.
pub fn draw(scores: &Scores, folder: &Path, weighed: bool) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let traces: BTreeSet<&str> = scores.cases.iter().map(|case| case.trace.as_str()).collect();
    for trace in traces {
        let mut svg = String::new();
        paint(&mut svg, trace, &lines(scores, trace), weighed)
            .map_err(|error| anyhow!("cannot draw {trace}: {error}"))?;
        let path = folder.join(format!("{trace}.svg"));
        std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Each policy's points, in the order of the capacities.
fn lines<'a>(scores: &'a Scores, trace: &str) -> BTreeMap<&'a str, Line> {
    let mut lines = BTreeMap::<&str, Line>::new();
    let mut cases: Vec<&Case> = scores.cases.iter().filter(|case| case.trace == trace).collect();
    cases.sort();
    for case in cases {
        for (name, ratio) in scores.ratios(case) {
            lines.entry(name).or_default().push((case.capacity as f64, ratio * 100.0));
        }
    }
    let mut rivals: Vec<(&str, f64)> = lines
        .iter()
        .filter(|(name, _)| !KEPT.contains(name))
        .map(|(name, line)| (*name, line.iter().map(|(_, ratio)| ratio).sum()))
        .collect();
    rivals.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    for (name, _) in rivals.into_iter().skip(RIVALS) {
        lines.remove(name);
    }
    lines
}

fn paint(
    svg: &mut String,
    trace: &str,
    lines: &BTreeMap<&str, Line>,
    weighed: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || lines.values().flatten();
    let ends = |of: fn(&(f64, f64)) -> f64| {
        all().map(of).fold((f64::MAX, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (left, right) = ends(|&(x, _)| x);
    let capacities: Vec<f64> = lines
        .values()
        .max_by_key(|line| line.len())
        .map_or_else(Vec::new, |line| line.iter().map(|(x, _)| *x).collect());
    let (bottom, top) = ends(|&(_, y)| y);
    let margin = (0.05 * (top - bottom)).max(0.5);
    let mut chart = ChartBuilder::on(&root)
        .caption(trace, ("sans-serif", 20).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .margin_right(RIGHT)
        .build_cartesian_2d(
            (left..right * 1.01).log_scale().with_key_points(capacities),
            (bottom - margin).max(0.0)..top + margin,
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(("sans-serif", 13).into_font().color(&INK))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc(if weighed { "capacity (weight)" } else { "capacity (entries)" })
        .y_desc("hit ratio (%)")
        .draw()?;
    for (number, (name, line)) in lines.iter().enumerate() {
        let (color, width) = match *name {
            "cortado" => (BLACK.to_rgba(), 3),
            "opt" | "unbounded" => (INK.mix(0.4), 1),
            _ => (Palette99::pick(number).to_rgba(), 2),
        };
        let style = color.stroke_width(width);
        chart.draw_series(LineSeries::new(line.iter().copied(), style).point_size(2))?;
        // Its name beside the picture, in the same order for all pictures.
        let y = 50 + 20 * number as i32;
        let x = SIZE.0 as i32 - RIGHT;
        root.draw(&PathElement::new([(x, y), (x + 24, y)], style))?;
        root.draw(&Text::new(*name, (x + 32, y - 7), ("sans-serif", 14).into_font().color(&INK)))?;
    }
    root.present()?;
    Ok(())
}
