//! A view that is held for long while others write: nothing that it may see is released, nobody has
//! to wait for it, and afterwards everything is as before. In counts and bytes, not in time.
//!
//! `CORTADO_HELD_WRITES` sets the number of writes under the view.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::{Audited, audited};
use common::crowd::counted;
use common::effort::{scale, share};
use common::noted::eventually;
use cortado::{Cache, Entry, Overflow};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicIsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What is allocated in this process.
static BYTES: AtomicIsize = AtomicIsize::new(0);

struct Counting;

#[expect(unsafe_code, reason = "an allocator can only be replaced by unsafe code")]
// SAFETY: the system's allocator does it all; beside it a number is counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CAPACITY: u64 = 1000;

/// A value that is counted while it lives.
struct Counted(Arc<AtomicI64>);

impl Counted {
    fn new(living: &Arc<AtomicI64>) -> Self {
        living.fetch_add(1, SeqCst);
        Self(Arc::clone(living))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Writes fresh keys from another thread.
fn write(cache: &Cache<u64, Counted>, living: &Arc<AtomicI64>, round: u64, writes: u64) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..writes).for_each(|n| cache.insert(round << 40 | n, Counted::new(living)));
        });
    });
}

/// Runs the maintenance until as many values live as the cache counts.
fn settle(cache: &Cache<u64, Counted>, living: &AtomicI64) {
    let begun = Instant::now();
    loop {
        cache.run_pending_tasks();
        if living.load(SeqCst) as u64 == cache.entry_count() {
            break;
        }
        assert!(begun.elapsed() < common::HANG, "{} live", living.load(SeqCst));
        std::thread::yield_now();
    }
    cache.audit();
}

/// All in this process share its guards and its bytes.
static ALONE: Mutex<()> = Mutex::new(());

/// Caches that are gone have left garbage under a view. It is in front of what an idle cache waits
/// for, and nobody else is there to run it.
#[test]
fn an_idle_cache_gets_past_what_caches_that_are_gone_have_left() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let living = Arc::new(AtomicI64::new(0));
    let idle = audited(Cache::builder().scheduler(true).build());
    let held = audited(Cache::<u64, u64>::new(10));
    {
        let _view = held.pin();
        for _ in 0..5000 {
            let gone = Cache::<u64, u64>::new(10);
            (0..20).for_each(|key| gone.insert(key, key));
        }
        idle.insert(1, Counted::new(&living));
        idle.invalidate(&1);
    }
    eventually("the scheduler has released the value", || living.load(SeqCst) == 0);
}

#[test]
fn what_a_view_holds_back_is_released_after_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let writes = scale("CORTADO_HELD_WRITES", 200_000);
    let living = Arc::new(AtomicI64::new(0));
    let cache: Audited<u64, Counted> = audited(Cache::new(CAPACITY));
    write(&cache, &living, 0, 2 * CAPACITY);
    settle(&cache, &living);
    assert_eq!(cache.entry_count(), CAPACITY);

    // Without a view, what a cache needs beyond its entries does not depend on how much is written.
    write(&cache, &living, 1, writes);
    let unheld = living.load(SeqCst) as u64;
    assert!(unheld < CAPACITY + writes / 10, "{unheld} live though nobody holds a view");
    settle(&cache, &living);

    let mut after_round = Vec::new();
    for round in 2..6 {
        let (key, shown) = {
            let view = cache.pin();
            let key = cache.entries().next().expect("it is full").key().to_owned();
            let seen = view.get(&key).expect("it has just been there");
            // Writers do not wait for the view, nor does the maintenance; what they take out stays.
            write(&cache, &living, round, writes);
            cache.run_pending_tasks();
            assert!(cache.entry_count() <= CAPACITY);
            assert_eq!(living.load(SeqCst) as u64, CAPACITY + writes, "released under a view");
            (key, Arc::strong_count(&seen.0))
        };
        assert!(shown > 1 && key < 6 << 40);
        settle(&cache, &living);
        after_round.push(BYTES.load(SeqCst));
    }
    // The first rounds have made the pool as large as it had to be; the others find it so. (If
    // nodes were not used again, the others would have 1.3 to 1.5 times as many bytes.) Of two
    // rounds one counts: the collector may not have released everything after the other.
    let (before, after) = (after_round[0].max(after_round[1]), after_round[2].min(after_round[3]));
    assert!(after <= before + before / 20, "{after_round:?} bytes after the rounds");

    // A handle holds back its own value and nothing else.
    let handle: Entry<u64, Counted> = cache.entries().next().expect("it is full");
    cache.invalidate(handle.key());
    write(&cache, &living, 6, writes);
    let begun = Instant::now();
    while living.load(SeqCst) as u64 != cache.entry_count() + 1 {
        cache.run_pending_tasks();
        assert!(begun.elapsed() < common::HANG, "{} live", living.load(SeqCst));
    }
    drop(handle);
    assert_eq!(living.load(SeqCst) as u64, cache.entry_count());
    drop(cache);
    assert_eq!(living.load(SeqCst), 0);
    counted(6 * writes, "writes");
}

/// Maintenance in small portions takes no more memory under a view than any other. A cache that
/// discards notifications does it so, and a caller may ask for it so.
#[test]
fn small_passes_under_a_view_cost_what_others_do() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let entries = share(100_000);
    let bytes_held = |work: fn(&Cache<u64, u64>), limit: usize| {
        let cache = audited(
            Cache::builder()
                .max_capacity(2 * entries)
                .removal_listener(|_| {})
                .notification_limit(limit, Overflow::Discard)
                .build(),
        );
        cache.insert_many((0..entries).map(|key| (key, key)));
        cache.run_pending_tasks();
        let before = BYTES.load(SeqCst);
        let _view = cache.pin();
        work(&cache);
        assert_eq!(cache.entry_count(), 0);
        (BYTES.load(SeqCst) - before).max(0) as u64
    };
    let shrinks = |cache: &Cache<u64, u64>| {
        cache.set_max_capacity(0);
        cache.run_pending_tasks();
    };
    let clears_in_portions = |cache: &Cache<u64, u64>| {
        cache.invalidate_all();
        while cache.run_pending_tasks_up_to(1).other {}
    };
    let all_at_once = bytes_held(Cache::close, usize::MAX);
    for (way, bytes) in [
        ("close, limit 1", bytes_held(Cache::close, 1)),
        ("close, limit 0", bytes_held(Cache::close, 0)),
        ("capacity 0, limit 1", bytes_held(shrinks, 1)),
        ("in portions", bytes_held(clears_in_portions, usize::MAX)),
    ] {
        // A batch for each entry would take 3 KB, and one for each sixteen passes 200 bytes for
        // each.
        let most = all_at_once + 600 * entries;
        assert!(bytes < most, "{way}: {bytes} bytes for {entries} entries, {all_at_once} at once");
    }
}
