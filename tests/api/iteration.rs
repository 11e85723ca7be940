//! Iteration and `retain` while keys are updated, come and go.

use crate::common::audited::{Audited, audited};
use crate::common::effort::is_sampled;
use crate::common::{MINUTE, SECOND, must_end};
use cortado::{Cache, Clock, Op};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const KEYS: u64 = 250;

type Numbers = Cache<u64, u64>;

/// Sets it when dropped: also if its thread panics.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn cache() -> Audited<u64, u64> {
    let cache = audited(Cache::builder().build());
    (0..KEYS).for_each(|key| cache.insert(key, 0));
    cache
}

/// How often each of the keys that were there from the beginning was returned.
fn times(keys: impl Iterator<Item = u64>) -> Vec<u32> {
    let mut times = vec![0; KEYS as usize];
    for key in keys {
        if let Some(times) = times.get_mut(key as usize) {
            *times += 1;
        }
    }
    times
}

/// Each of them once.
fn once() -> Vec<u32> {
    vec![1; KEYS as usize]
}

type Update = (&'static str, fn(&Numbers, u64, u64));

const UPDATES: [Update; 3] = [
    ("insert", |cache, key, value| cache.insert(key, value)),
    ("insert_with_ttl", |cache, key, value| cache.insert_with_ttl(key, value, MINUTE)),
    ("computation", |cache, key, value| {
        cache.entry(key).and_compute_with(|_| Op::Put(value));
    }),
];

#[test]
fn keys_that_are_updated_between_two_steps_are_returned_once() {
    must_end(|| {
        let is_tried = |(name, _): &(&str, _)| *name == UPDATES[0].0 || is_sampled(name);
        for (name, update) in UPDATES.into_iter().filter(is_tried) {
            let cache = cache();
            let mut round = 0;
            let all = |round| (0..KEYS).for_each(|key| update(&cache, key, round));
            let entries = cache.entries().map(|entry| {
                assert_eq!(*entry, round, "{name}: the value that it has");
                round += 1;
                all(round);
                *entry.key()
            });
            assert_eq!(times(entries), once(), "{name}");
            assert_eq!(times(cache.keys().inspect(|_| all(0))), once(), "{name}");
            // Values that tell their keys.
            (0..KEYS).for_each(|key| cache.insert(key, key));
            let again = || (0..KEYS).for_each(|key| cache.insert(key, key));
            assert_eq!(times(cache.values().inspect(|_| again())), once(), "{name}");
        }
    });
}

/// The index becomes twice as large several times, step by step, in the course of the iteration.
#[test]
fn also_while_the_index_grows() {
    must_end(|| {
        for per_step in [1, 20, 200] {
            let cache = cache();
            let (before, _) = cache.overflows();
            let mut next = KEYS;
            let mut round = 0;
            let keys = cache.entries().map(|entry| {
                if *entry.key() < KEYS {
                    round += 1;
                    (0..KEYS).for_each(|key| cache.insert(key, round));
                    (0..per_step).for_each(|n| cache.insert(next + n, 0));
                    next += per_step;
                }
                *entry.key()
            });
            assert_eq!(times(keys), once(), "{per_step} more at each step");
            assert!(per_step == 1 || cache.overflows().0 > before, "it has not grown");
        }
    });
}

/// It becomes smaller when most of the entries are gone, in the course of the iteration.
#[test]
fn also_while_the_index_shrinks() {
    must_end(|| {
        let cache = cache();
        (KEYS..100_000).for_each(|key| cache.insert(key, 0));
        cache.run_pending_tasks();
        let (before, _) = cache.overflows();
        let mut gone = KEYS;
        let keys = cache.entries().map(|entry| {
            let upto = (gone + 1000).min(100_000);
            (gone..upto).for_each(|key| cache.invalidate(&key));
            gone = upto;
            (0..KEYS).for_each(|key| cache.insert(key, gone));
            if gone == 100_000 {
                cache.run_pending_tasks();
            }
            *entry.key()
        });
        assert_eq!(times(keys), once());
        assert!(cache.overflows().0 < before, "it has not shrunk");
    });
}

/// What is moved to a larger table, and gone again, does not bring others twice or hide them.
#[test]
fn also_while_others_come_and_go() {
    must_end(|| {
        let cache = cache();
        let mut seen = HashMap::new();
        let mut round = 0;
        for (key, _) in &*cache {
            *seen.entry(*key).or_insert(0) += 1;
            round += 1;
            (0..KEYS).for_each(|key| cache.insert(key, round));
            for key in KEYS..KEYS + 3000 {
                if round % 2 == 0 { cache.insert(key, round) } else { cache.invalidate(&key) }
            }
            if round % 16 == 0 {
                cache.run_pending_tasks();
            }
        }
        assert_eq!(times(seen.keys().copied()), once());
        assert!(seen.values().all(|&times| times == 1), "returned twice: {seen:?}");
    });
}

#[test]
fn keys_that_other_threads_update_are_returned_once() {
    must_end(|| {
        let cache = cache();
        let (over, updates) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (cache, over, updates) = (&cache, &over, &updates);
                scope.spawn(move || {
                    let mut n = thread;
                    while !over.load(SeqCst) {
                        let (_, update) = UPDATES[(n / KEYS) as usize % UPDATES.len()];
                        update(cache, n % KEYS, n);
                        n += 1;
                        updates.fetch_add(1, SeqCst);
                        // Keys that come and go, for the index to move.
                        if n % 8 == 0 {
                            cache.insert(KEYS + n, n);
                            cache.invalidate(&(KEYS + n.saturating_sub(800)));
                        }
                    }
                });
            }
            let (mut rounds, _finish) = (0, Finish(&over));
            while rounds < 200 || updates.load(SeqCst) < 100_000 {
                assert_eq!(times(cache.entries().map(|entry| *entry.key())), once());
                assert_eq!(times(cache.keys()), once());
                rounds += 1;
            }
        });
    });
}

#[test]
fn what_expires_before_its_turn_is_not_returned() {
    let (clock, hand) = Clock::manual();
    let cache: Audited<u64, u64> = audited(Cache::builder().clock(clock).build());
    (0..KEYS).for_each(|key| cache.insert_with_ttl(key, key, SECOND));
    let mut entries = cache.entries();
    assert!(entries.next().is_some());
    // Half of them get a new life in time.
    hand.advance(SECOND / 2);
    (0..KEYS / 2).for_each(|key| cache.insert_with_ttl(key, key, SECOND));
    hand.advance(SECOND / 2);
    let rest: Vec<u64> = entries.map(|entry| *entry.key()).collect();
    assert!(rest.iter().all(|key| *key < KEYS / 2), "{rest:?}");
    assert!(rest.len() as u64 >= KEYS / 2 - 1);
}

/// Runs on another thread, to its end.
fn elsewhere(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
}

/// Values below this are to go.
const KEPT: u64 = 1_000_000;

/// Whatever a key is given while its value is judged, by another thread, is judged as well.
#[test]
fn what_is_refused_does_not_survive_a_retain() {
    for (name, update) in UPDATES {
        must_end(move || {
            let cache = cache();
            let mut judged = vec![0_u32; KEYS as usize];
            cache.retain(|&key, &value| {
                judged[key as usize] += 1;
                if judged[key as usize] == 1 {
                    elsewhere(|| update(&cache, key, value + 1));
                } else {
                    assert_eq!(value, 1, "{name}");
                }
                value >= KEPT
            });
            assert_eq!(cache.entries().count(), 0, "{name}: survivors");
            assert!(judged.iter().all(|&times| times == 2), "{name}: {judged:?}");
        });
    }
}

#[test]
fn what_is_put_in_the_place_of_a_refused_value_and_is_not_refused_stays() {
    for (name, update) in UPDATES {
        must_end(move || {
            let cache = cache();
            let mut judged = 0;
            cache.retain(|&key, &value| {
                judged += 1;
                if value == 0 {
                    let value = KEPT + key;
                    elsewhere(|| update(&cache, key, value));
                }
                value >= KEPT
            });
            assert_eq!((judged, cache.entries().count() as u64), (2 * KEYS, KEYS), "{name}");
            assert!(cache.entries().all(|entry| *entry == KEPT + entry.key()));
        });
    }
}

/// The condition changes the others, to values that are refused as well.
#[test]
fn a_condition_that_updates_other_keys_lets_nothing_survive() {
    for (name, update) in UPDATES {
        must_end(move || {
            let cache = cache();
            let mut left: Vec<u64> = (0..KEYS).collect();
            cache.retain(|key, &value| {
                left.retain(|other| other != key);
                left.iter().for_each(|&other| update(&cache, other, value + 1));
                value >= KEPT
            });
            assert_eq!((left.len(), cache.entries().count()), (0, 0), "{name}");
        });
    }
}

/// As many survive as the other thread brings back after they were removed: none, if it updates
/// only what is there.
#[test]
fn nothing_survives_beside_a_thread_that_only_updates() {
    must_end(|| {
        let cache: Audited<u64, u64> = audited(Cache::builder().build());
        let (over, updates) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    for key in 0..KEYS {
                        cache.entry(key).and_compute_with(|entry| match entry {
                            Some(entry) => {
                                updates.fetch_add(1, SeqCst);
                                Op::Put(*entry + 1)
                            }
                            None => Op::Nop,
                        });
                    }
                }
            });
            let (mut rounds, _finish) = (0, Finish(&over));
            while rounds < 100 || updates.load(SeqCst) < 10_000 {
                (0..KEYS).for_each(|key| cache.insert(key, 1));
                cache.retain(|_, &value| value >= KEPT);
                assert_eq!(cache.entries().count(), 0, "in round {rounds}");
                rounds += 1;
            }
        });
    });
}

#[test]
#[expect(clippy::mutable_key_type, reason = "a key's hash does not depend on its node's counts")]
fn a_map_of_keys_is_looked_up_by_reference() {
    let cache = audited(Numbers::new(10));
    (1..4).for_each(|n| cache.insert(n, 10 * n));
    let map: HashMap<_, _> = cache.iter().collect();
    assert_eq!(map.get(&2), Some(&20));
    assert_eq!(map.get(&4), None);
}
