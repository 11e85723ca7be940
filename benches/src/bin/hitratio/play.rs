//! Replays a trace, with one thread or several.

use crate::caches::{self, Subject};
use crate::options::{Mode, Options};
use crate::simulate::Simulation;
use crate::traces::{Access, Trace};
use anyhow::Result;
use cortado::internals::policy::Policy;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Shares of the look-ups, between 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ratios {
    /// Hits among look-ups.
    pub objects: f64,
    /// The same, each look-up counting by its weight.
    pub bytes: f64,
    /// How far the replays of a case differ: the most hits among look-ups, less the fewest.
    pub spread: f64,
}

/// What was looked up and found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    lookups: u64,
    hits: u64,
    bytes: u64,
    hit_bytes: u64,
}

impl Tally {
    pub fn count(&mut self, access: &Access, hit: bool) {
        let bytes = u64::from(access.weight);
        self.lookups += 1;
        self.bytes += bytes;
        self.hits += u64::from(hit);
        self.hit_bytes += if hit { bytes } else { 0 };
    }

    fn add(&mut self, other: Self) {
        self.lookups += other.lookups;
        self.hits += other.hits;
        self.bytes += other.bytes;
        self.hit_bytes += other.hit_bytes;
    }

    fn ratios(self) -> Ratios {
        Ratios {
            objects: self.hits as f64 / self.lookups.max(1) as f64,
            bytes: self.hit_bytes as f64 / self.bytes.max(1) as f64,
            spread: 0.0,
        }
    }
}

/// The mean of as many replays as the options say.
pub fn mean(options: &Options, trace: &Trace, cache: &str, capacity: u64) -> Result<Ratios> {
    let mut sum = Ratios::default();
    let [mut fewest, mut most] = [f64::INFINITY, 0.0];
    for seed in 0..options.runs {
        let ratios = once(options, trace, cache, capacity, seed)?.ratios();
        sum.objects += ratios.objects / options.runs as f64;
        sum.bytes += ratios.bytes / options.runs as f64;
        [fewest, most] = [ratios.objects.min(fewest), ratios.objects.max(most)];
    }
    sum.spread = (most - fewest).max(0.0);
    Ok(sum)
}

fn once(options: &Options, trace: &Trace, cache: &str, capacity: u64, seed: u64) -> Result<Tally> {
    let Options { mode, record_period, threads, .. } = *options;
    match cache {
        "simulated" => {
            let policy = Policy::new(capacity, seed);
            Ok(Simulation::new(policy, mode, record_period).run(&trace.accesses))
        }
        "lru" => {
            let policy = Policy::with_fixed_window(capacity, seed, 1.0);
            Ok(Simulation::new(policy, mode, 0).run(&trace.accesses))
        }
        name => {
            let entries = capacity * trace.keys / trace.weight;
            let subject = caches::make(name, capacity, entries.max(1), mode)?;
            Ok(shared(&*subject, &trace.accesses, threads, mode))
        }
    }
}

/// Threads take turns at the trace: each next request goes to whoever is free.
fn shared(cache: &dyn Subject, accesses: &[Access], threads: usize, mode: Mode) -> Tally {
    if threads <= 1 {
        let mut tally = Tally::default();
        for access in accesses {
            play(cache, access, mode, &mut tally);
        }
        return tally;
    }
    let next = AtomicUsize::new(0);
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let replay = || {
            let mut tally = Tally::default();
            while let Some(access) = accesses.get(next.fetch_add(1, Ordering::Relaxed)) {
                play(cache, access, mode, &mut tally);
            }
            tally
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(replay)).collect();
        for worker in workers {
            tally.add(worker.join().expect("a replay does not panic"));
        }
    });
    tally
}

fn play(cache: &dyn Subject, access: &Access, mode: Mode, tally: &mut Tally) {
    if mode == Mode::Ttl {
        cache.reach(access.at);
    }
    let hit = !access.update && cache.get(access);
    if !access.update {
        tally.count(access, hit);
    }
    if !hit {
        cache.insert(access);
    }
}
