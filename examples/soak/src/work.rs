//! What the threads do, and what is counted and measured outside of the cache.

use crate::Subject;
use cortado::Op;
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is counted outside of the cache.
#[derive(Default)]
pub struct Counts {
    pub alive: AtomicI64,
    pub made: AtomicU64,
    pub announced: AtomicU64,
    pub operations: AtomicU64,
    pub born: AtomicU64,
}

/// A value that is counted while it lives.
pub struct Counted(Arc<Counts>);

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

/// Durations in microseconds, up to a minute, of this second.
type Meter = Mutex<Histogram<u64>>;

fn meter() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 2).expect("the bounds are in order")
}

/// What is measured in each second.
pub struct Meters {
    calls: Meter,
    lateness: Meter,
}

impl Meters {
    pub fn new() -> Self {
        Self { calls: Mutex::new(meter()), lateness: Mutex::new(meter()) }
    }

    pub fn late(&self, by: Duration) {
        self.lateness.lock().expect("nobody panics").saturating_record(by.as_micros() as u64);
    }

    /// The 99.99 % point of the calls and the 99 % point of the lateness since the last time.
    pub fn take(&self) -> (u64, u64) {
        let take = |meter: &Meter, quantile| {
            let mut meter = meter.lock().expect("nobody panics");
            let value = meter.value_at_quantile(quantile);
            meter.reset();
            value
        };
        (take(&self.calls, 0.9999), take(&self.lateness, 0.99))
    }
}

/// Keeps so many threads at work until the end, each for its lifespan.
pub fn employ(
    cache: &Subject,
    counts: &Arc<Counts>,
    meters: &Arc<Meters>,
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
                    let meters = Arc::clone(meters);
                    let life = std::thread::spawn(move || {
                        let mut random = SmallRng::seed_from_u64(seed);
                        work(&cache, &counts, &meters, &mut random, lifespan, keys);
                    });
                    life.join().expect("the life of a thread");
                }
            });
        }
    });
}

/// Operations whose durations a thread hands in together.
const BATCH: u64 = 1000;

/// The life of a thread.
fn work(
    cache: &Subject,
    counts: &Arc<Counts>,
    meters: &Meters,
    random: &mut SmallRng,
    lifespan: u64,
    keys: u64,
) {
    let mut calls = Vec::with_capacity(BATCH as usize);
    for number in 1..=lifespan {
        let begun = Instant::now();
        operate(cache, counts, random, keys);
        calls.push(begun.elapsed().as_micros() as u64);
        if number % BATCH == 0 || number == lifespan {
            let mut meter = meters.calls.lock().expect("nobody panics");
            calls.drain(..).for_each(|call| meter.saturating_record(call));
        }
    }
    counts.operations.fetch_add(lifespan, Relaxed);
}

/// One random operation.
fn operate(cache: &Subject, counts: &Arc<Counts>, random: &mut SmallRng, keys: u64) {
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
