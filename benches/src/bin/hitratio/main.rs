//! Hit ratios of cortado and its rivals on recorded and made-up loads.
//!
//! ```text
//! cargo run --release -p cortado-benches --bin hitratio -- traces/*.trc.zst --csv ratios.csv --plots plots/
//! cargo run --release -p cortado-benches --bin hitratio -- traces/*.trc.zst --caches cortado --reference ratios.csv
//! cargo run --release -p cortado-benches --bin hitratio -- cluster4 cluster29 --mode ttl
//! cargo run --release -p cortado-benches --bin hitratio -- traces/*.trc.zst --mixed --parts 3 --sizes 0.3,3,30
//! ```
//!
//! Each request is looked up and, on a miss, inserted. A *case* is a trace with a capacity;
//! capacities are shares of the trace's keys (or of their total weight). *Lost* is by how many
//! points of hit ratio a cache is behind the best of the others in that case, those of
//! `--reference` files included: negative if it is ahead of all.
//!
//! The traces come in the formats that the `replay` example reads, or are its made-up workloads, by
//! name.

mod caches;
mod options;
mod play;
mod plot;
mod report;
mod scores;
mod simulate;
mod traces;

// The reader and the workloads of the `replay` example.
#[path = "../../../../examples/replay/src/trace.rs"]
#[allow(dead_code, reason = "the example uses the rest")]
mod trace;
#[path = "../../../../examples/replay/src/workload.rs"]
#[allow(dead_code, reason = "the example uses the rest")]
mod workload;

use anyhow::{Result, ensure};
use clap::Parser;
use options::{Mode, Options};
use scores::{Case, Scores};
use std::io::Write;
use std::process::ExitCode;
use traces::Trace;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be told if standard error is closed as well.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Replays a trace at each size with each cache.
#[expect(clippy::print_stdout, reason = "says how far it is")]
fn replay(trace: &Trace, options: &Options, scores: &mut Scores) -> Result<()> {
    println!("{}", trace.describe());
    for (class, share) in options.sizes.iter().enumerate() {
        let capacity = trace.capacity(*share, options);
        let case = Case { trace: trace.name.clone(), capacity };
        scores.classify(&case, class);
        for cache in options.caches() {
            if !scores.ran(&case, cache) {
                scores.add(&case, cache, play::mean(options, trace, cache, capacity)?);
            }
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn run(options: &Options) -> Result<()> {
    let mut scores = Scores::default();
    for path in &options.reference {
        scores.read(path, options.mode)?;
    }
    if options.mixed {
        ensure!(options.mode != Mode::Ttl, "traces that are mixed have no common time");
        let traces = options.traces.iter().map(|name| Trace::open(name, options));
        let mixed = Trace::mixed(&traces.collect::<Result<Vec<_>>>()?);
        for part in mixed.parts(options.parts) {
            replay(&part, options, &mut scores)?;
        }
    } else {
        for name in &options.traces {
            for part in Trace::open(name, options)?.parts(options.parts) {
                replay(&part, options, &mut scores)?;
            }
        }
    }
    if options.cases {
        println!("{}", report::cases(&scores, options));
    }
    println!("{}", report::summary(&scores, options));
    if options.runs > 1 {
        println!("{}", report::spreads(&scores, options));
    }
    if let Some(path) = &options.csv {
        scores.write(path)?;
    }
    if let Some(folder) = &options.plots {
        plot::draw(&scores, folder, options.mode == Mode::Bytes)?;
    }
    Ok(())
}
