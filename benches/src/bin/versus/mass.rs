//! A million entries due at one instant, while a reader and a writer are at work; against the same
//! run with nothing due, since preemption alone costs milliseconds on a shared machine. And how
//! long it takes until keys and values are freed, under way and with nobody using the cache.

use crate::Report;
use crate::options::Options;
use cortado_benches::figure::Figure;
use cortado_benches::heap::Count;
use cortado_benches::key::Key;
use cortado_benches::report::Record;
use cortado_benches::subject::{Driver, Plan, Reader, Rival, Subject};
use cortado_benches::value::{Payload, Tracked, Value};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const NAME: &str = "mass expiry";
/// The lifetime of entries that are not to come due.
const LONG: Duration = Duration::from_secs(900);
/// How many keys the writer updates.
const WRITTEN: u64 = 100_000;

/// How a run differs from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing comes due.
    Control,
    /// All comes due.
    Due,
    /// All comes due and nobody calls the cache.
    Idle,
}

/// One run.
#[derive(Clone, Copy)]
struct Run {
    kind: Kind,
    entries: u64,
    /// From the beginning of the fill to the instant.
    due: Duration,
    /// From the instant to the end.
    after: Duration,
}

struct Outcome {
    /// Of the calls after the instant.
    get: Histogram<u64>,
    insert: Histogram<u64>,
    /// When 99 % of the values were gone, and when all were, after the instant.
    most_gone: Option<Duration>,
    all_gone: Option<Duration>,
    /// Values that were still there at the end.
    left: i64,
    heap_full: i64,
    heap_after: i64,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3).expect("a valid precision")
}

/// Calls until it is told to stop, and records those after the instant.
fn timed(
    stop: &AtomicBool,
    instant: Instant,
    mut histogram: Histogram<u64>,
    mut operation: impl FnMut(u64),
) -> Histogram<u64> {
    for step in 0.. {
        let start = Instant::now();
        operation(step);
        if start >= instant {
            histogram.saturating_record(start.elapsed().as_nanos() as u64);
        }
        if stop.load(Relaxed) {
            break;
        }
    }
    histogram
}

/// Waits until the run ends, and notes when the values went.
fn watch(run: &Run, instant: Instant) -> (Option<Duration>, Option<Duration>) {
    let (mut most, mut all) = (None, None);
    while Instant::now() < instant + run.after {
        std::thread::sleep(Duration::from_millis(2));
        let (left, passed) = (Payload::fleeting(), instant.elapsed());
        if most.is_none() && left <= run.entries as i64 / 100 {
            most = Some(passed);
        }
        if all.is_none() && left == 0 {
            all = Some(passed);
        }
    }
    (most, all)
}

impl<K: Key> Driver<K, Tracked> for Run {
    type Output = Outcome;

    fn drive<S: Subject<K, Tracked>>(self) -> Outcome {
        // Not part of what is counted.
        let (get, insert) = (histogram(), histogram());
        let count = Count::start();
        let cache = S::new(Plan::entries(4 * self.entries));
        let instant = Instant::now() + self.due;
        for number in 0..self.entries {
            let left = instant.saturating_duration_since(Instant::now());
            let lifetime = if self.kind == Kind::Control { LONG } else { left };
            cache.insert(K::of(number), Tracked::fleeting(number, lifetime));
        }
        cache.settle();
        if Instant::now() >= instant && self.due < LONG / 4 {
            // A slow machine, or a slow cache: once more, with more time for the fill.
            drop(cache);
            count.settle(0);
            drop(count);
            return Driver::<K, Tracked>::drive::<S>(Self { due: 2 * self.due, ..self });
        }
        let heap_full = count.bytes();
        let stop = AtomicBool::new(self.kind == Kind::Idle);
        let (get, insert, (most_gone, all_gone)) = std::thread::scope(|scope| {
            let (cache, stop) = (&cache, &stop);
            let reader = scope.spawn(move || {
                let mut reader = cache.reader();
                timed(stop, instant, get, |step| {
                    reader.read(&K::of(step % self.entries));
                })
            });
            let writer = scope.spawn(move || {
                timed(stop, instant, insert, |step| {
                    let number = 2 * self.entries + step % WRITTEN;
                    cache.insert(K::of(number), Tracked::lasting(number));
                })
            });
            let gone = watch(&self, instant);
            stop.store(true, Relaxed);
            let join = "no panic";
            (reader.join().expect(join), writer.join().expect(join), gone)
        });
        let (left, heap_after) = (Payload::fleeting(), count.bytes());
        drop(cache);
        count.settle(0);
        Outcome { get, insert, most_gone, all_gone, left, heap_full, heap_after }
    }
}

/// The records of the runs of one kind of one rival.
fn records(rival: Rival, run: &Run, outcomes: &[Outcome]) -> Vec<Record> {
    let subject = format!("{}, {}", rival.name(), format!("{:?}", run.kind).to_lowercase());
    let mut records = Vec::new();
    let mut record = |metric, reading: &dyn Fn(&Outcome) -> Option<f64>| {
        let readings: Option<Vec<f64>> = outcomes.iter().map(reading).collect();
        let at = (run.entries, "");
        let record = |readings: Vec<f64>| {
            Record::new(NAME, subject.as_str(), at, metric, Figure::of(&readings))
        };
        records.extend(readings.map(record));
    };
    if run.kind != Kind::Idle {
        let micros = |nanos: u64| Some(nanos as f64 / 1000.0);
        record(("get p99.9", "µs"), &|run| micros(run.get.value_at_quantile(0.999)));
        record(("get p99.99", "µs"), &|run| micros(run.get.value_at_quantile(0.9999)));
        record(("get max", "µs"), &|run| micros(run.get.max()));
        record(("insert p99.9", "µs"), &|run| micros(run.insert.value_at_quantile(0.999)));
        record(("insert p99.99", "µs"), &|run| micros(run.insert.value_at_quantile(0.9999)));
        record(("insert max", "µs"), &|run| micros(run.insert.max()));
    }
    if run.kind != Kind::Control {
        let millis = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1000.0);
        record(("99 % of values freed after", "ms"), &|run| millis(run.most_gone));
        record(("all freed after", "ms"), &|run| millis(run.all_gone));
        let entries = run.entries as f64;
        record(("left at the end", "%"), &|run| Some(100.0 * run.left as f64 / entries));
    }
    let mebibytes = |bytes: i64| Some(bytes as f64 / f64::from(1 << 20));
    record(("heap before", "MiB"), &|run| mebibytes(run.heap_full));
    record(("heap at the end", "MiB"), &|run| mebibytes(run.heap_after));
    records
}

/// One case: each rival without and with anything due, and idle.
pub fn run<K: Key>(options: &Options, report: &mut Report<'_>) {
    if !options.wants(NAME) {
        return;
    }
    let seconds = if options.quick { 1 } else { 3 };
    let span = Duration::from_secs(seconds);
    let run = |kind| Run { kind, entries: options.entries, due: span, after: span };
    let rivals = options.able(|rival| rival != Rival::CortadoPin && rival.card().lifetimes);
    let kinds = [Kind::Control, Kind::Due, Kind::Idle].map(run);
    let runs: Vec<(Rival, Run)> =
        rivals.iter().flat_map(|&rival| kinds.map(|run| (rival, run))).collect();
    let mut outcomes: Vec<Vec<Outcome>> = runs.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for ((rival, run), outcomes) in runs.iter().zip(&mut outcomes) {
            // With nobody calling there is nothing that varies.
            if run.kind != Kind::Idle || round == 0 {
                outcomes.extend(rival.drive::<K, Tracked, _>(*run));
            }
        }
    }
    let mut case = Vec::new();
    for ((rival, run), outcomes) in runs.iter().zip(&outcomes) {
        if !outcomes.is_empty() {
            case.extend(records(*rival, run, outcomes));
        }
    }
    report.add(&format!("{NAME} of {} entries", options.entries), case);
}
