//! When writers yield their cores to threads that hold guards.

use super::alone;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::engine::Core;
use std::time::{Duration, Instant};

/// Tries again and again until `is_over`.
fn must_end_soon(is_over: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_over() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the nodes are not let go of");
        std::thread::yield_now();
    }
}

fn core(cache: &Cache<u64, u64>) -> &Core {
    &cache.engine().core
}

/// The yields since a batch was last reclaimed.
fn yields(cache: &Cache<u64, u64>) -> u32 {
    core(cache).upkeep.state.lock().yields
}

/// Updates one key so many times.
fn update(cache: &Cache<u64, u64>, times: u64) {
    (0..times).for_each(|value| cache.insert(0, value));
}

#[test]
fn writers_yield_while_guards_hold_many_nodes_back_but_not_for_ever() {
    let _alone = alone();
    let cache: Cache<u64, u64> = Cache::builder().clock(Clock::manual().0).build();
    let held_back = cache.pin();
    update(&cache, 3000);
    assert_eq!(yields(&cache), 0, "few nodes are held back");
    update(&cache, 7000);
    let some = yields(&cache);
    assert!(some > 0, "no yield with {} nodes held back", core(&cache).unreclaimed());
    for _ in 0..1000 {
        core(&cache).try_pass();
    }
    assert_eq!(yields(&cache), some, "a pass beside a read yields");
    update(&cache, 300_000);
    assert_eq!(yields(&cache), 256, "writers yield for a guard that is kept");
    drop(held_back);
    // A guard of another test may hold them back for a moment.
    must_end_soon(|| {
        cache.run_pending_tasks();
        core(&cache).unreclaimed() == 0
    });
    assert_eq!(yields(&cache), 0, "the memory came back");
    cache.audit();
}
