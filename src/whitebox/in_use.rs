//! Victims that computations use: how much work they make for passes. The clock stands still unless
//! a test moves it.

use crate::cache::Cache;
use crate::clock::Clock;
use crate::compute::Op;
use crate::config::EvictionPolicy;
use crate::engine::Core;
use crate::entry::Entry;
use crate::future;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

#[path = "../../tests/common/same_hash.rs"]
mod same_hash;
use same_hash::Same;

const USED: u64 = 10_000;
/// So much that the first record period begins before the computations do.
const CAPACITY: u64 = USED + USED / 16;

fn core(cache: &Cache<u64, u64>) -> &Core {
    super::neighbour::start();
    &cache.engine().core
}

/// How many victims the policy has named.
fn named(cache: &Cache<u64, u64>) -> u64 {
    core(cache).upkeep().state.lock().victims_named
}

/// Runs passes as callers do, until none is required.
fn settle(cache: &Cache<u64, u64>) {
    while core(cache).status().is_required() {
        cache.engine().after_read();
    }
}

type Computation<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A computation of this key that is under way.
fn compute(cache: &future::Cache<u64, u64>, key: u64) -> Computation<'_> {
    let mut computation: Computation<'_> = Box::pin(async move {
        let _never = cache.entry(key).and_compute_with(|_| pending::<Op<u64>>()).await;
    });
    let poll = computation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending());
    computation
}

#[test]
fn a_victim_in_use_costs_one_attempt() {
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder().max_capacity(CAPACITY).clock(clock).build();
    (0..USED).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let of_tasks = cache.future();
    let computations: Vec<_> = (0..USED).map(|key| compute(&of_tasks, key)).collect();
    cache.set_max_capacity(USED / 10);
    // Each pass that a caller asks for may do so much; none may do more.
    let mut before = named(&cache);
    for _ in 0..USED {
        core(&cache).require_pass();
        cache.engine().after_read();
        let now = named(&cache);
        assert!(now - before <= 2000, "{} attempts in one pass", now - before);
        before = now;
    }
    assert_eq!(before, USED, "each entry in use was named once");
    assert_eq!(cache.entry_count(), USED);
    assert!(!core(&cache).status().is_required(), "operations run passes");
    // Another entry comes: it is a victim, and those in use are none.
    cache.insert(USED, USED);
    hand.advance(Duration::from_millis(1));
    cache.run_pending_tasks();
    assert_eq!((named(&cache), cache.entry_count()), (USED + 1, USED));
    // Cancelled computations ask for no pass. One is due in a millisecond.
    drop(computations);
    hand.advance(Duration::from_millis(1));
    let _ = cache.get(&USED);
    settle(&cache);
    assert_eq!(cache.entry_count(), USED / 10);
    cache.audit();
}

/// Several keys with computations have one hash: each entry is set aside.
#[test]
fn victims_in_use_of_one_hash_are_set_aside() {
    let builder = Cache::builder().max_capacity(10).clock(Clock::manual().0);
    let cache: Cache<u64, u64, Same> = builder.build_with_hasher(Same);
    (0..3).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let of_tasks = cache.future();
    let mut computations: Vec<_> = (0..3)
        .map(|key| Box::pin(of_tasks.entry(key).and_compute_with(|_| pending::<Op<u64>>())))
        .collect();
    for computation in &mut computations {
        assert!(computation.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    cache.set_max_capacity(0);
    (0..10).for_each(|_| cache.run_pending_tasks());
    let core = &cache.engine().core;
    for entry in cache.entries() {
        let state = core.upkeep().state.lock();
        let policy = state.policy.as_ref().unwrap();
        assert!(policy.is_aside(&*core.pool, entry.node().id()), "{} is a candidate", entry.key());
    }
    assert!(!core.status().is_required(), "operations run passes");
    drop(computations);
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);
    cache.audit();
}

/// A computation of a key notes one victim. Another entry of the same hash is tried again.
#[test]
fn a_victim_beside_another_of_its_hash_is_tried_again() {
    let builder = Cache::builder().max_capacity(10).clock(Clock::manual().0);
    let cache: Cache<u64, u64, Same> = builder.build_with_hasher(Same);
    (0..10).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let of_tasks = cache.future();
    let mut computation = Box::pin(async {
        let _never = of_tasks.entry(3).and_compute_with(|_| pending::<Op<u64>>()).await;
    });
    let poll = computation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending());
    cache.set_max_capacity(1);
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 10, "none of the hash can be evicted");
    drop(computation);
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 1);
    cache.audit();
}

/// Other threads hold the buckets of the two oldest entries, as writers do that were preempted.
#[test]
fn victims_in_held_buckets_do_not_keep_others() {
    let builder = Cache::builder().max_capacity(1000).clock(Clock::manual().0);
    let cache: Cache<u64, u64> = builder.eviction_policy(EvictionPolicy::lru()).build();
    (0..1000).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let core = core(&cache);
    let first = cache.entries().find(|entry| *entry.key() == 0).expect("present");
    // The first bits choose the bucket, and there are many more buckets than sixteen.
    let bucket = |entry: &Entry<u64, u64>| entry.node().meta().hash().raw() >> 28;
    let in_other_bucket = cache
        .entries()
        .filter(|other| bucket(other) != bucket(&first))
        .min_by_key(|other| *other.key())
        .expect("present");
    let guard = crate::epoch::pin();
    let mut state = core.upkeep().state.lock();
    core.set_max_capacity(500);
    core.upkeep().set_capacity(&mut state, 500);
    drop(state);
    let held = [first, in_other_bucket].map(|entry| {
        let node = entry.node();
        core.index.lock_id(&guard, node.meta().hash(), node.id()).expect("present")
    });
    core.require_pass();
    (0..100).for_each(|_| cache.engine().after_read());
    assert_eq!(cache.entry_count(), 500);
    drop(held);
    drop(guard);
    cache.audit();
}
