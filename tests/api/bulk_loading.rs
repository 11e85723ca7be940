//! Loads of several keys by one call.

use crate::common::audited::{Audited, audited};
use crate::common::fuse::{Key, Name, Place, arm, disarm};
use crate::common::{must_end, panic_of};
use cortado::{Cache, TimedOut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Squares = Audited<u64, u64>;

fn cache() -> Squares {
    audited(Cache::builder().max_capacity(1_000).record_stats(true).build())
}

fn squares(keys: &[&u64]) -> Vec<(u64, u64)> {
    keys.iter().map(|&&key| (key, key * key)).collect()
}

#[test]
fn one_call_of_the_loader_makes_all_values_that_are_missing() {
    let (cache, asked) = (cache(), Mutex::new(Vec::new()));
    cache.insert(2, 4);
    let values = cache.get_many_with([3, 2, 1, 3, 9], |keys| {
        asked.lock().unwrap().push(keys.iter().map(|&&key| key).collect::<Vec<_>>());
        // In another order, without 9, and one that nobody asked for.
        [(1, 1), (7, 49), (3, 9)]
    });
    assert_eq!(values, [Some(9), Some(4), Some(1), Some(9), None]);
    assert_eq!(*asked.lock().unwrap(), [[3, 1, 9]]);
    assert_eq!(cache.get_many(&[1, 3, 7, 9]), [Some(1), Some(9), Some(49), None]);
    let none = cache.get_many_with([1, 2, 3], |_| -> [(u64, u64); 0] { unreachable!("all there") });
    assert_eq!(none, [Some(1), Some(4), Some(9)]);
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 0));
}

#[test]
fn a_loader_that_fails_or_panics_leaves_all_keys_as_they_were() {
    let cache = cache();
    let failed = cache.try_get_many_with([1, 2], |_| Err::<[(u64, u64); 0], _>("refused"));
    assert_eq!(*failed.unwrap_err(), "refused");
    let panics =
        || cache.get_many_with([1, 2, 3], |_| -> [(u64, u64); 0] { panic!("a loader of many") });
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(cache.stats().load_failures, 2);
    assert_eq!(cache.get_many_with([1, 2, 3], squares), [Some(1), Some(4), Some(9)]);
}

#[test]
fn a_loader_that_asks_for_its_own_keys_panics_instead_of_waiting_for_ever() {
    must_end(|| {
        let cache = cache();
        let nested = || {
            cache.get_many_with([1, 2], |_| {
                cache.get_many_with([5, 2], squares);
                squares(&[&1, &2])
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
        assert_eq!(cache.get(&5), Some(25), "its own loads end before it waits");
        assert_eq!(cache.get_many_with([1, 2], squares), [Some(1), Some(4)]);
    });
}

fn guard(cache: &Squares, key: u64) -> cortado::LoadGuard<u64, u64> {
    match cache.get_value_or_guard(&key) {
        Err(guard) => guard,
        other => panic!("{other:?}"),
    }
}

/// Another call loads key 2 meanwhile. What that load comes to decides.
#[test]
fn the_outcome_of_another_calls_load_is_shared_and_a_failure_is_loaded_again() {
    for comes in [Some(20), None] {
        must_end(move || {
            let (cache, asked) = (Arc::new(cache()), Arc::new(AtomicUsize::new(0)));
            let other = guard(&cache, 2);
            let call = {
                let (cache, asked) = (Arc::clone(&cache), Arc::clone(&asked));
                std::thread::spawn(move || {
                    cache.get_many_with([1, 2], |keys| {
                        asked.fetch_add(keys.len(), SeqCst);
                        squares(keys)
                    })
                })
            };
            // Its own load ends, whatever the other one does.
            while cache.get(&1).is_none() {
                std::thread::yield_now();
            }
            match comes {
                Some(value) => drop(other.insert(value)),
                None => drop(other),
            }
            assert_eq!(call.join().unwrap(), [Some(1), Some(comes.unwrap_or(4))]);
            assert_eq!(asked.load(SeqCst), if comes.is_some() { 1 } else { 2 });
        });
    }
}

#[test]
fn who_waits_for_one_of_the_keys_shares_its_outcome() {
    must_end(|| {
        let cache = Arc::new(cache());
        let (begun, beginning) = std::sync::mpsc::channel();
        let (end, ending) = std::sync::mpsc::channel::<()>();
        let call = {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || {
                cache.get_many_with([1, 2, 3], |_| {
                    begun.send(()).unwrap();
                    ending.recv().unwrap();
                    [(1, 1), (3, 9)]
                })
            })
        };
        beginning.recv().unwrap();
        let limit = Duration::ZERO;
        let timeout = cache.within(limit, async |cache| cache.get_value_or_guard(&2).await);
        assert!(matches!(timeout, Err(TimedOut)));
        let waiters = [1, 2, 3].map(|key| {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || cache.optionally_get_with(key, || Some(100 + key)))
        });
        end.send(()).unwrap();
        assert_eq!(call.join().unwrap(), [Some(1), None, Some(9)]);
        let got = waiters.map(|waiter| waiter.join().unwrap());
        assert_eq!((got[0], got[2]), (Some(1), Some(9)));
        // A thread that came after the end loads itself.
        assert!(matches!(got[1], None | Some(102)));
    });
}

/// Each thread asks for the same keys in an order of its own. A call that held its own loads while
/// it waits for another call's would wait for ever.
#[test]
fn calls_whose_keys_cross_all_end() {
    must_end(|| {
        let cache = cache();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..300 {
                        let mut keys: Vec<u64> = (0..8).map(|n| round * 8 + n).collect();
                        keys.rotate_left(thread as usize * 2);
                        if thread % 2 == 0 {
                            keys.reverse();
                        }
                        let values = cache.get_many_with(keys.iter().copied(), |missing| {
                            std::thread::yield_now();
                            squares(missing)
                        });
                        for (key, value) in keys.into_iter().zip(values) {
                            assert_eq!(value, Some(key * key));
                        }
                        cache.invalidate(&(round * 8));
                    }
                });
            }
        });
    });
}

/// The key is removed between the load of its first occurrence and its second. Then this call
/// loads it twice, and a loader that makes one pair for it serves both.
#[test]
fn a_key_that_is_given_twice_is_served_twice_though_a_removal_comes_between() {
    must_end(|| {
        let cache: Arc<Audited<Key, u64>> = Arc::new(audited(Cache::builder().build()));
        let (other, asked) = (Arc::clone(&cache), AtomicUsize::new(0));
        arm(Place::Eq, 1, move || other.invalidate(&Name(1)));
        let values = cache.get_many_with([Key(1), Key(1), Key(2)], |keys| {
            asked.fetch_add(keys.len(), SeqCst);
            [(Key(1), 10), (Key(2), 20)]
        });
        assert!(!disarm(), "nothing was removed");
        assert_eq!(values, [Some(10), Some(10), Some(20)]);
        assert_eq!(asked.load(SeqCst), 3);
        assert_eq!(cache.get_many(&[Name(1), Name(2)]), [Some(10), Some(20)]);
    });
}

/// Keys that are given again, before and after further new ones.
#[test]
fn each_key_is_asked_for_once_however_often_it_is_given() {
    let (cache, asked) = (cache(), Mutex::new(Vec::new()));
    let keys = || (0..100).flat_map(|n| [n, n / 2, 7 * n % 100, n]);
    let values = cache.get_many_with(keys(), |keys| {
        asked.lock().unwrap().extend(keys.iter().map(|key| **key));
        squares(keys)
    });
    assert!(values.into_iter().eq(keys().map(|key| Some(key * key))));
    let (asked, mut distinct) = (asked.into_inner().unwrap(), Vec::new());
    keys().for_each(|key| {
        if !distinct.contains(&key) {
            distinct.push(key)
        }
    });
    assert_eq!(asked, distinct);
}

#[test]
fn of_two_values_for_one_key_the_last_one_counts() {
    let cache = cache();
    let made = [(1, 10), (5, 50), (1, 11), (5, 51)];
    assert_eq!(cache.get_many_with([1, 2], |_| made), [Some(11), None]);
    assert_eq!(cache.get_many(&[1, 5]), [Some(11), Some(51)]);
}

#[test]
fn pairs_go_in_and_keys_go_out_together() {
    let mut cache: Cache<String, u32> =
        [("a".to_owned(), 1), ("b".to_owned(), 2)].into_iter().collect();
    cache.extend([("c".to_owned(), 3)]);
    (&cache).extend([("d".to_owned(), 4)]);
    cache.insert_many([("e".to_owned(), 5)]);
    cache.invalidate_many(["a", "e", "unknown"]);
    assert_eq!(cache.get_many(["a", "b", "c", "d", "e"]), [None, Some(2), Some(3), Some(4), None]);
    assert_eq!(cache.policy().max_capacity(), None);
}

/// A loader may return an iterator that works while it is asked. What it does is a part of the
/// load.
#[test]
fn a_lazy_iterator_is_the_loaders_code() {
    let cache = cache();
    let lazily = |keys: &[&u64]| {
        let keys: Vec<u64> = keys.iter().map(|&&key| key).collect();
        keys.into_iter().map(|key| {
            assert!(key != 2, "the second key");
            (key, key)
        })
    };
    assert_eq!(panic_of(|| cache.get_many_with([1, 2], lazily)), "the second key");
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.load_failures, cache.entry_count()), (0, 1, 0));
}
