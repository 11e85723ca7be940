//! A million entries due at one instant, while a reader and a writer are at work; against the same run
//! with nothing due, since preemption alone costs milliseconds on a shared machine.

use crate::adapters::{Subject, make};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ENTRIES: u64 = 1_000_000;
const DUE: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(900);
/// How long the reader and the writer go on after the entries came due.
const AFTER: Duration = Duration::from_secs(4);

struct Outcome {
    get: Histogram<u64>,
    insert: Histogram<u64>,
}

fn timed(stop: &AtomicBool, mut operation: impl FnMut(u64)) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_max(60_000_000_000, 3).expect("valid precision");
    for step in 0.. {
        let start = Instant::now();
        operation(step);
        histogram.saturating_record(start.elapsed().as_nanos() as u64);
        if stop.load(Relaxed) {
            break;
        }
    }
    histogram
}

fn run_once(name: &str, due: bool) -> Outcome {
    let cache = make(name, 4 * ENTRIES);
    let start = Instant::now();
    for key in 0..ENTRIES {
        let left = DUE.saturating_sub(start.elapsed()).as_secs().max(1);
        let ttl = if due { Duration::from_secs(left) } else { LONG };
        cache.insert_for(key, key, ttl);
    }
    cache.settle();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cache: &dyn Subject = &*cache;
        let stop = &stop;
        let get = scope.spawn(move || {
            timed(stop, |n| {
                black_box(cache.get(n % ENTRIES));
            })
        });
        let insert =
            scope.spawn(move || timed(stop, |n| cache.insert(2 * ENTRIES + n % 100_000, n)));
        std::thread::sleep((DUE + AFTER).saturating_sub(start.elapsed()));
        stop.store(true, Relaxed);
        let join = "no panic";
        Outcome { get: get.join().expect(join), insert: insert.join().expect(join) }
    })
}

/// A row per cache, with and without anything due.
pub fn run(rounds: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header([
        "1 M due at once, µs",
        "get p99.99",
        "get max",
        "insert p99.99",
        "insert max",
    ]);
    for name in ["cortado", "moka"] {
        for due in [false, true] {
            let runs: Vec<Outcome> = (0..rounds.min(3)).map(|_| run_once(name, due)).collect();
            let median = |figure: fn(&Outcome) -> u64| {
                let mut figures: Vec<u64> = runs.iter().map(figure).collect();
                figures.sort_unstable();
                format!("{}", figures[figures.len() / 2] / 1000)
            };
            let label = format!("{name}, {}", if due { "due" } else { "control" });
            table.add_row([
                label,
                median(|run| run.get.value_at_quantile(0.9999)),
                median(|run| run.get.max()),
                median(|run| run.insert.value_at_quantile(0.9999)),
                median(|run| run.insert.max()),
            ]);
        }
    }
    table
}
