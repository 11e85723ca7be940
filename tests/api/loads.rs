//! Loads from several threads, and what overtakes them.

use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, SECOND, Tested, must_end, panic_of, tested, yield_a_while};
use cortado::RemovalCause::{Expired, Explicit};
use cortado::{Cache, CompResult, Op};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const OWN_KEY: &str = "a load or computation waits for its own key";

/// Loads key 1 on several threads at once, all of which ask while the first load is running.
fn load_together(cache: &Tested<u32, u64>, init: impl Fn(usize) -> u64 + Sync) -> Vec<u64> {
    const THREADS: usize = 4;
    let (started, barrier) = (AtomicUsize::new(0), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        let load = |thread: usize| {
            let (started, barrier, init) = (&started, &barrier, &init);
            scope.spawn(move || {
                barrier.wait();
                cache.get_with(1, || {
                    let nth = started.fetch_add(1, SeqCst);
                    yield_a_while();
                    init(nth) + thread as u64 * 1000
                })
            })
        };
        let threads: Vec<_> = (0..THREADS).map(load).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

#[test]
fn one_of_many_callers_loads_and_all_get_its_value() {
    must_end(|| {
        for _ in 0..50 {
            let cache = tested(|builder| builder.max_capacity(10));
            let loads = AtomicUsize::new(0);
            let values = load_together(&cache, |_| {
                loads.fetch_add(1, SeqCst);
                7
            });
            assert_eq!(loads.load(SeqCst), 1);
            assert_eq!(values.len(), 4);
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            assert_eq!(cache.get(&1), Some(values[0]));
            assert_eq!(cache.told(), []);
            cache.audit();
        }
    });
}

#[test]
fn a_loader_that_panics_hands_over_to_one_who_waits() {
    must_end(|| {
        for _ in 0..20 {
            let cache = tested(|builder| builder);
            // The first two fail.
            let values = load_together(&cache, |nth| {
                assert!(nth >= 2, "load {nth}");
                7
            });
            assert_eq!(values.len(), 2);
            assert_eq!(values[0], values[1]);
            assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 2));
            assert_eq!(cache.get(&1), Some(values[0]));
            cache.audit();
        }
    });
}

#[test]
fn when_every_loader_panics_each_caller_hears_its_own_panic() {
    must_end(|| {
        let cache = tested(|builder| builder);
        let loads = AtomicUsize::new(0);
        let values = load_together(&cache, |_| {
            loads.fetch_add(1, SeqCst);
            panic!("no value");
        });
        assert_eq!((loads.load(SeqCst), values.len()), (4, 0));
        assert_eq!(cache.get(&1), None);
        cache.audit();
        assert_eq!(cache.get_with(1, || 5), 5);
        assert_eq!(panic_of(|| cache.get_with(2, || panic!("mine"))), "mine");
        cache.audit();
    });
}

#[test]
fn a_lifetime_of_zero_reaches_all_who_wait_and_is_not_kept() {
    must_end(|| {
        for _ in 0..20 {
            let policy = |_: &u32, _: &u64| Some(Duration::ZERO);
            let cache = tested(|builder| builder.expire_after(cortado::expire::on_write(policy)));
            let loads = AtomicUsize::new(0);
            let values = load_together(&cache, |_| {
                loads.fetch_add(1, SeqCst);
                7
            });
            // Who comes after the landing loads for itself.
            let loads = loads.load(SeqCst);
            assert!((1..=4).contains(&loads));
            assert_eq!(values.len(), 4);
            assert_eq!(cache.get(&1), None);
            assert_eq!(cache.causes(), vec![(1, Expired); loads]);
            cache.audit();
        }
    });
}

/// Runs `overtake` in the middle of a load, on this thread or another.
fn overtaken(overtake: impl Fn(&Tested<u32, u64>) + Sync, elsewhere: bool) -> Tested<u32, u64> {
    let cache = tested(|builder| builder.max_capacity(100));
    let loaded = std::thread::scope(|scope| {
        cache.entry(1).or_insert_with(|| {
            if elsewhere {
                scope.spawn(|| overtake(&cache)).join().unwrap();
            } else {
                overtake(&cache);
            }
            10
        })
    });
    // Whatever became of it, the caller has a value: its own, or the one that was there first.
    assert!(*loaded == 10 || *loaded == 20, "{loaded:?}");
    assert_eq!(loaded.is_fresh(), *loaded == 10);
    cache.audit();
    cache
}

#[test]
fn a_load_that_is_overtaken_is_returned_and_not_kept() {
    type Overtake = fn(&Tested<u32, u64>);
    let overtakes: [(&str, Overtake); 6] = [
        ("invalidate", |cache| cache.invalidate(&1)),
        ("remove", |cache| assert_eq!(cache.remove(&1), None)),
        ("invalidate_all", |cache| cache.invalidate_all()),
        ("insert and invalidate", |cache| {
            cache.insert(1, 20);
            cache.invalidate(&1);
        }),
        ("insert and invalidate_all", |cache| {
            cache.insert(1, 20);
            cache.invalidate_all();
        }),
        ("close", |cache| cache.close()),
    ];
    must_end(move || {
        for (name, overtake) in overtakes {
            for elsewhere in [false, true] {
                let cache = overtaken(overtake, elsewhere);
                assert_eq!(cache.get(&1), None, "{name}");
                // A later load is kept again.
                if name != "close" {
                    assert_eq!(cache.get_with(1, || 30), 30);
                    assert_eq!(cache.get(&1), Some(30));
                }
                assert!(cache.causes().iter().all(|told| told.1 == Explicit));
            }
        }
    });
}

#[test]
fn a_value_that_was_inserted_meanwhile_is_returned_in_the_place_of_the_load() {
    must_end(|| {
        for elsewhere in [false, true] {
            let cache = overtaken(|cache| cache.insert(1, 20), elsewhere);
            assert_eq!(cache.get(&1), Some(20));
            assert_eq!(cache.told(), []);
        }
    });
}

#[test]
fn what_does_not_concern_the_key_does_not_overtake_its_load() {
    type Harmless = fn(&Tested<u32, u64>);
    let harmless: [Harmless; 6] = [
        |cache| cache.insert(2, 20),
        |cache| cache.invalidate(&2),
        |cache| assert_eq!(cache.get(&1), None),
        |cache| cache.retain(|_, _| false),
        |cache| assert!(!cache.set_ttl(&1, SECOND) && !cache.persist(&1) && !cache.touch(&1)),
        |cache| cache.run_pending_tasks(),
    ];
    must_end(move || {
        for harmless in harmless {
            for elsewhere in [false, true] {
                assert_eq!(overtaken(harmless, elsewhere).get(&1), Some(10));
            }
        }
    });
}

#[test]
fn a_load_of_the_key_that_is_being_loaded_panics_instead_of_waiting_for_ever() {
    must_end(|| {
        let cache: Audited<u32, u64> = audited(Cache::new(100));
        assert_eq!(panic_of(|| cache.get_with(1, || cache.get_with(1, || 1))), OWN_KEY);
        let chain = || cache.get_with(1, || cache.get_with(2, || cache.get_with(1, || 1)));
        assert_eq!(panic_of(chain), OWN_KEY);
        let put = |_: Option<_>| Op::Put(1);
        let computes = || {
            cache.get_with(1, || {
                cache.entry(1).and_compute_with(put);
                1
            })
        };
        assert_eq!(panic_of(computes), OWN_KEY);
        // Other keys are no trouble, and neither are these afterwards.
        assert_eq!(cache.get_with(1, || cache.get_with(2, || cache.get_with(3, || 3)) + 1), 4);
    });
}

#[test]
fn a_computation_that_writes_its_own_key_panics_instead_of_waiting_for_ever() {
    must_end(|| {
        let cache: Audited<u32, u64> = audited(Cache::new(100));
        cache.insert(1, 1);
        type Write = fn(&Cache<u32, u64>);
        let writes: [Write; 8] = [
            |cache| cache.insert(1, 2),
            |cache| cache.invalidate(&1),
            |cache| drop(cache.remove_entry(&1)),
            |cache| assert!(cache.remove_if(&1, |_, _| true).is_some()),
            |cache| cache.retain(|_, _| false),
            |cache| assert!(cache.set_ttl(&1, SECOND)),
            |cache| assert!(cache.persist(&1)),
            |cache| drop(cache.entry(1).and_compute_with(|_| Op::Nop)),
        ];
        for write in writes {
            let computation = || {
                cache.entry(1).and_compute_with(|_| {
                    write(&cache);
                    Op::Put(9)
                })
            };
            assert_eq!(panic_of(computation), OWN_KEY);
            assert_eq!(cache.get(&1), Some(1), "the entry is as before");
            assert_eq!(cache.expires_in(&1).into_options(), Some(None));
            cache.audit();
        }
        // Reading it, and writing others, is allowed.
        cache.entry(1).and_compute_with(|entry| {
            assert_eq!(cache.get(&1), Some(1));
            assert_eq!(cache.get_with(1, || unreachable!()), 1);
            cache.insert(2, 2);
            cache.entry(3).and_compute_with(|_| Op::Put(3));
            Op::Put(*entry.unwrap() + 10)
        });
        assert_eq!((cache.get(&1), cache.get(&2), cache.get(&3)), (Some(11), Some(2), Some(3)));
    });
}

#[test]
fn a_load_waits_for_a_computation_and_takes_its_result() {
    must_end(|| {
        for put in [true, false] {
            let cache: Audited<u32, u64> = audited(Cache::new(100));
            let loading = AtomicBool::new(false);
            std::thread::scope(|scope| {
                cache.entry(1).and_compute_with(|_| {
                    scope.spawn(|| {
                        loading.store(true, SeqCst);
                        let loaded = cache.get_with(1, || 2);
                        assert_eq!(loaded, if put { 1 } else { 2 });
                    });
                    while !loading.load(SeqCst) {
                        std::thread::yield_now();
                    }
                    yield_a_while();
                    if put { Op::Put(1) } else { Op::Nop }
                });
            });
        }
    });
}

/// While a computation looks at an entry the maintenance leaves it alone, however much there is to
/// be evicted, and even if its life ends.
#[test]
fn an_entry_stays_in_the_middle_of_its_computation() {
    must_end(|| {
        let cache: Tested<u64, u64> = tested(|builder| builder.max_capacity(10));
        for key in 0..20 {
            cache.invalidate_all();
            cache.settle();
            cache.insert_with_ttl(key, key, MINUTE);
            let result = cache.entry(key).and_compute_with(|entry| {
                assert!(entry.is_some());
                for other in 100..200 {
                    cache.insert(other, key);
                    cache.get(&other);
                }
                cache.run_pending_tasks();
                assert!(cache.contains_key(&key), "evicted");
                cache.hand.advance(2 * MINUTE);
                // On a thread that owns no key, where notifications are delivered.
                std::thread::scope(|scope| scope.spawn(|| cache.settle()).join().unwrap());
                let told = cache.told();
                assert!(told.iter().all(|told| told.key != key), "taken away");
                Op::Put(key + 1)
            });
            assert!(matches!(result, CompResult::ReplacedWith(_)));
            assert!(cache.told().iter().any(|told| (told.key, told.cause) == (key, Expired)));
            cache.audit();
        }
    });
}
