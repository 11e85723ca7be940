//! Two checkouts of cortado, and quick_cache, in one process: interleaved rounds, medians and
//! quartiles, and the ratios between them.

mod subject;
mod workload;

use clap::{Parser, ValueEnum};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use std::sync::{Arc, Barrier};
use std::time::Instant;
use subject::{NAMES, Subject, Value, build};
use workload::{Workload, stream};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Compares a base with a new checkout of cortado, beside quick_cache.
#[derive(Debug, Parser)]
struct Options {
    /// Threads at once.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// The number of keys.
    #[arg(long, default_value_t = 300_000)]
    keys: u64,
    /// Operations per thread in each round.
    #[arg(long, default_value_t = 200_000)]
    operations: usize,
    /// `u64`, or a document behind an `Arc`.
    #[arg(long, default_value = "arc")]
    values: Values,
    /// Only these workloads.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Values {
    U64,
    Arc,
}

fn main() {
    let options = Options::parse();
    let only = &options.only;
    for workload in Workload::value_variants() {
        if only.is_empty() || only.contains(workload) {
            for &threads in &options.threads {
                match options.values {
                    Values::U64 => report::<u64>(&options, *workload, threads),
                    Values::Arc => report::<Arc<subject::Document>>(&options, *workload, threads),
                }
            }
        }
    }
}

/// Measures one workload, and prints a line for each subject.
fn report<V: Value>(options: &Options, workload: Workload, threads: usize) {
    let mut readings = measure::<V>(options, workload, threads);
    readings.iter_mut().for_each(|of_one| of_one.sort_by(f64::total_cmp));
    let quantile = |of_one: &[f64], share: usize| of_one[(of_one.len() - 1) * share / 4];
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header([
        "subject",
        "lower quartile",
        "median, ns",
        "upper quartile",
        "× base",
        "× quick_cache",
    ]);
    let medians: Vec<f64> = readings.iter().map(|of_one| quantile(of_one, 2)).collect();
    for (number, of_one) in readings.iter().enumerate() {
        let quartile = |share| format!("{:.1}", quantile(of_one, share));
        let to = |other: usize| format!("{:.2}", medians[number] / medians[other]);
        table.add_row([NAMES[number].into(), quartile(1), quartile(2), quartile(3), to(0), to(2)]);
    }
    println!("{}, {threads} threads\n{table}\n", workload.name());
}

/// The nanoseconds per operation of each subject in each round.
fn measure<V: Value>(options: &Options, workload: Workload, threads: usize) -> Vec<Vec<f64>> {
    let subjects: Vec<Box<dyn Subject<V>>> =
        NAMES.iter().map(|name| build(name, workload.capacity(options.keys))).collect();
    for subject in &subjects {
        let filled = workload.filled(options.keys);
        // The last one is updated and read once, as the cache of any service is: cortado learns by
        // the first call of a hook whether it is the trait's default.
        for key in (0..filled).chain([filled - 1]) {
            subject.insert(key, V::of(key));
            if key % 512 == 0 {
                subject.maintain();
            }
        }
        subject.get(filled - 1);
        subject.maintain();
    }
    let mut readings = vec![Vec::new(); subjects.len()];
    for round in 0..=options.rounds {
        let number = |thread: usize| (round * threads + thread) as u64;
        let keys: Vec<Vec<u64>> = (0..threads)
            .map(|thread| stream(workload, options.keys, options.operations, number(thread)))
            .collect();
        // Each subject comes first in turn.
        for step in 0..subjects.len() {
            let at = (step + round) % subjects.len();
            let reading = drive(&*subjects[at], workload, &keys);
            // The first round warms up.
            if round > 0 {
                readings[at].push(reading);
            }
        }
    }
    readings
}

/// Runs the operations on all threads at once. Returns nanoseconds per operation of a thread.
fn drive<V: Value>(subject: &dyn Subject<V>, workload: Workload, keys: &[Vec<u64>]) -> f64 {
    let barrier = Barrier::new(keys.len());
    let timed = |keys: &[u64]| {
        barrier.wait();
        let start = Instant::now();
        for (number, &key) in keys.iter().enumerate() {
            workload.step(subject, key, number);
        }
        start.elapsed().as_nanos() as f64 / keys.len() as f64
    };
    std::thread::scope(|scope| {
        let timed = &timed;
        let threads: Vec<_> = keys.iter().map(|keys| scope.spawn(move || timed(keys))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panics")).fold(0.0, f64::max)
    })
}
