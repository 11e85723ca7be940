//! Writers while somebody has the maintenance lock and does not go on, as one who has lost the core. The lock is
//! held by hand here, for as long as it takes.

use super::Cache;
use crate::clock::Clock;
use crate::engine::Core;
use crate::sync::thread;

/// A cache with a clock that stands, which therefore runs no pass by itself but for writes.
fn cache(capacity: u64) -> Cache<u32, u32> {
    Cache::builder().max_capacity(capacity).clock(Clock::manual().0).build()
}

fn core(cache: &Cache<u32, u32>) -> &Core {
    &cache.engine().core
}

/// Large enough, on any machine, for half a sixteenth of it to be more than the stripes hold.
const LARGE: u64 = 1 << 20;
/// More than one stripe holds.
const MANY: u32 = 3000;

#[test]
fn writers_go_on_while_a_pass_is_held_up() {
    let cache = cache(LARGE);
    let lock = core(&cache).maintenance.lock();
    let writer = cache.clone();
    let writer = thread::spawn(move || {
        for key in 0..MANY {
            writer.insert(key, 2 * key);
        }
        for key in 0..10 {
            writer.invalidate(&key);
        }
    });
    while !writer.is_finished() {
        assert!(!core(&cache).is_awaited(), "the writer waits for the lock");
        thread::yield_now();
    }
    assert!(core(&cache).writes.spilled() >= u64::from(MANY) - 512, "nothing was spilled");
    assert_eq!((cache.get(&9), cache.get(&10)), (None, Some(20)));
    drop(lock);
    writer.join().expect("no panic");
    // One operation after another, which is what the writes have asked for.
    while !core(&cache).writes.is_empty() {
        assert!(core(&cache).status.should_drain(crate::drain::Urge::Delayable), "forgotten");
        let _ = cache.get(&10);
    }
    assert_eq!(cache.entry_count(), u64::from(MANY) - 10);
    cache.audit();
}

#[test]
fn all_that_was_written_is_applied_where_somebody_asks_for_it() {
    let cache = cache(LARGE);
    let lock = core(&cache).maintenance.lock();
    thread::scope(|scope| {
        scope.spawn(|| (0..10_000).for_each(|key| cache.insert(key, key)));
    });
    drop(lock);
    cache.run_pending_tasks();
    assert!(core(&cache).writes.is_empty());
    assert_eq!(cache.entry_count(), 10_000);
    cache.audit();
}

/// What waits stays within the promised sixteenth, and an entry for each writer.
#[test]
fn writers_wait_where_the_bound_would_suffer() {
    for capacity in [1000, LARGE] {
        let cache = cache(capacity);
        let lock = core(&cache).maintenance.lock();
        let slack = capacity / 16;
        let writer = cache.clone();
        let writer = thread::spawn(move || {
            (0..slack as u32 + 2).for_each(|key| writer.insert(key, key));
        });
        while !core(&cache).is_awaited() {
            assert!(!writer.is_finished(), "the writer does not wait");
            thread::yield_now();
        }
        let written = cache.iter().count() as u64;
        assert!(written <= slack + 1, "{written} of {capacity} written, {slack} may wait");
        drop(lock);
        writer.join().expect("no panic");
        cache.run_pending_tasks();
        assert_eq!(cache.entry_count(), slack + 2);
        cache.audit();
    }
}
