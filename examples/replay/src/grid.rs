//! Many runs over the same requests: a table and a chart of miss ratios by capacity and lifetime.

use crate::chart::{self, Curve};
use crate::options::Options;
use crate::session;
use crate::source::Source;
use crate::units::{duration, thousands};
use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL};
use std::time::Duration;

/// The miss ratio, in percent, of each lifetime with each capacity.
pub struct Grid {
    title: String,
    capacities: Vec<u64>,
    rows: Vec<Row>,
}

struct Row {
    /// `None` is what the options say without `--lifetimes`.
    lifetime: Option<Duration>,
    misses: Vec<f64>,
}

/// Replays the requests once for each pair of a capacity and a lifetime.
pub fn run(options: &Options) -> Result<Grid> {
    if options.trace.as_deref() == Some("-") {
        bail!("standard input can be read once, and each capacity and lifetime reads the trace");
    }
    let lifetimes: Vec<_> = match &options.lifetimes[..] {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let mut capacities = options.capacities.clone();
    let mut title = String::new();
    let mut rows = Vec::new();
    for lifetime in lifetimes {
        let mut misses = Vec::new();
        let mut of_run = options.clone();
        if lifetime.is_some() {
            (of_run.ttl, of_run.ignore_ttl) = (lifetime, true);
        }
        if capacities.is_empty() {
            capacities.push(options.capacity.unwrap_or(Source::open(options)?.capacity));
        }
        for &capacity in &capacities {
            of_run.capacity = Some(capacity);
            let mut source = Source::open(&of_run)?;
            let counts = session::run(&of_run, &mut source)?.counts;
            let share = (counts.lookups - counts.hits) as f64 / counts.lookups.max(1) as f64;
            misses.push(100.0 * share);
            title = source.title;
        }
        rows.push(Row { lifetime, misses });
    }
    Ok(Grid { title, capacities, rows })
}

impl Row {
    fn name(&self) -> String {
        self.lifetime.map_or_else(|| "as the trace has them".to_owned(), duration)
    }
}

impl Grid {
    pub fn render(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL).apply_modifier(comfy_table::modifiers::UTF8_ROUND_CORNERS);
        let capacities = self.capacities.iter().map(|&capacity| thousands(capacity));
        table.set_header([vec!["lifetimes".to_owned()], capacities.collect()].concat());
        for row in &self.rows {
            let misses = row.misses.iter().map(|misses| format!("{misses:.2} %"));
            table.add_row([vec![row.name()], misses.collect()].concat());
        }
        table.column_iter_mut().skip(1).for_each(|column| {
            column.set_cell_alignment(CellAlignment::Right);
        });
        format!("{}\nmiss ratio, by lifetime and capacity in entries\n\n{table}\n", self.title)
    }

    pub fn draw(&self, path: &std::path::Path) -> Result<()> {
        let curve = |row: &Row| {
            let capacities = self.capacities.iter().map(|&capacity| capacity as f64);
            let mut points: Vec<_> = capacities.zip(row.misses.iter().copied()).collect();
            points.sort_by(|left, right| left.0.total_cmp(&right.0));
            Curve { name: row.name(), points }
        };
        let curves: Vec<Curve> = self.rows.iter().map(curve).collect();
        chart::draw_misses(path, &self.title, &curves)
    }
}
