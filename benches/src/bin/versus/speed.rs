//! Nanoseconds per operation, per thread.

use crate::Options;
use crate::adapters::{NAMES, Subject, make};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

struct Workload {
    name: &'static str,
    /// Capacity and initial fill, as shares of the number of keys.
    capacity: f64,
    filled: f64,
    keys: Keys,
    step: fn(&dyn Subject, u64, usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Keys {
    One,
    Zipf,
    Unique,
}

const WORKLOADS: &[Workload] = &[
    Workload { name: "one hot key", capacity: 2.0, filled: 1.0, keys: Keys::One, step: read },
    Workload {
        name: "zipf 0.99 reads, all resident",
        capacity: 2.0,
        filled: 1.0,
        keys: Keys::Zipf,
        step: read,
    },
    Workload {
        name: "90 % reads, 10 % updates",
        capacity: 2.0,
        filled: 1.0,
        keys: Keys::Zipf,
        step: nine_to_one,
    },
    Workload { name: "updates", capacity: 2.0, filled: 1.0, keys: Keys::Zipf, step: write },
    Workload {
        name: "read-through at 10 % of the keys",
        capacity: 0.1,
        filled: 0.1,
        keys: Keys::Zipf,
        step: read_through,
    },
    Workload {
        name: "unique inserts, full",
        capacity: 0.25,
        filled: 0.5,
        keys: Keys::Unique,
        step: write,
    },
];

fn read(cache: &dyn Subject, key: u64, _: usize) {
    black_box(cache.get(key));
}

fn write(cache: &dyn Subject, key: u64, _: usize) {
    cache.insert(key, key);
}

fn nine_to_one(cache: &dyn Subject, key: u64, step: usize) {
    if step.is_multiple_of(10) { write(cache, key, step) } else { read(cache, key, step) }
}

fn read_through(cache: &dyn Subject, key: u64, _: usize) {
    if cache.get(key).is_none() {
        cache.insert(key, key);
    }
}

/// The keys of one thread.
fn keys(options: &Options, kind: Keys, thread: usize, round: usize) -> Vec<u64> {
    let stream = (round * 64 + thread) as u64;
    match kind {
        Keys::One => vec![7; options.operations],
        Keys::Unique => (0..options.operations as u64).map(|n| (stream + 1) << 40 | n).collect(),
        Keys::Zipf => {
            let zipf = Zipf::new(options.keys as f64, 0.99).expect("valid parameters");
            let mut rng = SmallRng::seed_from_u64(stream);
            (0..options.operations).map(|_| zipf.sample(&mut rng) as u64).collect()
        }
    }
}

/// Mean nanoseconds per operation of the threads.
fn time(cache: &dyn Subject, step: fn(&dyn Subject, u64, usize), keys: &[Vec<u64>]) -> f64 {
    let barrier = Barrier::new(keys.len());
    let timed = |keys: &Vec<u64>| {
        barrier.wait();
        let start = Instant::now();
        keys.iter().enumerate().for_each(|(n, &key)| step(cache, key, n));
        start.elapsed().as_nanos() as f64 / keys.len() as f64
    };
    let timed = &timed;
    std::thread::scope(|scope| {
        let threads: Vec<_> = keys.iter().map(|keys| scope.spawn(move || timed(keys))).collect();
        let total: f64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        total / keys.len() as f64
    })
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// A row per workload and number of threads: each cache's median and what it is of cortado's.
pub fn run(options: &Options) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    let header = ["ns per operation (× cortado)", "threads"].into_iter().chain(NAMES);
    table.set_header(header);
    let wanted = |workload: &&Workload| workload.name.contains(&options.only);
    for workload in WORKLOADS.iter().filter(wanted) {
        for &threads in &options.threads {
            let medians = measure(options, workload, threads);
            let cells = medians.iter().map(|ns| format!("{ns:.0} ({:.2}×)", ns / medians[0]));
            table.add_row([workload.name.to_owned(), threads.to_string()].into_iter().chain(cells));
        }
    }
    table
}

fn measure(options: &Options, workload: &Workload, threads: usize) -> Vec<f64> {
    let share = |share: f64| (options.keys as f64 * share) as u64;
    let mut figures = vec![Vec::new(); NAMES.len()];
    for round in 0..options.rounds {
        let keys: Vec<_> =
            (0..threads).map(|thread| keys(options, workload.keys, thread, round)).collect();
        // Another one goes first in each round.
        for turn in 0..NAMES.len() {
            let subject = (turn + round) % NAMES.len();
            let cache = make(NAMES[subject], share(workload.capacity));
            (0..=share(workload.filled)).for_each(|key| cache.insert(key, key));
            cache.settle();
            figures[subject].push(time(&*cache, workload.step, &keys));
        }
    }
    figures.into_iter().map(median).collect()
}
