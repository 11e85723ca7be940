//! Heap bytes per entry, and what an empty cache takes to build; counted by the allocator.

use crate::Report;
use crate::options::Options;
use cortado_benches::figure::Figure;
use cortado_benches::footprint::Full;
use cortado_benches::heap::Count;
use cortado_benches::key::Key;
use cortado_benches::report::Record;
use cortado_benches::subject::{Driver, Plan, Subject};
use std::time::Instant;

/// The name of the case of full caches.
const FULL: &str = "memory of a full cache";
/// The name of the case of empty ones.
const EMPTY: &str = "start-up";

fn full<K: Key>(options: &Options, report: &mut Report<'_>) {
    let mut records = Vec::new();
    for rival in options.able(|rival| !rival.doubles()) {
        let Some(full) = rival.drive::<K, u64, _>(Full::of(options.entries)) else {
            continue;
        };
        let mut record = |metric, figure: f64| {
            let at = (options.entries, "entries");
            records.push(Record::new(FULL, rival.name(), at, metric, figure.into()));
        };
        record(("heap per entry beyond key and value", "bytes"), full.overhead::<K>());
        record(("held", "%"), 100.0 * full.found as f64 / options.entries as f64);
    }
    report.add(&format!("{FULL}, {} to u64", K::NAME), records);
}

/// Builds a cache of this capacity so many times.
struct Empty {
    capacity: u64,
    times: usize,
}

impl<K: Key> Driver<K, u64> for Empty {
    /// Microseconds of each time, and heap bytes.
    type Output = (Vec<f64>, i64);

    fn drive<S: Subject<K, u64>>(self) -> (Vec<f64>, i64) {
        let new = || S::new(Plan::entries(self.capacity));
        let count = Count::start();
        // What the first one of a process sets up is not the cache's.
        drop(new());
        count.settle(0);
        let before = count.bytes();
        let cache = new();
        let bytes = count.bytes() - before;
        drop(cache);
        count.settle(before);
        drop(count);
        let time = |_| {
            let start = Instant::now();
            let cache = new();
            let time = start.elapsed();
            drop(cache);
            time.as_nanos() as f64 / 1000.0
        };
        ((0..self.times).map(time).collect(), bytes)
    }
}

fn empty<K: Key>(options: &Options, report: &mut Report<'_>) {
    let mut records = Vec::new();
    for rival in options.able(|rival| !rival.doubles()) {
        for capacity in [10_000, 1_000_000] {
            let times = 4 * options.rounds;
            let Some((times, bytes)) = rival.drive::<K, u64, _>(Empty { capacity, times }) else {
                continue;
            };
            let mut record = |metric, figure| {
                let at = (capacity, "capacity");
                records.push(Record::new(EMPTY, rival.name(), at, metric, figure));
            };
            record(("time to build", "µs"), Figure::of(&times));
            record(("heap", "KiB"), (bytes as f64 / 1024.0).into());
        }
    }
    report.add(EMPTY, records);
}

/// Both cases.
pub fn run<K: Key>(options: &Options, report: &mut Report<'_>) {
    if options.wants(EMPTY) {
        empty::<K>(options, report);
    }
    if options.wants(FULL) {
        full::<K>(options, report);
    }
}
