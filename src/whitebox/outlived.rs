//! What keeps a cache's pool alive after the cache is gone.

use crate::cache::Cache;
use crate::primitives::Arc;

const ENTRIES: u64 = 100_000;

fn full() -> Cache<u64, u64> {
    let cache = Cache::builder().removals(true).build();
    (0..ENTRIES).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    cache
}

/// The memory of a pool that nobody outlives is given back as a whole.
#[test]
fn a_cache_knows_whether_it_is_outlived() {
    let cache = full();
    assert!(!cache.engine().is_outlived());
    let entry = cache.get_entry(&1).unwrap();
    assert!(cache.engine().is_outlived());
    drop(entry);
    assert!(!cache.engine().is_outlived());
    let _receiver = cache.removals().unwrap();
    assert!(cache.engine().is_outlived());
}

#[test]
fn what_outlives_a_cache_keeps_no_free_nodes() {
    let cache = full();
    let pool = Arc::clone(cache.engine().pool.raw());
    let entry = cache.get_entry(&(ENTRIES / 2)).unwrap();
    drop(cache);
    let left = pool.ids().count() - pool.parked();
    assert!(left <= 4096, "{left} nodes of {ENTRIES} keep their memory");
    assert_eq!(*entry.value(), ENTRIES / 2);
}

/// The scheduler may have the last count on the core, and runs no code of the user's.
#[test]
fn listeners_end_with_the_cache() {
    let held = std::sync::Arc::new(());
    let captured = std::sync::Arc::clone(&held);
    let listener = move |_| drop(std::sync::Arc::clone(&captured));
    let cache: Cache<u64, u64> = Cache::builder().removal_listener(listener).build();
    cache.insert(1, 1);
    let core = std::sync::Arc::clone(&cache.engine().core);
    drop(cache);
    assert_eq!(std::sync::Arc::strong_count(&held), 1, "the core keeps the listener");
    drop(core);
}
