//! A guard that is held for seconds while others write as fast as they can: what it keeps from
//! being released, and how soon that is made good.

use crate::Row;
use cortado::Cache;
use cortado_benches::cpu::Longest;
use cortado_benches::heap::Count;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub const NAME: &str = "after a guard was held";
const THREADS: u64 = 2;
const CAPACITY: u64 = 10_000;
/// Bytes of a value.
const SIZE: usize = 100;

static ALIVE: AtomicI64 = AtomicI64::new(0);

struct Counted<T>(#[allow(dead_code, reason = "it is there for its size")] T);

impl<T> Counted<T> {
    fn new(bytes: T) -> Self {
        ALIVE.fetch_add(1, Relaxed);
        Self(bytes)
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
    }
}

/// What more than the entries may live at the end: as much as a write buffer holds.
fn slack() -> i64 {
    256 * cortado_benches::machine::cores() as i64
}

/// With values that have a destructor and no memory of their own, and with boxes: of what these
/// take to be released, the larger part is the allocator's, which gets them from three threads at
/// once and out of order.
pub fn measure(held: Duration) -> Vec<Row> {
    let mut rows = Vec::from(of_kind(held, "", Some(1000.0), || [0_u8; SIZE]));
    rows.extend(of_kind(held, ", boxes", None, || Box::new([0_u8; SIZE])));
    rows
}

fn of_kind<T: Send + Sync + 'static>(
    held: Duration,
    kind: &str,
    bar: Option<f64>,
    bytes: impl Fn() -> T + Sync,
) -> [Row; 5] {
    let count = Count::start();
    let cache: Cache<u64, Counted<T>> =
        Cache::builder().max_capacity(CAPACITY).scheduler(true).build();
    let (over, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    // The writers' longest calls since the guard is gone.
    let (is_timed, longest) = (AtomicBool::new(false), Mutex::new(0.0_f64));
    let write = |thread: u64| {
        let (cache, over, writes, bytes) = (&cache, &over, &writes, &bytes);
        let (is_timed, longest) = (&is_timed, &longest);
        move || {
            let mut calls = Longest::default();
            for key in 0.. {
                let insert = || cache.insert(thread << 40 | key, Counted::new(bytes()));
                if is_timed.load(Relaxed) {
                    calls.call(insert)
                } else {
                    insert()
                }
                if key % 256 == 0 {
                    writes.fetch_add(256, Relaxed);
                    if over.load(Relaxed) {
                        let mut longest = longest.lock().unwrap();
                        *longest = longest.max(calls.micros());
                        return;
                    }
                }
            }
        }
    };
    let (before, resident, grown, waited) = std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| drop(scope.spawn(write(thread))));
        std::thread::sleep(Duration::from_secs(1));
        let (before, resident) = (count.bytes(), resident_kib());
        let begun = writes.load(Relaxed);
        let guard = cache.pin();
        std::thread::sleep(held);
        let grown = (count.bytes() - before) as f64 / (writes.load(Relaxed) - begun) as f64;
        // The writers go on: their cache is what makes it good.
        drop(guard);
        is_timed.store(true, Relaxed);
        let released = Instant::now();
        while ALIVE.load(Relaxed) > CAPACITY as i64 + slack()
            && released.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let waited = released.elapsed().as_secs_f64() * 1000.0;
        over.store(true, Relaxed);
        (before, resident, grown, waited)
    });
    cache.run_pending_tasks();
    let kept = (count.bytes() - before) as f64 / 1024.0;
    // The allocator and the system need a moment.
    std::thread::sleep(Duration::from_secs(2));
    let held_on_to = resident_kib() - resident;
    let (calls, longest) = (writes.into_inner(), longest.into_inner().unwrap());
    let row = |name, figure, unit, bar| Row {
        name: format!("{name}{kind}"),
        calls,
        readings: vec![figure],
        unit,
        bar,
    };
    [
        row("while a guard is held: growth", grown, "bytes per write", None),
        row(NAME, waited, "ms until the values are released", bar),
        row("after a guard was held: longest call", longest, "µs of processor time", None),
        row("after a guard was held: addresses kept", kept, "KiB", None),
        row("after a guard was held: resident beyond before", held_on_to, "KiB, 2 s later", None),
    ]
}

/// Resident memory of the process; 0 where the system does not say.
fn resident_kib() -> f64 {
    memory_stats::memory_stats().map_or(0.0, |stats| stats.physical_mem as f64 / 1024.0)
}
