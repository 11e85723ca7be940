//! A cache under everything at once for as long as you like, by threads that are born and die all the time:
//!
//! ```text
//! cargo run --release --example soak -- --seconds 3600 > soak.csv
//! ```
//!
//! It prints a line of figures each second, for a plot of what grows and should not. At the end it closes
//! the cache and counts: every value that was given to it has been announced, once, and dropped.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cortado::{Cache, Op, RemovalCause};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

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
}

/// What is counted outside of the cache.
#[derive(Default)]
struct Counts {
    alive: AtomicI64,
    made: AtomicU64,
    announced: AtomicU64,
    operations: AtomicU64,
    born: AtomicU64,
}

/// A value that is counted while it lives.
struct Counted(Arc<Counts>);

impl Counted {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.alive.fetch_add(1, Relaxed);
        counts.made.fetch_add(1, Relaxed);
        Self(Arc::clone(counts))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Relaxed);
    }
}

type Subject = Cache<u64, Counted>;

fn main() -> Result<()> {
    let options = Options::parse();
    let counts = Arc::new(Counts::default());
    let telling = Arc::clone(&counts);
    let cache: Subject = Cache::builder()
        .max_capacity(options.capacity)
        .time_to_idle(Duration::from_secs(5))
        .expiry_resolution(Duration::from_millis(10))
        .scheduler(true)
        .record_stats(true)
        .removal_listener(move |_| _ = telling.announced.fetch_add(1, Relaxed))
        .build();
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.seconds);
    let crew = {
        let (cache, counts) = (cache.clone(), Arc::clone(&counts));
        let (threads, lifespan, keys) = (options.threads, options.lifespan, options.keys);
        std::thread::spawn(move || employ(&cache, &counts, end, threads, lifespan, keys))
    };
    report(&cache, &counts, begun, end)?;
    crew.join().ok().context("a thread has panicked")?;
    conclude(cache, &counts)
}

/// Keeps so many threads at work until the end, each for its lifespan.
fn employ(
    cache: &Subject,
    counts: &Arc<Counts>,
    end: Instant,
    threads: usize,
    lifespan: u64,
    keys: u64,
) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while Instant::now() < end {
                    let seed = counts.born.fetch_add(1, Relaxed);
                    let (cache, counts) = (cache.clone(), Arc::clone(counts));
                    let life = std::thread::spawn(move || {
                        work(&cache, &counts, &mut SmallRng::seed_from_u64(seed), lifespan, keys);
                    });
                    life.join().expect("the life of a thread");
                }
            });
        }
    });
}

/// The life of a thread.
fn work(cache: &Subject, counts: &Arc<Counts>, random: &mut SmallRng, lifespan: u64, keys: u64) {
    for _ in 0..lifespan {
        // The lower of two: low keys more often.
        let key = random.random_range(0..keys).min(random.random_range(0..keys));
        let life = Duration::from_millis(random.random_range(0..3000));
        let value = || Counted::new(counts);
        match random.random_range(0..64) {
            0..8 => cache.insert(key, value()),
            8..12 => cache.insert_with_ttl(key, value(), life),
            12..20 => drop(cache.entry(key).and_compute_with(|entry| match entry {
                Some(_) => Op::Nop,
                None => Op::Put(value()),
            })),
            20..22 => drop(cache.entry(key).and_compute_with(|_| Op::Remove)),
            22..24 => cache.invalidate(&key),
            24..26 => drop(cache.set_ttl(&key, life)),
            26 if random.random_range(0..20_000) == 0 => cache.invalidate_all(),
            27 if random.random_range(0..20_000) == 0 => {
                cache.retain(|key, _| !key.is_multiple_of(100));
            }
            28..36 => drop(cache.get_entry(&key)),
            _ => drop(cache.pin().get(&key).map(|value| value.0.born.load(Relaxed))),
        }
    }
    counts.operations.fetch_add(lifespan, Relaxed);
}

/// A line each second until the end.
fn report(cache: &Subject, counts: &Counts, begun: Instant, end: Instant) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "seconds,operations,threads_born,entries,values_alive,resident_kib,replaced,explicit,expired,\
         size,hit_ratio"
    )?;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_secs(1));
        let stats = cache.stats();
        let [replaced, explicit, expired, size] = [
            RemovalCause::Replaced,
            RemovalCause::Explicit,
            RemovalCause::Expired,
            RemovalCause::Size,
        ]
        .map(|cause| stats.removed(cause));
        writeln!(
            out,
            "{},{},{},{},{},{},{replaced},{explicit},{expired},{size},{:.3}",
            begun.elapsed().as_secs(),
            counts.operations.load(Relaxed),
            counts.born.load(Relaxed),
            stats.entries,
            counts.alive.load(Relaxed),
            resident_kib().map_or(String::new(), |kib| kib.to_string()),
            stats.hit_ratio(),
        )?;
        out.flush()?;
    }
    Ok(())
}

/// What the system says that this process occupies, where it does.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
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
    Ok(())
}
