//! A guard that is held for seconds while others write as fast as they can: what it keeps from being
//! released, and how soon that is made good.

use crate::Row;
use cortado::Cache;
use cortado_benches::heap::Count;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub const NAME: &str = "after a guard was held";
const THREADS: u64 = 2;
const CAPACITY: u64 = 10_000;
/// Bytes of a value.
const SIZE: usize = 100;

static ALIVE: AtomicI64 = AtomicI64::new(0);

struct Counted(#[allow(dead_code, reason = "it is there for its size")] Box<[u8; SIZE]>);

impl Counted {
    fn new() -> Self {
        ALIVE.fetch_add(1, Relaxed);
        Self(Box::new([0; SIZE]))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
    }
}

/// What more than the entries may live at the end: as much as a write buffer holds.
fn slack() -> i64 {
    256 * cortado_benches::machine::cores() as i64
}

pub fn measure(held: Duration) -> [Row; 3] {
    let count = Count::start();
    let cache: Cache<u64, Counted> =
        Cache::builder().max_capacity(CAPACITY).scheduler(true).build();
    let (over, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = |thread: u64| {
        let (cache, over, writes) = (&cache, &over, &writes);
        move || {
            for key in 0.. {
                cache.insert(thread << 40 | key, Counted::new());
                if key % 256 == 0 {
                    writes.fetch_add(256, Relaxed);
                    if over.load(Relaxed) {
                        return;
                    }
                }
            }
        }
    };
    let (before, grown, waited) = std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| drop(scope.spawn(write(thread))));
        std::thread::sleep(Duration::from_secs(1));
        let before = count.bytes();
        let begun = writes.load(Relaxed);
        let guard = cache.pin();
        std::thread::sleep(held);
        let grown = (count.bytes() - before) as f64 / (writes.load(Relaxed) - begun) as f64;
        // The writers go on: their cache is what makes it good.
        drop(guard);
        let released = Instant::now();
        while ALIVE.load(Relaxed) > CAPACITY as i64 + slack()
            && released.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let waited = released.elapsed().as_secs_f64() * 1000.0;
        over.store(true, Relaxed);
        (before, grown, waited)
    });
    cache.run_pending_tasks();
    let kept = (count.bytes() - before) as f64 / 1024.0;
    let calls = writes.into_inner();
    let row = |name, figure, unit, bar| Row { name, calls, readings: vec![figure], unit, bar };
    [
        row("while a guard is held: growth", grown, "bytes per write", None),
        row(NAME, waited, "ms until the values are released", Some(1000.0)),
        row("after a guard was held: kept for reuse", kept, "KiB", None),
    ]
}
