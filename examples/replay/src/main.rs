//! Replays a workload through a cache with per-entry lifetimes, as someone would who is choosing a
//! capacity and a lifetime policy before deploying:
//!
//! ```text
//! cargo run --release -p cortado-replay                     # a built-in workload
//! cargo run --release -p cortado-replay -- --help
//! cargo run --release -p cortado-replay -- requests.csv --capacity 50k --ttl 5m
//! ```
//!
//! It prints a table (hit ratios, removals by cause, how late expiry was, speed, memory), says what
//! limits the hit ratio, and draws a chart. A trace's own time drives the cache's clock, so that
//! hours of traffic take seconds; [`trace`] has the formats.

mod chart;
mod crew;
mod grid;
mod ledger;
mod memory;
mod options;
mod player;
mod report;
mod series;
mod session;
mod source;
mod target;
mod trace;
mod units;
mod workload;

use anyhow::Result;
use clap::Parser;
use options::Options;
use source::Source;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be told if standard error is closed as well.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    if !options.no_svg {
        target::check(&options.svg, options.trace.as_deref())?;
    }
    if !(options.capacities.is_empty() && options.lifetimes.is_empty()) {
        let grid = grid::run(options)?;
        print(&grid.render())?;
        if !options.no_svg {
            grid.draw(&options.svg)?;
            print(&format!("\nChart: {}\n", options.svg.display()))?;
        }
        return Ok(());
    }
    let mut source = Source::open(options)?;
    let summary = session::run(options, &mut source)?;
    print(&report::render(options, &source, &summary))?;
    if !options.no_svg {
        chart::draw(&options.svg, &source.title, options, &summary)?;
        print(&format!("\nChart: {}\n", options.svg.display()))?;
    }
    Ok(())
}

/// Prints `text`; that a reader such as `head` has seen enough is no error.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
