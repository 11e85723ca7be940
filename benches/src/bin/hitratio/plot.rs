//! Hit ratio over capacity: one picture per trace.

use crate::scores::{Case, Scores};
use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const SIZE: (u32, u32) = (900, 560);
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const FAINT: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);

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
    let (bottom, top) = ends(|&(_, y)| y);
    let margin = (0.05 * (top - bottom)).max(0.5);
    let mut chart = ChartBuilder::on(&root)
        .caption(trace, ("sans-serif", 20).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .right_y_label_area_size(150)
        .build_cartesian_2d(
            (left..right * 1.01).log_scale(),
            (bottom - margin).max(0.0)..top + margin,
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(("sans-serif", 13).into_font().color(&INK))
        .x_desc(if weighed { "capacity (weight)" } else { "capacity (entries)" })
        .y_desc("hit ratio (%)")
        .draw()?;
    for (number, (name, line)) in lines.iter().enumerate() {
        let own = *name == "cortado";
        let color = Palette99::pick(number).to_rgba();
        let color = if own { BLACK.to_rgba() } else { color };
        let style = color.stroke_width(if own { 3 } else { 1 });
        chart
            .draw_series(LineSeries::new(line.iter().copied(), style).point_size(2))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::Coordinate(SIZE.0 as i32 - 225, 0))
        .legend_area_size(24)
        .label_font(("sans-serif", 12).into_font().color(&INK))
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}
