//! Nanoseconds per operation, and the share of reads that found something.

use crate::Report;
use crate::options::Options;
use cortado_benches::figure::Figure;
use cortado_benches::key::Key;
use cortado_benches::report::Record;
use cortado_benches::subject::{Driver, Reader, Rival, Subject};
use cortado_benches::value::Value;
use cortado_benches::workload::{
    Action, Fleeting, Mix, Read, ReadThrough, Step, WORKLOADS, Workload, Write,
};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What one thread or the mean of all threads did.
#[derive(Clone, Copy, Default)]
struct Sample {
    nanos_per_operation: f64,
    hit_ratio: f64,
}

/// What one measurement came to.
#[derive(Clone, Copy)]
struct Outcome {
    sample: Sample,
    /// Entries found in the cache right afterwards, as a share of its capacity, where that tells.
    held: Option<f64>,
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

impl<K: Key, V: Value> Driver<K, V> for Measurement<'_, K> {
    type Output = Outcome;

    fn drive<S: Subject<K, V>>(self) -> Outcome {
        let cache = self.workload.cache::<K, V, S>(self.space);
        let sample = match self.workload.action {
            Action::Read => self.time::<V, S, Read>(&cache),
            Action::Mix10 => self.time::<V, S, Mix<10>>(&cache),
            Action::Mix2 => self.time::<V, S, Mix<2>>(&cache),
            Action::Write => self.time::<V, S, Write>(&cache),
            Action::ReadThrough => self.time::<V, S, ReadThrough>(&cache),
            Action::Fleeting => self.time::<V, S, Fleeting>(&cache),
        };
        let held = (self.workload.action == Action::ReadThrough).then(|| self.held::<V, S>(&cache));
        Outcome { sample, held }
    }
}

impl<'a, K: Key> Measurement<'a, K> {
    /// The threads at once; the mean of what they took.
    fn time<V: Value, S: Subject<K, V>, T: Step>(&self, cache: &S) -> Sample {
        let barrier = Barrier::new(self.keys.len());
        let samples: Vec<Sample> = std::thread::scope(|scope| {
            let barrier = &barrier;
            let start = |keys: &'a Vec<K>| {
                scope.spawn(move || thread::<K, V, S, T>(cache, keys, self.extent, barrier))
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

    fn held<V: Value, S: Subject<K, V>>(&self, cache: &S) -> f64 {
        let mut reader = cache.reader();
        let found = (0..=self.space).filter(|&number| reader.read(&K::of(number))).count();
        found as f64 / self.workload.plan(self.space).capacity as f64
    }
}

fn thread<K: Key, V: Value, S: Subject<K, V>, T: Step>(
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

/// The outcomes of each rival, a round at a time; another one goes first in each.
fn measure<K: Key, V: Value>(
    options: &Options,
    workload: &Workload,
    rivals: &[Rival],
    threads: usize,
) -> Vec<Vec<Outcome>> {
    let timed = workload.action == Action::Fleeting;
    let extent = if timed { Extent::For(options.expiring_for()) } else { Extent::Keys };
    let count = options.operations + options.operations / 9;
    let space = options.keys_space * workload.spread;
    let mut outcomes = vec![Vec::new(); rivals.len()];
    for round in 0..options.rounds {
        let keys = |thread| workload.stream.keys(space, count, thread, round);
        let keys: Vec<Vec<K>> = (0..threads).map(keys).collect();
        for turn in 0..rivals.len() {
            let subject = (turn + round) % rivals.len();
            let measurement = Measurement { workload, space, extent, keys: &keys };
            outcomes[subject].extend(rivals[subject].drive::<K, V, _>(measurement));
        }
    }
    outcomes
}

fn records(workload: &Workload, threads: usize, rival: Rival, outcomes: &[Outcome]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut record = |metric, readings: Vec<f64>| {
        let at = (threads as u64, "threads");
        let figure = Figure::of(&readings);
        records.push(Record::new(workload.name, rival.name(), at, metric, figure));
    };
    let samples = || outcomes.iter().map(|outcome| outcome.sample);
    let nanos = samples().map(|sample| sample.nanos_per_operation).collect();
    record(("time per operation", "ns"), nanos);
    // Also of what should be resident: not every cache keeps what it has room for.
    if samples().any(|sample| sample.hit_ratio < 0.9995) {
        let hits = samples().map(|sample| 100.0 * sample.hit_ratio).collect();
        record(("hits", "%"), hits);
    }
    let held: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.held).collect();
    if !held.is_empty() {
        record(("held", "%"), held.iter().map(|share| 100.0 * share).collect());
    }
    records
}

/// A case for each workload.
pub fn run<K: Key, V: Value>(options: &Options, report: &mut Report<'_>) {
    for workload in WORKLOADS.iter().filter(|workload| options.wants(workload.name)) {
        let rivals = options
            .able(|rival| rival != Rival::CortadoScheduler && (workload.needs)(&rival.card()));
        let mut case = Vec::new();
        for &threads in &options.threads {
            let outcomes = measure::<K, V>(options, workload, &rivals, threads);
            for (rival, outcomes) in rivals.iter().zip(&outcomes) {
                // Not every cache takes these keys.
                if !outcomes.is_empty() {
                    case.extend(records(workload, threads, *rival, outcomes));
                }
            }
        }
        report.add(workload.name, case);
    }
}
