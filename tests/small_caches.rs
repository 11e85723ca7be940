//! A small cache takes little memory: a program may have one for each of its tenants. What grows
//! with the number of hardware threads grows only where threads write. A read allocates nothing.
//! The tables of delayed operations shrink.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::{Audited, audited, tasks_audited};
use cortado::future::{self, FutureExt};
use cortado::{Cache, Expiry};
use pollster::block_on;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;
use std::time::{Duration, Instant};

thread_local! {
    /// The bytes that this thread has allocated and not freed. They are those of the cache, whose
    /// passes all run on this thread.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    /// How often this thread has allocated.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    let _ = BYTES.try_with(|all| all.set(all.get() + bytes));
}

#[expect(unsafe_code, reason = "an allocator can only be replaced by unsafe code")]
// SAFETY: the system's allocator does it all; beside it a number is kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        let _ = ALLOCATIONS.try_with(|all| all.set(all.get() + 1));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes that an empty cache may take, on any machine.
const EMPTY: isize = 2_600;
/// The bytes that a cache of ten entries may take, keys and values included.
const OF_TEN: isize = 6_400;

const STRIPES: &str = "CORTADO_STRIPES";

struct AMinute;

impl Expiry<u64, u64> for AMinute {
    fn expire_after_create(&self, _: &u64, _: &u64, _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }
}

fn plain() -> Audited<u64, u64> {
    audited(Cache::builder().build())
}

fn bounded() -> Audited<u64, u64> {
    audited(Cache::builder().max_capacity(1_000).expire_after(AMinute).build())
}

/// Fills a cache and reads it, and returns the bytes that it takes when empty and then.
fn measure(build: fn() -> Audited<u64, u64>) -> (isize, isize) {
    let before = BYTES.get();
    let cache = build();
    let empty = BYTES.get() - before;
    (0..10).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    (0..10).for_each(|key| assert_eq!(cache.get(&key), Some(key)));
    cache.run_pending_tasks();
    (empty, BYTES.get() - before)
}

#[test]
fn a_small_cache_takes_little_memory_on_any_machine() {
    if std::env::var_os(STRIPES).is_none() {
        // The number of stripes is the same for all caches of a process.
        for stripes in ["2", "16"] {
            let run = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "a_small_cache_takes_little_memory_on_any_machine"])
                .env(STRIPES, stripes)
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success() && told.contains("1 passed"), "{stripes}: {told}");
        }
        return;
    }
    for (name, build) in [("plain", plain as fn() -> _), ("bounded", bounded)] {
        // What a thread and a process make once belongs to no cache.
        measure(build);
        let (empty, of_ten) = measure(build);
        assert!(empty > 0 && of_ten > empty, "the allocator counts nothing: {empty}, {of_ten}");
        assert!(empty <= EMPTY, "{name}: {empty} bytes for an empty cache");
        assert!(of_ten <= OF_TEN, "{name}: {of_ten} bytes for a cache of ten entries");
    }
}

/// A program may make and drop caches as long as it runs.
#[test]
fn a_dropped_cache_gives_its_memory_back() {
    for (name, build) in [("plain", plain as fn() -> _), ("bounded", bounded)] {
        measure(build);
        let (_, of_ten) = measure(build);
        let before = BYTES.get();
        (0..100).for_each(|_| _ = measure(build));
        // What waits for its grace period is that of a cache or two.
        let left = BYTES.get() - before;
        assert!(left < 4 * of_ten, "{name}: {left} bytes are left of 100 caches of {of_ten}");
    }
}

/// Also by a task, and beside a listener that awaits and has nothing to do.
#[test]
fn a_read_allocates_nothing() {
    let of_tasks = [
        tasks_audited(future::Cache::builder().max_capacity(1_000).build()),
        tasks_audited(
            future::Cache::builder()
                .max_capacity(1_000)
                .async_eviction_listener(|_, _, _| async {}.boxed())
                .build(),
        ),
    ];
    for cache in of_tasks {
        block_on(cache.insert(1_u64, 1_u64));
        block_on(cache.run_pending_tasks());
        let allocations = block_on(async {
            // The first may make a stripe of the read buffer.
            assert_eq!(cache.get(&1).await, Some(1));
            let before = ALLOCATIONS.get();
            for _ in 0..1_000 {
                assert_eq!(cache.get(&1).await, Some(1));
            }
            ALLOCATIONS.get() - before
        });
        // Where ThreadSanitizer watches, crossbeam-epoch allocates whenever it looks at all
        // threads: once in 128 pins.
        let most =
            if std::env::var_os("CORTADO_TSAN").is_some() { 1_000_usize.div_ceil(128) } else { 0 };
        assert!(allocations <= most, "{allocations} of 1,000 reads");
    }
}

/// Many keys were watched once, and none is any more.
#[cfg(feature = "timer")]
#[test]
fn the_tables_of_delayed_operations_shrink() {
    use cortado::timer::{DelayedOps, Timer};
    let timer = Timer::builder().run_here().start().unwrap();
    let ops = DelayedOps::<u64>::new(&timer);
    let watch = |keys: std::ops::Range<u64>| {
        let hour = Duration::from_secs(3600);
        keys.map(|key| ops.watch([key], hour).unwrap()).collect::<Vec<_>>()
    };
    drop(watch(0..64));
    let before = BYTES.get();
    let watched = watch(0..50_000);
    let full = BYTES.get() - before;
    drop(watched);
    timer.poll(&mut u32::MAX.clone());
    let left = BYTES.get() - before;
    assert_eq!((ops.watched(), timer.pending()), (0, 0));
    assert!(left < full / 20, "{left} bytes are left of {full}");
}
