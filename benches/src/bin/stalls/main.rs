//! What may delay a call, or hold memory back, against a bar for each: a million entries that come
//! due at one instant, cascade or are cleared; clocks that jump; keys of one hash; 20,000 loads and
//! computations under way; a listener that is stuck; a guard that is held. Ends with an error if a
//! bar is missed.
//!
//! Processor time is not free of what the machine does besides: where it is a virtual one, what its
//! host takes away counts as the thread's. Hence medians of rounds, beside the worst of them and a
//! control in which nothing happens: what the cache does itself, it does in each round.

mod flights;
mod guard;
mod hashes;
mod listener;
mod moments;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use cortado_benches::figure::Figure;
use cortado_benches::heap::Heap;
use cortado_benches::machine::description_with_allocator;
use std::time::Duration;

#[global_allocator]
static HEAP: Heap = Heap;

/// Measures what may delay a call to cortado, and fails over the bar.
#[derive(Debug, Parser)]
struct Options {
    /// Entries that come due, cascade or are cleared at once.
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// For how many seconds the listener is stuck.
    #[arg(long, default_value_t = 10)]
    stuck: u64,
    /// For how many seconds the guard is held.
    #[arg(long, default_value_t = 3)]
    held: u64,
    /// Only measurements whose names contain this.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

/// A figure and what it may be at most.
struct Row {
    name: String,
    calls: u64,
    /// The figure of each round.
    readings: Vec<f64>,
    unit: &'static str,
    /// Rows without one are for information.
    bar: Option<f64>,
}

impl Row {
    fn passes(&self) -> bool {
        self.bar.is_none_or(|bar| Figure::of(&self.readings).median <= bar)
    }
}

fn measure(options: &Options) -> Vec<Row> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|part| name.contains(part));
    let mut rows = Vec::new();
    for moment in moments::ALL.iter().filter(|moment| wanted(moment.name)) {
        rows.push(moments::measure(moment, options.entries, options.rounds));
    }
    if wanted(hashes::NAME) {
        rows.push(hashes::measure(options.rounds));
    }
    if wanted(flights::NAME) {
        rows.extend(flights::measure(options.rounds));
    }
    if wanted(listener::NAME) {
        rows.push(listener::measure(Duration::from_secs(options.stuck), options.rounds));
    }
    if wanted(guard::NAME) {
        rows.extend(guard::measure(Duration::from_secs(options.held)));
    }
    rows
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    println!("{}\n{} rounds\n", description_with_allocator(), options.rounds);
    let rows = measure(&options);
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["what", "calls", "median", "worst", "unit", "bar", ""]);
    for row in &rows {
        let figure = Figure::of(&row.readings);
        table.add_row([
            row.name.clone(),
            row.calls.to_string(),
            format!("{:.1}", figure.median),
            format!("{:.1}", figure.high),
            row.unit.to_owned(),
            row.bar.map_or(String::new(), |bar| format!("{bar}")),
            if row.passes() { "" } else { "MISSED" }.to_owned(),
        ]);
    }
    for column in [1, 2, 3, 5] {
        table.column_mut(column).expect("there").set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    anyhow::ensure!(rows.iter().all(Row::passes), "over the bar");
    Ok(())
}
