//! The command line.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// What is bounded, and what is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The number of entries is bounded; weights and lifetimes are ignored.
    Entries,
    /// The total weight is bounded; lifetimes are ignored. Byte hit ratios are shown as well.
    Bytes,
    /// The number of entries is bounded, and lifetimes are obeyed in the trace's own time.
    Ttl,
}

/// Compares hit ratios on cache traces.
#[derive(Debug, Parser)]
pub struct Options {
    /// Trace files, or made-up workloads: cluster4, cluster26, cluster29, cluster37, cluster50,
    /// cluster52.
    #[arg(required = true)]
    pub traces: Vec<String>,
    /// Capacities, in percent of the trace's keys (or of their total weight).
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 1.0, 5.0, 10.0, 20.0])]
    pub sizes: Vec<f64>,
    /// No capacity is below so many entries.
    #[arg(long, default_value_t = 16)]
    pub least: u64,
    #[arg(long, value_enum, default_value = "entries")]
    pub mode: Mode,
    /// In the mode `bytes`: weights of 1 to 100, by a hash of the key, in place of the trace's.
    #[arg(long)]
    pub hashed_weights: bool,
    /// What to run: `all`, or names out of the table that `all` prints. `simulated` and `lru` are
    /// the policy alone, without a cache around it.
    #[arg(long, value_delimiter = ',', default_values_t = ["all".to_owned()])]
    caches: Vec<String>,
    /// Threads that share each replay.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Replays of each case; their mean counts. Seeds differ.
    #[arg(long, default_value_t = 1)]
    pub runs: u64,
    /// `simulated` records a node's reads once while as many records are made as this part of the
    /// entries; 0: each read, and without any buffer.
    #[arg(long, default_value_t = 4)]
    pub record_period: u64,
    /// At most so many requests of each trace; a made-up workload has this many.
    #[arg(long)]
    pub requests: Option<u64>,
    /// Replays each trace in so many parts, each of them as a trace of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub parts: u64,
    /// Replays the traces as one in which they take turns, each as often as it is long, keys kept
    /// apart.
    #[arg(long)]
    pub mixed: bool,
    /// Hit ratios that are known already: lines of `trace,capacity,policy,hit_ratio`, as --csv
    /// writes.
    #[arg(long)]
    pub reference: Vec<PathBuf>,
    /// Prints each case, not only means.
    #[arg(long)]
    pub cases: bool,
    /// Writes all figures to this file.
    #[arg(long)]
    pub csv: Option<PathBuf>,
    /// Draws hit ratio over capacity, one SVG per trace, into this folder.
    #[arg(long)]
    pub plots: Option<PathBuf>,
}

impl Options {
    /// The caches to run, by name.
    pub fn caches(&self) -> Vec<&str> {
        if self.caches.iter().any(|name| name == "all") {
            crate::caches::names(self.mode)
        } else {
            self.caches.iter().map(String::as_str).collect()
        }
    }
}
