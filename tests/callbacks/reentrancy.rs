//! Callbacks that use the cache: from every place, every operation.

use crate::common::audited::{Audited, audited};
use crate::common::effort::{effort, is_sampled};
use crate::common::fuse::{
    Borrowed, Key, MISSING, Name, PLACES, Place, Subject, THERE, Timing, Value, arm, disarm, reach,
};
use crate::common::refusals::{is_refused, must_be_refused};
use crate::common::{SECOND, must_end, panic_of, watched, watched_for};
use cortado::{Cache, Loaded, Op};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A key that the outer operation has nothing to do with.
const OTHER: u64 = 2;

type Outer = (&'static str, u64, fn(&Subject, u64));

const OUTER: [Outer; 30] = [
    ("get", THERE, |s, key| assert!(s.cache.get(&Name(key)).is_none_or(|v| v.serial > 0))),
    ("get if", THERE, |s, key| {
        let value = s.cache.get_if(&Name(key), |_, _| {
            reach(Place::Condition);
            true
        });
        assert!(value.is_none_or(|value| value.serial > 0));
    }),
    ("pin", THERE, |s, key| {
        let pinned = s.cache.pin();
        let value = pinned.get(&Name(key));
        assert!(value.is_none_or(|value| value.serial > 0));
    }),
    ("insert", MISSING, |s, key| s.insert(key)),
    ("replace", THERE, |s, key| s.insert(key)),
    ("insert for no time", THERE, |s, key| {
        s.cache.insert_with_ttl(Key(key), s.value(), Duration::ZERO);
    }),
    ("remove", THERE, |s, key| drop(s.cache.remove(&Name(key)))),
    ("remove_if", THERE, |s, key| {
        let condition = |_: &Key, _: &_| {
            reach(Place::Condition);
            true
        };
        drop(s.cache.remove_if(&Name(key), condition));
    }),
    ("retain", THERE, |s, _| {
        s.cache.retain(|_, _| {
            reach(Place::Condition);
            false
        });
    }),
    ("iterate", THERE, |s, _| {
        s.cache.entries().for_each(|entry| drop(entry.value().clone()));
    }),
    ("set_ttl", THERE, |s, key| _ = s.cache.set_ttl(&Name(key), s.timing.other_life())),
    ("load", MISSING, |s, key| {
        let load = || {
            reach(Place::Loader);
            s.value()
        };
        assert!(s.cache.get_with(Key(key), load).serial > 0);
    }),
    ("load fails", MISSING, |s, key| {
        let load = || {
            reach(Place::Loader);
            Err::<Value, _>(())
        };
        // A value, if another operation has brought one.
        drop(s.cache.try_get_with(Key(key), load));
    }),
    ("load nothing", MISSING, |s, key| {
        let load = || {
            reach(Place::Loader);
            None
        };
        drop(s.cache.optionally_get_with(Key(key), load));
    }),
    ("load with a lifetime", MISSING, |s, key| {
        let load = || {
            reach(Place::Loader);
            Loaded::with_ttl(s.value(), s.timing.other_life())
        };
        assert!(s.cache.load_by_ref(&Borrowed(key), load).serial > 0);
    }),
    ("load replaces", THERE, |s, key| {
        let load = || {
            reach(Place::Loader);
            s.value()
        };
        let condition = |_: &Value| {
            reach(Place::Condition);
            true
        };
        assert!(s.cache.entry(Key(key)).or_insert_with_if(load, condition).serial > 0);
    }),
    ("load if", THERE, |s, key| {
        let load = |old| {
            drop(old);
            reach(Place::Loader);
            Loaded::new(s.value())
        };
        let condition = |_: &Value, _| {
            reach(Place::Condition);
            true
        };
        assert!(s.cache.load_if(&Borrowed(key), load, condition).serial > 0);
    }),
    ("load by a guard", MISSING, by_guard),
    ("load many", MISSING, |s, key| {
        let loaded = s.cache.get_many_with([Key(key), Key(THERE), Key(key + 1)], |keys| {
            reach(Place::Loader);
            keys.iter().map(|key| (Key(key.0), s.value())).collect::<Vec<_>>()
        });
        assert!(loaded.iter().all(Option::is_some));
    }),
    ("load many fails", MISSING, |s, key| {
        let fails = |_: &[&Key]| {
            reach(Place::Loader);
            Err::<Vec<(Key, Value)>, _>(())
        };
        drop(s.cache.try_get_many_with([Key(key), Key(key + 1)], fails));
    }),
    ("insert many", MISSING, |s, key| {
        s.cache.insert_many([(Key(key), s.value()), (Key(THERE), s.value())]);
    }),
    ("invalidate many", THERE, |s, key| s.cache.invalidate_many(&[Name(key), Name(20)])),
    ("invalidate some", THERE, |s, _| {
        let condition = |_: &Key, _: &Value| {
            reach(Place::Condition);
            true
        };
        assert!(s.cache.invalidate_entries_if(condition).is_ok());
    }),
    ("compute fails", THERE, |s, key| {
        let failed = s.cache.entry(Key(key)).and_try_compute_with(|_| {
            reach(Place::Compute);
            Err::<Op<Value>, _>(())
        });
        assert!(failed.is_err());
    }),
    ("compute upserts", THERE, |s, key| {
        s.cache.entry_by_ref(&Borrowed(key)).and_upsert_with(|_| {
            reach(Place::Compute);
            s.value()
        });
    }),
    ("compute replaces value", THERE, |s, key| drop(s.cache.replace(Key(key), s.value()))),
    ("compute", THERE, |s, key| compute(s, key, true)),
    ("compute missing", MISSING, |s, key| compute(s, key, true)),
    ("compute removes", THERE, |s, key| compute(s, key, false)),
    ("maintenance", THERE, |s, _| {
        s.advance(70 * SECOND);
        s.cache.run_pending_tasks();
    }),
];

fn compute(s: &Subject, key: u64, puts: bool) {
    s.cache.entry(Key(key)).and_compute_with(|_| {
        reach(Place::Compute);
        if puts { Op::Put(s.value()) } else { Op::Remove }
    });
}

/// Takes the value, or brings one. It waits for nobody.
fn by_guard(s: &Subject, key: u64) {
    match s.cache.get_value_or_guard(&Borrowed(key)) {
        Err(guard) => drop(guard.insert(s.value())),
        Ok(value) => assert!(value.serial > 0),
    }
}

pub type Inner = (&'static str, fn(&Subject, u64));

/// What the callback does, with the key of the outer operation.
pub const INNER: [Inner; 35] = [
    ("get", |s, key| drop(s.cache.get(&Name(key)))),
    ("get if", |s, key| drop(s.cache.get_if(&Name(key), |_, _| true))),
    ("insert", |s, key| s.insert(key)),
    ("insert other", |s, _| s.insert(OTHER)),
    ("insert many", |s, _| (200..400).for_each(|key| s.insert(key))),
    ("remove", |s, key| drop(s.cache.remove(&Name(key)))),
    ("remove other", |s, _| s.cache.invalidate(&Name(OTHER))),
    ("remove_if", |s, key| drop(s.cache.remove_if(&Name(key), |_, _| true))),
    ("invalidate_all", |s, _| s.cache.invalidate_all()),
    ("retain", |s, _| s.cache.retain(|_, _| false)),
    ("iterate", |s, _| assert!(s.cache.entries().all(|entry| entry.serial > 0))),
    ("run_pending_tasks", |s, _| {
        s.advance(70 * SECOND);
        s.cache.run_pending_tasks();
    }),
    ("load", |s, key| drop(s.cache.get_with(Key(key), || s.value()))),
    ("load if", |s, key| {
        drop(s.cache.load_if(&Borrowed(key), |_| Loaded::new(s.value()), |_, _| true));
    }),
    ("make stale", |s, key| assert!(!s.cache.make_stale(&Name(key)) || key != OTHER)),
    ("load other", |s, _| drop(s.cache.get_with(Key(OTHER + 300), || s.value()))),
    ("compute", |s, key| compute(s, key, true)),
    ("compute other", |s, _| compute(s, OTHER, false)),
    ("set_ttl", |s, key| _ = s.cache.set_ttl(&Name(key), Duration::ZERO)),
    ("replace", |s, key| drop(s.cache.replace(Key(key), s.value()))),
    ("replace other", |s, _| drop(s.cache.replace(Key(OTHER), s.value()))),
    ("upsert", |s, key| drop(s.cache.entry(Key(key)).and_upsert_with(|_| s.value()))),
    ("get_many", |s, key| drop(s.cache.get_many(&[Name(key), Name(OTHER)]))),
    ("insert_many", |s, key| {
        s.cache.insert_many([(Key(OTHER), s.value()), (Key(key), s.value())]);
    }),
    ("invalidate_many", |s, key| s.cache.invalidate_many(&[Name(OTHER), Name(key)])),
    ("invalidate some", |s, _| assert!(s.cache.invalidate_entries_if(|_, _| true).is_ok())),
    ("load fails", |s, key| drop(s.cache.try_get_with(Key(key), || Err::<Value, _>(())))),
    ("load nothing", |s, key| drop(s.cache.optionally_get_with(Key(key), || None))),
    ("load many", |s, key| {
        let keys = [Key(OTHER + 300), Key(key)];
        drop(s.cache.get_many_with(keys, |keys| {
            keys.iter().map(|key| (Key(key.0), s.value())).collect::<Vec<_>>()
        }));
    }),
    ("load by a guard", by_guard),
    ("load other by a guard", |s, _| by_guard(s, OTHER + 300)),
    ("policy", |s, _| assert!(s.cache.policy().max_capacity().is_some())),
    ("set_max_capacity", |s, _| {
        let capacity = s.cache.policy().max_capacity().expect("it has one");
        assert!(s.cache.set_max_capacity(capacity - 2));
    }),
    ("set_time_to_live", |s, _| s.cache.set_time_to_live(Some(30 * SECOND))),
    ("drop a handle", |s, _| {
        let other = s.cache.clone();
        drop(other.get_entry(&Name(OTHER)));
        drop(other);
    }),
];

/// Lets the `nth` call of `place` in `outer` do `inner`; false if there were fewer calls.
fn one(
    (place, nth): (Place, u32),
    outer: Outer,
    inner: Inner,
    (timing, capacity): (Timing, u64),
) -> bool {
    let subject = Subject::new(timing, capacity, false);
    subject.fill();
    let (name, key, operation) = outer;
    // Weakly, or the subject would never be dropped; as a slot, so that it can be taken.
    let slot = Arc::new(Mutex::new(Some(subject.clone())));
    let hand = Arc::clone(&slot);
    arm(place, nth, move || {
        let subject = hand.lock().unwrap().take().expect("armed once");
        inner.1(&subject, key);
    });
    let result = catch_unwind(AssertUnwindSafe(|| operation(&subject, key)));
    let reached = !disarm();
    slot.lock().unwrap().take();
    let must = reached && must_be_refused(place, (name, key), inner.0);
    assert!(result.is_err() || !must, "{place:?} {nth}: {} in {name} is not refused", inner.0);
    if let Err(panic) = result {
        let message = panic.downcast_ref::<&str>().map_or_else(
            || panic.downcast_ref::<String>().cloned().unwrap_or_default(),
            |message| (*message).to_owned(),
        );
        let messages = [
            "a load or computation waits for its own key",
            "an expiry hook, a weigher or a condition writes the key that it was asked about",
        ];
        assert!(messages.contains(&&*message), "{message}");
        assert!(is_refused(place, name, inner.0), "{place:?} {nth}: {} in {name}", inner.0);
    }
    let stats = subject.cache.stats();
    let caught = stats.listener_panics + stats.drop_panics;
    assert!(caught == 0 || is_refused(place, name, inner.0));
    subject.check();
    subject.insert(key);
    subject.cache.run_pending_tasks();
    if capacity >= 1000 {
        assert!(subject.cache.get(&Name(key)).is_some());
    }
    subject.check();
    let living = Arc::clone(&subject.living);
    drop(subject);
    assert_eq!(living.load(SeqCst), 0, "values that nobody has dropped");
    reached
}

/// With small and large caches on a clock that the test moves.
fn from(places: &'static [Place]) {
    from_each(places, &[(Timing::Moved, 1000), (Timing::Moved, 12)]);
}

/// What is tried in each operation, also where a share of the others is.
pub const ALWAYS: &str = "upsert";

fn from_each(places: &'static [Place], settings: &'static [(Timing, u64)]) {
    watched(move |watch| {
        for &place in places {
            let mut reached = 0;
            for outer in OUTER {
                for inner in INNER {
                    for &(timing, capacity) in settings {
                        // The first few calls, which are those of different steps.
                        for nth in 1..=6 {
                            let (inner_name, outer_name) = (inner.0, outer.0);
                            let is_first = nth == 1 && inner_name == ALWAYS;
                            let case = (place, nth, inner_name, outer_name, capacity);
                            if !is_first && !is_sampled(case) {
                                continue;
                            }
                            watch.begin(format!(
                                "{place:?} {nth}: {inner_name} in {outer_name}, {timing:?}, capacity {capacity}"
                            ));
                            if !one((place, nth), outer, inner, (timing, capacity)) {
                                break;
                            }
                            reached += 1;
                        }
                    }
                }
            }
            let least = if effort() == 100 { INNER.len() } else { 1 };
            assert!(reached >= least, "{place:?} is reached {reached} times only");
        }
    });
}

#[test]
fn from_the_weigher_and_the_hooks() {
    from(&PLACES[..4]);
}

#[test]
fn from_the_loader_the_computation_and_the_conditions() {
    from(&PLACES[4..7]);
}

#[test]
fn from_hash_eq_and_clone() {
    from(&PLACES[7..10]);
}

#[test]
fn from_the_destructors() {
    from(&PLACES[10..12]);
}

#[test]
fn from_the_clock() {
    from(&PLACES[12..13]);
}

#[test]
fn from_the_listeners() {
    from(&PLACES[13..]);
}

/// By the system's clock hooks are asked once or twice, and operations read it at other moments.
const BY_THE_SYSTEM: [(Timing, u64); 2] = [(Timing::Short, 1000), (Timing::Long, 1000)];

#[test]
fn by_the_systems_clock_from_what_is_asked() {
    from_each(&PLACES[..7], &BY_THE_SYSTEM);
}

#[test]
fn by_the_systems_clock_from_hash_eq_and_clone() {
    from_each(&PLACES[7..10], &BY_THE_SYSTEM);
}

#[test]
fn by_the_systems_clock_from_destructors_and_listeners() {
    from_each(&PLACES[10..12], &BY_THE_SYSTEM);
    from_each(&PLACES[13..], &BY_THE_SYSTEM);
}

/// What the tests above rest on: neither a thread that waits nor one that is busy goes unnoticed.
#[test]
fn a_case_that_hangs_is_noticed() {
    for busy in [false, true] {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let noticed = panic_of(|| {
            watched_for(100, move |watch| {
                watch.begin("one".to_owned());
                watch.begin("another".to_owned());
                while !ends.load(SeqCst) {
                    if busy {
                        std::hint::spin_loop();
                    } else {
                        std::thread::park();
                    }
                }
            });
        });
        over.store(true, SeqCst);
        assert_eq!(noticed, "it hangs: another");
    }
}

/// A value that keeps its cache alive.
struct Owner(Cache<u32, Owner>);

#[test]
fn the_last_handle_may_be_dropped_by_a_value_of_the_cache() {
    must_end(|| {
        for way in 0..4 {
            let cache: Cache<u32, Owner> = Cache::builder().max_capacity(10).build();
            (0..5).for_each(|key| cache.insert(key, Owner(cache.clone())));
            assert!(cache.get_entry(&1).is_some_and(|entry| entry.0.name().is_none()));
            let handle = cache.get_entry(&2).unwrap();
            match way {
                0 => cache.invalidate_all(),
                1 => (0..5).for_each(|key| cache.invalidate(&key)),
                2 => cache.close(),
                _ => (0..100).for_each(|key| cache.insert(key, Owner(cache.clone()))),
            }
            cache.audit();
            if way < 3 {
                drop(cache);
                // Its value holds the last handle on the cache, and goes with the entry.
                drop(handle);
            } else {
                cache.invalidate_all();
                cache.run_pending_tasks();
                cache.audit();
                drop(handle);
                drop(cache);
            }
        }
    });
}

#[test]
fn a_chain_of_destructors_does_not_grow_the_stack() {
    /// Its destructor removes the next key.
    struct Link(u32, Cache<u32, Link>);

    impl Drop for Link {
        fn drop(&mut self) {
            self.1.invalidate(&(self.0 + 1));
            self.1.run_pending_tasks();
        }
    }

    must_end(|| {
        let cache: Audited<u32, Link> = audited(Cache::builder().build());
        (0..20_000).for_each(|key| cache.insert(key, Link(key, cache.clone())));
        cache.invalidate(&0);
        while cache.entry_count() > 0 {
            cache.run_pending_tasks();
        }
    });
}
