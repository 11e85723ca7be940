//! cortado against its rivals, in one run: the same keys, the same hasher, the same values, interleaved
//! rounds, medians. Read the figures as ratios: they depend on the machine and on what else it does.

mod adapters;
mod mass;
mod memory;
mod speed;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Compares cortado with moka (with an expiry policy) and quick_cache (which has no expiry).
#[derive(Debug, Parser)]
pub struct Options {
    /// Interleaved rounds; figures are their medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Operations per thread and round.
    #[arg(long, default_value_t = 1_000_000)]
    operations: usize,
    /// Keys of the zipf workloads.
    #[arg(long, default_value_t = 200_000)]
    keys: usize,
    /// Threads to run each workload with.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Only workloads whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() {
    let options = Options::parse();
    println!("{}", speed::run(&options));
    if options.only.is_empty() || "memory".contains(&options.only) {
        println!("{}", memory::run());
    }
    if options.only.is_empty() || "mass expiry".contains(&options.only) {
        println!("{}", mass::run(options.rounds));
    }
}
