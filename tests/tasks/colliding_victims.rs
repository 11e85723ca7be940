//! Entries whose hash a computed key has: they cannot be evicted, and must not keep others.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::hand::{Gate, Task};
use cortado::future::Cache;
use cortado::{Clock, CompResult, EvictionPolicy, Op};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};

const CAPACITY: u64 = 2000;
/// By how much a cache may exceed its capacity between two passes: 1/16 of it, and an entry of the
/// writing thread.
const SLACK: u64 = CAPACITY / 16 + 1;

/// Hashes the keys from `first` on, so many of them, as it hashes key 0.
#[derive(Clone, Copy)]
struct Colliding {
    first: u64,
    number: u64,
}

impl BuildHasher for Colliding {
    type Hasher = CollidingHasher;

    fn build_hasher(&self) -> CollidingHasher {
        CollidingHasher { colliding: *self, key: 0 }
    }
}

struct CollidingHasher {
    colliding: Colliding,
    key: u64,
}

impl Hasher for CollidingHasher {
    fn finish(&self) -> u64 {
        let Colliding { first, number } = self.colliding;
        let collides = (first..first + number).contains(&self.key);
        let mut hasher = DefaultHasher::new();
        if collides { 0 } else { self.key }.hash(&mut hasher);
        hasher.finish()
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, key: u64) {
        self.key = key;
    }
}

type Shared = TasksAudited<u64, u64, Colliding>;

/// Computes the first keys and inserts others, some of which have the hash of key 0.
fn insert_beside_computations(policy: &EvictionPolicy, computed: u64, number: u64) {
    // The clock stands, so passes begin by the number of writes alone.
    let (clock, _hand) = Clock::manual();
    let builder =
        Cache::builder().max_capacity(CAPACITY).eviction_policy(policy.clone()).clock(clock);
    let colliding = Colliding { first: computed, number };
    let cache: Shared = tasks_audited(builder.build_with_hasher(colliding));
    (0..computed).for_each(|key| cache.sync().insert(key, key));
    cache.sync().run_pending_tasks();
    let gate = Gate::default();
    let mut computations: Vec<Task<'_, CompResult<u64, u64>>> = (0..computed)
        .map(|key| {
            Task::waiting(cache.entry(key).and_compute_with(async |_| {
                gate.passed().await;
                Op::<u64>::Nop
            }))
        })
        .collect();
    let entries = || cache.sync().iter().count() as u64;
    for key in computed..6 * CAPACITY {
        cache.sync().insert(key, key);
        if key % 97 == 0 {
            let entries = entries();
            assert!(entries <= CAPACITY + SLACK, "{entries} after {key} with {policy:?}");
        }
    }
    cache.sync().run_pending_tasks();
    assert_eq!(entries(), CAPACITY, "{policy:?}");
    gate.open();
    computations.iter_mut().for_each(Task::run);
}

fn policies() -> [EvictionPolicy; 3] {
    [EvictionPolicy::tiny_lfu(), EvictionPolicy::segmented_lru(), EvictionPolicy::lru()]
}

/// A pass met them again and again, and evicted nothing else.
#[test]
fn two_entries_beside_many_computations_keep_no_others() {
    policies().iter().for_each(|policy| insert_beside_computations(policy, CAPACITY / 2, 2));
}

#[test]
fn many_entries_beside_one_computation_keep_no_others() {
    policies().iter().for_each(|policy| insert_beside_computations(policy, 1, 40));
}
