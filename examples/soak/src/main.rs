//! A cache under everything at once for as long as you like, by threads that are born and die all
//! the time:
//!
//! ```text
//! cargo run --release -p cortado-soak -- --seconds 600 --svg soak.svg --most-growth 1024 > soak.csv
//! ```
//!
//! It prints a line of figures each second, and draws what should not grow. At the end it closes
//! the cache and counts: every value that was given to it has been announced, once, and dropped.

mod chart;
mod heap;
mod second;
mod work;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cortado::{Cache, RemovalCause};
use second::{Growth, Second, growth};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use work::{Counted, Counts, Meters, employ};

/// Soaks a cache and prints CSV.
#[derive(Parser)]
struct Options {
    /// How long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Threads at any time.
    #[arg(long, default_value_t = 8)]
    threads: usize,
    /// Operations after which a thread ends and another takes its place.
    #[arg(long, default_value_t = 20_000)]
    lifespan: u64,
    /// Entries that the cache may hold.
    #[arg(long, default_value_t = 50_000)]
    capacity: u64,
    /// Keys in use, of which the low ones are asked for more often.
    #[arg(long, default_value_t = 200_000)]
    keys: u64,
    /// Where to draw memory, lateness and the longest calls.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Fail if the process occupies so many KiB more in its last minute than in its second, by
    /// their medians. Needs three minutes.
    #[arg(long, value_name = "KIB")]
    most_growth: Option<u64>,
}

type Subject = Cache<u64, Counted>;

fn main() -> Result<()> {
    let options = Options::parse();
    let (counts, meters) = (Arc::new(Counts::default()), Arc::new(Meters::new()));
    let (telling, measuring) = (Arc::clone(&counts), Arc::clone(&meters));
    let cache: Subject = Cache::builder()
        .max_capacity(options.capacity)
        .time_to_idle(Duration::from_secs(5))
        .expiry_resolution(Duration::from_millis(10))
        .scheduler(true)
        .record_stats(true)
        .removal_listener(move |removed| {
            telling.announced.fetch_add(1, Relaxed);
            if let Some(late) = removed.late_by() {
                measuring.late(late);
            }
        })
        .build();
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.seconds);
    let crew = {
        let (cache, counts, meters) = (cache.clone(), Arc::clone(&counts), Arc::clone(&meters));
        let (threads, lifespan, keys) = (options.threads, options.lifespan, options.keys);
        std::thread::spawn(move || employ(&cache, &counts, &meters, end, threads, lifespan, keys))
    };
    let seconds = report(&cache, &counts, &meters, begun, end)?;
    crew.join().ok().context("a thread has panicked")?;
    conclude(cache, &counts)?;
    if let Some(path) = &options.svg {
        chart::draw(path, &seconds)?;
    }
    if let Some(Growth { level, peak }) = growth(&seconds) {
        eprintln!("{level} KiB more in the last minute than in the second; {peak} KiB at the peak");
        let most = options.most_growth.unwrap_or(u64::MAX);
        ensure!(level <= most, "it grew by {level} KiB");
    }
    Ok(())
}

/// A line each second until the end.
fn report(
    cache: &Subject,
    counts: &Counts,
    meters: &Meters,
    begun: Instant,
    end: Instant,
) -> Result<Vec<Second>> {
    let mut out = io::stdout().lock();
    let mut seconds = Vec::new();
    writeln!(out, "{}", Second::HEADER)?;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_secs(1));
        let second = Second::now(begun.elapsed(), cache, counts, meters);
        writeln!(out, "{second}")?;
        out.flush()?;
        seconds.push(second);
    }
    Ok(seconds)
}

/// Closes the cache and counts.
fn conclude(cache: Subject, counts: &Counts) -> Result<()> {
    cache.audit();
    cache.close();
    let stats = cache.stats();
    let (announced, removed) = (
        counts.announced.load(Relaxed),
        RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum::<u64>(),
    );
    ensure!(stats.insertions == counts.made.load(Relaxed), "values that the cache did not count");
    ensure!(announced == removed && removed == stats.insertions, "not each was announced once");
    drop(cache);
    // The scheduler's thread may hold it a little longer.
    let patience = Instant::now() + Duration::from_secs(60);
    while counts.alive.load(Relaxed) != 0 {
        ensure!(Instant::now() < patience, "{} values are left", counts.alive.load(Relaxed));
        std::thread::yield_now();
    }
    eprintln!("{announced} values, each announced once and dropped");
    eprintln!("counted {} operations", counts.operations.load(Relaxed));
    Ok(())
}
