//! Ten thousand loads and ten thousand computations under way at once: the capacity holds, and each
//! pass is bounded.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::effort::share;
use crate::hand::{Gate, Task};
use cortado::future::Cache;
use cortado::{Clock, CompResult, EvictionPolicy, Op};
use std::future::pending;

/// Ten thousand in a whole run.
fn many() -> u64 {
    share(10_000).max(2_000)
}

fn capacity() -> u64 {
    2 * many()
}

/// By how much a cache may exceed its capacity between two passes: 1/16 of it, and an entry of the
/// writing thread.
fn slack() -> u64 {
    capacity() / 16 + 1
}

/// Loads are of keys from here on, and the other keys from twice this number on.
const ABSENT: u64 = 1 << 40;
const OTHERS: u64 = 2 * ABSENT;

type Shared = TasksAudited<u64, u64>;

/// A cache with the entries that are to be computed, and nothing else.
fn cache(policy: &EvictionPolicy) -> Shared {
    // The clock stands, so passes begin by the number of writes alone.
    let (clock, _hand) = Clock::manual();
    let builder =
        Cache::builder().max_capacity(capacity()).eviction_policy(policy.clone()).clock(clock);
    let cache = tasks_audited(builder.build());
    (0..many()).for_each(|key| cache.sync().insert(key, key));
    cache.sync().run_pending_tasks();
    cache
}

fn loads(cache: &Shared) -> Vec<Task<'_, u64>> {
    (ABSENT..ABSENT + many()).map(|key| Task::waiting(cache.get_with(key, pending()))).collect()
}

fn policies() -> [EvictionPolicy; 3] {
    [EvictionPolicy::tiny_lfu(), EvictionPolicy::segmented_lru(), EvictionPolicy::lru()]
}

/// How many more entries there are than the capacity allows, by the index itself.
fn excess(cache: &Shared) -> u64 {
    (cache.sync().iter().count() as u64).saturating_sub(capacity())
}

/// A computation of each of the first keys, which ends when the gate is open.
fn computations<'a>(cache: &'a Shared, gate: &'a Gate) -> Vec<Task<'a, CompResult<u64, u64>>> {
    let computation = |key| {
        Task::waiting(cache.entry(key).and_compute_with(async |_| {
            gate.passed().await;
            Op::<u64>::Nop
        }))
    };
    (0..many()).map(computation).collect()
}

#[test]
fn the_capacity_holds_while_computations_use_half_of_it() {
    for policy in policies() {
        let cache = cache(&policy);
        let loads = loads(&cache);
        let gate = Gate::default();
        let mut computations = computations(&cache, &gate);
        for key in OTHERS..OTHERS + 3 * capacity() {
            cache.sync().insert(key, key);
            if key % 997 == 0 {
                let over = excess(&cache);
                assert!(over <= slack(), "{over} over the capacity after {}", key - OTHERS);
            }
        }
        cache.sync().run_pending_tasks();
        assert_eq!(excess(&cache), 0);
        assert!((0..many()).all(|key| cache.contains_key(&key)), "a computed entry was evicted");
        gate.open();
        computations.iter_mut().for_each(Task::run);
        drop((computations, loads));
    }
}

/// Where computations use more than the capacity, the excess is theirs alone, and leaves with them.
#[test]
fn what_computations_keep_over_the_capacity_leaves_when_they_end() {
    for policy in policies() {
        for is_cancelled in [false, true] {
            let cache = cache(&policy);
            let gate = Gate::default();
            let mut computations = computations(&cache, &gate);
            cache.sync().set_max_capacity(100);
            cache.sync().insert(OTHERS, 1);
            cache.sync().run_pending_tasks();
            let entries = cache.sync().iter().count() as u64;
            assert!((many()..=many() + 1).contains(&entries), "{entries} entries");
            // Half of them end now, the others later.
            let others = computations.split_off(computations.len() / 2);
            gate.open();
            for mut half in [computations, others] {
                let ended = half.len() as u64;
                let before = cache.sync().iter().count() as u64;
                if is_cancelled {
                    drop(half);
                } else {
                    half.iter_mut().for_each(Task::run);
                }
                cache.sync().run_pending_tasks();
                let after = cache.sync().iter().count() as u64;
                // A computation that goes on also keeps other entries with its hash of 32 bits. In
                // one of 86 caches two of ten thousand keys have the same.
                let most = (before - ended).max(100) + 2;
                assert!(after <= most, "{before} before, {after} after");
            }
        }
    }
}
