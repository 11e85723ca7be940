//! Nanoseconds per operation, and the share of reads that found something.

use crate::Report;
use crate::options::Options;
use crate::workload::{Action, Fleeting, Mix, Read, ReadThrough, Step, WORKLOADS, Workload, Write};
use cortado_benches::figure::Figure;
use cortado_benches::key::Key;
use cortado_benches::report::Record;
use cortado_benches::subject::{Driver, Rival, Subject};
use cortado_benches::value::Value;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What one thread or the mean of all threads did.
#[derive(Clone, Copy, Default)]
struct Sample {
    nanos_per_operation: f64,
    hit_ratio: f64,
}

/// How long a thread goes on.
#[derive(Clone, Copy)]
enum Extent {
    /// Through its keys once; the first tenth is not timed.
    Keys,
    /// For this time over and over, and before that for the same time without being timed.
    For(Duration),
}

/// One measurement of one cache.
#[derive(Clone, Copy)]
struct Measurement<'a, K> {
    workload: &'a Workload,
    space: u64,
    extent: Extent,
    keys: &'a [Vec<K>],
}

impl<K: Key> Driver<K, u64> for Measurement<'_, K> {
    type Output = Sample;

    fn drive<S: Subject<K, u64>>(self) -> Sample {
        let cache = S::new(self.workload.plan(self.space));
        for number in 0..=self.workload.fill(self.space) {
            cache.insert(K::of(number), u64::lasting(number));
        }
        cache.settle();
        match self.workload.action {
            Action::Read => self.time::<S, Read>(&cache),
            Action::Mix10 => self.time::<S, Mix<10>>(&cache),
            Action::Mix2 => self.time::<S, Mix<2>>(&cache),
            Action::Write => self.time::<S, Write>(&cache),
            Action::ReadThrough => self.time::<S, ReadThrough>(&cache),
            Action::Fleeting => self.time::<S, Fleeting>(&cache),
        }
    }
}

impl<'a, K: Key> Measurement<'a, K> {
    /// The threads at once; the mean of what they took.
    fn time<S: Subject<K, u64>, T: Step>(&self, cache: &S) -> Sample {
        let barrier = Barrier::new(self.keys.len());
        let samples: Vec<Sample> = std::thread::scope(|scope| {
            let barrier = &barrier;
            let start = |keys: &'a Vec<K>| {
                scope.spawn(move || thread::<K, S, T>(cache, keys, self.extent, barrier))
            };
            let threads: Vec<_> = self.keys.iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let mean =
            |part: fn(&Sample) -> f64| samples.iter().map(part).sum::<f64>() / samples.len() as f64;
        Sample {
            nanos_per_operation: mean(|sample| sample.nanos_per_operation),
            hit_ratio: mean(|sample| sample.hit_ratio),
        }
    }
}

fn thread<K: Key, S: Subject<K, u64>, T: Step>(
    cache: &S,
    keys: &[K],
    extent: Extent,
    barrier: &Barrier,
) -> Sample {
    let mut reader = cache.reader();
    let mut number = 0;
    let mut pass = |keys: &[K]| {
        let mut hits = 0;
        for key in keys {
            hits += u64::from(T::step(cache, &mut reader, key, number));
            number += 1;
        }
        (keys.len() as u64, hits)
    };
    match extent {
        Extent::Keys => {
            let (warm_up, timed) = keys.split_at(keys.len() / 10);
            pass(warm_up);
            barrier.wait();
            let start = Instant::now();
            sample(pass(timed), start.elapsed())
        }
        Extent::For(duration) => {
            // A clock reading in so many operations is lost among them.
            let mut chunks = keys.chunks(1000).cycle();
            let mut run = || {
                barrier.wait();
                let start = Instant::now();
                let mut done = (0, 0);
                while start.elapsed() < duration {
                    let (operations, hits) = pass(chunks.next().expect("there are keys"));
                    done = (done.0 + operations, done.1 + hits);
                }
                sample(done, start.elapsed())
            };
            run();
            run()
        }
    }
}

fn sample((operations, hits): (u64, u64), time: Duration) -> Sample {
    let operations = operations as f64;
    Sample {
        nanos_per_operation: time.as_nanos() as f64 / operations,
        hit_ratio: hits as f64 / operations,
    }
}

/// The samples of each rival, a round at a time; another one goes first in each.
fn measure<K: Key>(
    options: &Options,
    workload: &Workload,
    rivals: &[Rival],
    threads: usize,
) -> Vec<Vec<Sample>> {
    let timed = workload.action == Action::Fleeting;
    let rounds = if timed { options.rounds.min(3) } else { options.rounds };
    let extent = if timed { Extent::For(options.expiring_for()) } else { Extent::Keys };
    let count = options.operations + options.operations / 9;
    let space = options.keys_space;
    let mut samples = vec![Vec::new(); rivals.len()];
    for round in 0..rounds {
        let keys = |thread| workload.stream.keys(space, count, thread, round);
        let keys: Vec<Vec<K>> = (0..threads).map(keys).collect();
        for turn in 0..rivals.len() {
            let subject = (turn + round) % rivals.len();
            let measurement = Measurement { workload, space, extent, keys: &keys };
            samples[subject].extend(rivals[subject].drive(measurement));
        }
    }
    samples
}

/// A case for each workload.
pub fn run<K: Key>(options: &Options, report: &mut Report<'_>) {
    for workload in WORKLOADS.iter().filter(|workload| options.wants(workload.name)) {
        let rivals = options
            .able(|rival| rival != Rival::CortadoScheduler && (workload.needs)(&rival.card()));
        let mut records = Vec::new();
        for &threads in &options.threads {
            let samples = measure::<K>(options, workload, &rivals, threads);
            // Also of what should be resident: not every cache keeps what it has room for.
            let misses = samples.iter().flatten().any(|sample| sample.hit_ratio < 0.9995);
            for (rival, samples) in rivals.iter().zip(&samples).filter(|(_, s)| !s.is_empty()) {
                let mut record = |metric, part: fn(&Sample) -> f64| {
                    let figure = Figure::of(&samples.iter().map(part).collect::<Vec<_>>());
                    let at = (threads as u64, "threads");
                    records.push(Record::new(workload.name, rival.name(), at, metric, figure));
                };
                record(("time per operation", "ns"), |sample| sample.nanos_per_operation);
                if misses {
                    record(("hits", "%"), |sample| 100.0 * sample.hit_ratio);
                }
            }
        }
        report.add(workload.name, records);
    }
}
