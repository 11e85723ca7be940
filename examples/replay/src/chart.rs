//! The chart: hit ratio above, resident entries below, both over the same time.

use crate::options::Options;
use crate::series::Point;
use crate::session::Summary;
use crate::units::{counted, percent, thousands};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use std::array;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

const SIZE: (u32, u32) = (1000, 700);
const BINS: usize = 160;
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const FAINT: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);
const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);
const ORANGE: RGBColor = RGBColor(0xd9, 0x6c, 0x1e);
const GREEN: RGBColor = RGBColor(0x2a, 0x8c, 0x5c);
const RED: RGBColor = RGBColor(0xb8, 0x32, 0x32);

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Line = Vec<(f64, f64)>;

/// Draws `summary` to an SVG file.
pub fn draw(path: &Path, title: &str, options: &Options, summary: &Summary) -> Result<()> {
    let time = Axis::new(summary);
    let points = summary.series.bins(BINS, |point| time.place(point));
    // Drawn to memory first: plotters writes to a file when dropped, and hides its errors.
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        paint(&root, title, &time, &points, options, summary)
            .map_err(|e| anyhow!("cannot draw the chart: {e}"))?;
    }
    fs::write(path, svg).map_err(|e| anyhow!("cannot write {}: {e}", path.display()))
}

/// A line of the chart of miss ratios.
pub struct Curve {
    pub name: String,
    /// Capacity in entries, and miss ratio in percent; the smallest capacity first.
    pub points: Line,
}

/// Draws miss ratios by capacity to an SVG file.
pub fn draw_misses(path: &Path, title: &str, curves: &[Curve]) -> Result<()> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        paint_misses(&root, title, curves).map_err(|e| anyhow!("cannot draw the chart: {e}"))?;
    }
    fs::write(path, svg).map_err(|e| anyhow!("cannot write {}: {e}", path.display()))
}

fn paint_misses(root: &Panel<'_>, title: &str, curves: &[Curve]) -> Drawn {
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 22).into_font().color(&INK))?;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let widest = points().map(|&(capacity, _)| capacity).fold(1.0, f64::max);
    let highest = points().map(|&(_, misses)| misses).fold(1.0, f64::max);
    let top = (1.1 * highest).min(100.0);
    let below = "capacity in entries";
    let mut chart = axes(&root, 0.0..1.03 * widest, 0.0..top, "miss ratio (%)", below)?;
    for (curve, color) in curves.iter().zip([BLUE, ORANGE, GREEN, RED, INK].into_iter().cycle()) {
        let style = color.stroke_width(2);
        let dots = curve.points.iter().map(|&point| Circle::new(point, 4, color.filled()));
        chart.draw_series(dots)?;
        chart
            .draw_series(LineSeries::new(curve.points.clone(), style))?
            .label(curve.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

/// The horizontal axis: trace time, or requests where there is none.
struct Axis {
    label: String,
    range: Range<f64>,
    timed: bool,
    unit: f64,
}

impl Axis {
    fn new(summary: &Summary) -> Self {
        let (timed, last) = match summary.timed && summary.span > Duration::ZERO {
            true => (true, summary.span.as_secs_f64()),
            false => (false, summary.counts.requests as f64),
        };
        let units: &[(f64, &str)] = if timed {
            &[(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")]
        } else {
            &[(1e6, "millions"), (1e3, "thousands"), (1.0, "")]
        };
        let fits = |(unit, _): &&(f64, &str)| last >= 3.0 * unit;
        let (unit, name) = units.iter().find(fits).copied().unwrap_or((1.0, "seconds"));
        let label = match (timed, name) {
            (true, name) => format!("trace time ({name})"),
            (false, "millions" | "thousands") => format!("requests ({name})"),
            (false, _) => "requests".to_owned(),
        };
        Self { label, range: 0.0..(last / unit).max(f64::MIN_POSITIVE), timed, unit }
    }

    fn place(&self, point: &Point) -> f64 {
        let place = if self.timed { point.at.as_secs_f64() } else { point.requests as f64 };
        place / self.unit
    }
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn paint(
    root: &Panel<'_>,
    title: &str,
    time: &Axis,
    points: &[Point],
    options: &Options,
    summary: &Summary,
) -> Drawn {
    root.fill(&WHITE)?;
    let heading = ("sans-serif", 22).into_font().color(&INK);
    let root = root.titled(title, heading)?;
    let ratio = percent(summary.counts.hits as f64, summary.counts.lookups as f64);
    let subtitle = format!(
        "{}, hit ratio {ratio}, at most {} resident",
        counted(summary.counts.requests, "request", "requests"),
        counted(summary.peak.resident, "entry", "entries")
    );
    let root = root.titled(&subtitle, ("sans-serif", 15).into_font().color(&INK))?;
    let (above, below) = root.split_vertically(345);
    hit_ratio(&above, time, points, summary)?;
    let bound = options.max_weight.is_none().then_some(summary.bound as f64);
    resident(&below, time, points, bound)
}

fn hit_ratio(panel: &Panel<'_>, time: &Axis, points: &[Point], summary: &Summary) -> Drawn {
    let share = |hits: u64, lookups: u64| 100.0 * hits as f64 / lookups as f64;
    let looked = || points.iter().filter(|point| point.lookups > 0);
    let now: Line = looked().map(|p| (time.place(p), share(p.hits, p.lookups))).collect();
    let (mut hits, mut lookups) = (0, 0);
    let so_far: Line = looked()
        .map(|p| {
            (hits, lookups) = (hits + p.hits, lookups + p.lookups);
            (time.place(p), share(hits, lookups))
        })
        .collect();
    let ideal = 100.0 * summary.causes.ideal_hits / summary.causes.lookups.max(1.0);
    let ideal = vec![(time.range.start, ideal), (time.range.end, ideal)];

    let mut chart = axes(panel, time.range.clone(), 0.0..100.0, "hit ratio (%)", "")?;
    let style = |color: RGBColor, width| color.stroke_width(width);
    let entries: [(Line, ShapeStyle, &str); 2] =
        [(now, style(BLUE, 2), "at the time"), (so_far, style(ORANGE, 2), "so far")];
    for (line, style, name) in entries {
        chart
            .draw_series(LineSeries::new(line, style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    }
    chart
        .draw_series(DashedLineSeries::new(ideal, 6, 5, style(GREEN, 2)))?
        .label("whole run, with room for everything")
        .legend(move |(x, y)| dashes(x, y, style(GREEN, 2)));
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

fn resident(panel: &Panel<'_>, time: &Axis, points: &[Point], bound: Option<f64>) -> Drawn {
    let mut line: Line = vec![(0.0, 0.0)];
    line.extend(points.iter().map(|p| (time.place(p), p.resident as f64)));
    let most = line.iter().map(|&(_, y)| y).fold(1.0, f64::max);
    // A bound far above what is used would flatten the curve: then it stays out of the picture.
    let bound = bound.filter(|&bound| bound <= 3.0 * most);
    let top = 1.12 * bound.unwrap_or(0.0).max(most);

    let mut chart = axes(panel, time.range.clone(), 0.0..top, "resident entries", &time.label)?;
    let mut area = line.clone();
    area.push((time.range.end, 0.0));
    chart.draw_series([Polygon::new(area, BLUE.mix(0.15))])?;
    let style = BLUE.stroke_width(2);
    chart
        .draw_series(LineSeries::new(line, style))?
        .label("resident entries")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    if let Some(bound) = bound {
        let line = [(time.range.start, bound), (time.range.end, bound)];
        let style = RED.stroke_width(2);
        chart
            .draw_series(DashedLineSeries::new(line, 6, 5, style))?
            .label("capacity")
            .legend(move |(x, y)| dashes(x, y, style));
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// A panel with its axes, the lower one being labelled `below`.
fn axes<'a, 'b>(
    panel: &'a Panel<'b>,
    x: Range<f64>,
    y: Range<f64>,
    left: &str,
    below: &str,
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(panel)
        .margin(12)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(("sans-serif", 14).into_font().color(&INK))
        .x_labels(10)
        .y_labels(6)
        .x_desc(below)
        .y_desc(left)
        .x_label_formatter(&|x| {
            if x.fract() == 0.0 { format!("{x:.0}") } else { format!("{x:.1}") }
        })
        .y_label_formatter(&|y| thousands(y.round() as u64))
        .draw()?;
    Ok(chart)
}

fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>, at: SeriesLabelPosition) -> Drawn {
    chart
        .configure_series_labels()
        .position(at)
        .margin(12)
        .legend_area_size(32)
        .label_font(("sans-serif", 14).into_font().color(&INK))
        .background_style(WHITE.mix(0.85))
        .border_style(FAINT)
        .draw()?;
    Ok(())
}

fn dashes(
    x: i32,
    y: i32,
    style: ShapeStyle,
) -> DashedPathElement<array::IntoIter<(i32, i32), 2>, u32> {
    DashedPathElement::new([(x, y), (x + 24, y)], 6, 3, style)
}
