//! What refresh costs: hits on fresh and on stale entries, and reloads, on one thread.
//!
//! Keys are numbers, drawn by zipf's law, values documents behind an `Arc`; the loader makes one.
//! By the system's clock. Rounds are interleaved, another case goes first in each, and figures are
//! medians with the lowest and the highest of the rounds, and the median of the rounds' ratios to
//! the first case.

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use cortado::{Builder, Cache, Job, Loaded, LoadingCache};
use cortado_benches::figure::{Figure, short};
use cortado_benches::key::Stream;
use cortado_benches::machine;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Measures what refresh costs.
#[derive(Parser)]
struct Options {
    /// Rounds of each measurement.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Keys, which are all in the cache.
    #[arg(long, default_value_t = 100_000)]
    entries: u64,
    /// Operations of each round.
    #[arg(long, default_value_t = 400_000)]
    operations: usize,
    /// A first look, with fewer rounds and operations.
    #[arg(long)]
    quick: bool,
}

type Document = Arc<[u64; 8]>;
type Subject = LoadingCache<u64, Document, Infallible>;

fn document(key: u64) -> Document {
    Arc::new([key; 8])
}

const HOUR: Duration = Duration::from_secs(3600);

fn builder(entries: u64) -> Builder<u64, Document> {
    Cache::builder().max_capacity(2 * entries).time_to_live(HOUR)
}

/// A cache with its entries, whose reloads wait for ever, or run at once.
fn subject(
    entries: u64,
    configure: impl FnOnce(Builder<u64, Document>) -> Builder<u64, Document>,
) -> Subject {
    let cache = configure(builder(entries))
        .build_with_loader(|key: u64| Ok::<_, Infallible>(Loaded::new(document(key))));
    (1..=entries).for_each(|key| cache.insert(key, document(key)));
    cache.run_pending_tasks();
    cache
}

/// Keeps jobs and runs none.
fn keeping(builder: Builder<u64, Document>) -> Builder<u64, Document> {
    let kept = Mutex::new(Vec::<Job>::new());
    builder.executor(move |job| {
        if let Ok(mut kept) = kept.lock() {
            kept.push(job);
        }
    })
}

/// Nanoseconds per operation.
fn timed(keys: &[u64], mut operate: impl FnMut(&u64)) -> f64 {
    let begun = Instant::now();
    keys.iter().for_each(&mut operate);
    begun.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn reads(cache: &Cache<u64, Document>, keys: &[u64]) -> f64 {
    timed(keys, |key| {
        black_box(cache.get(key).expect("it is there")[0]);
    })
}

type Case = fn(u64, &[u64]) -> f64;

const CASES: [(&str, Case); 7] = [
    ("hit, in a cache without refresh", |entries, keys| {
        let cache = builder(entries).build();
        (1..=entries).for_each(|key| cache.insert(key, document(key)));
        cache.run_pending_tasks();
        reads(&cache, keys)
    }),
    ("hit on a fresh entry", |entries, keys| {
        let cache = subject(entries, |builder| keeping(builder).refresh_after_write(HOUR / 2));
        reads(cache.cache(), keys)
    }),
    ("hit on a stale entry, its reload under way", |entries, keys| {
        let cache = subject(entries, |builder| {
            keeping(builder).refresh_after_write(Duration::ZERO).refresh_limit(usize::MAX)
        });
        (1..=entries).for_each(|key| drop(cache.cache().get(&key)));
        assert_eq!(cache.stats().reloads_under_way, entries);
        reads(cache.cache(), keys)
    }),
    ("hit on a stale entry, no place for its reload", |entries, keys| {
        let cache = subject(entries, |builder| {
            keeping(builder).refresh_after_write(Duration::ZERO).refresh_limit(1)
        });
        reads(cache.cache(), keys)
    }),
    ("hit on a stale entry, and its reload at once", |entries, keys| {
        let cache = subject(entries, |builder| {
            builder.refresh_after_write(Duration::ZERO).executor(|job: Job| job())
        });
        reads(cache.cache(), keys)
    }),
    ("a reload that a call asks for, at once", |entries, keys| {
        let cache = subject(entries, |builder| builder.executor(|job: Job| job()));
        timed(keys, |key| assert!(cache.refresh(key)))
    }),
    ("an update, in a cache without refresh", |entries, keys| {
        let cache = builder(entries).build();
        (1..=entries).for_each(|key| cache.insert(key, document(key)));
        cache.run_pending_tasks();
        timed(keys, |key| cache.insert(*key, document(*key)))
    }),
];

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let mut options = Options::parse();
    if options.quick {
        (options.rounds, options.operations) = (3, 50_000);
    }
    println!("{}\n", machine::description());
    let mut readings = vec![Vec::new(); CASES.len()];
    // The first round warms up.
    for round in 0..=options.rounds {
        let keys = Stream::Zipf.keys::<u64>(options.entries, options.operations, 0, round);
        for turn in 0..CASES.len() {
            let number = (round + turn) % CASES.len();
            let reading = CASES[number].1(options.entries, &keys);
            if round > 0 {
                readings[number].push(reading);
            }
        }
    }
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["operation", "ns", "to the first"]);
    for ((name, _), of_case) in CASES.iter().zip(&readings) {
        let Figure { median, low, high } = Figure::of(of_case);
        let [median, low, high] = [median, low, high].map(short);
        let ratios: Vec<f64> =
            of_case.iter().zip(&readings[0]).map(|(it, base)| it / base).collect();
        let ratio = format!("{:.2}", Figure::of(&ratios).median);
        table.add_row([(*name).to_owned(), format!("{median} ({low} to {high})"), ratio]);
    }
    println!("{table}");
}
