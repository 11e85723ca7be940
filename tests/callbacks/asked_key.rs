//! Callbacks and the key that they are asked about: they must not write it, and may write all
//! others.

use crate::common::audited::{Audited, audited};
use crate::common::same_hash::Same;
use crate::common::{MINUTE, SECOND, kept, must_end, panic_of};
use cortado::{Cache, Clock, Expiry, Op};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const REFUSED: &str =
    "an expiry hook, a weigher or a condition writes the key that it was asked about";

type Numbers = Cache<u64, u64, Same>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Create,
    Update,
    Read,
    Weigher,
    RemoveIf,
    Retain,
}

/// What the callback of the test's thread does, once.
type Act = Mutex<Option<(Asked, fn(&Numbers, u64), u64)>>;

/// A cache all of whose callbacks may be told to use it.
struct Subject {
    cache: Audited<u64, u64, Same>,
    act: Arc<Act>,
}

/// The callbacks' part of it.
#[derive(Clone)]
struct Callbacks {
    cache: &'static OnceLock<Numbers>,
    act: Arc<Act>,
}

impl Callbacks {
    fn reach(&self, place: Asked) {
        let act = self.act.lock().unwrap().take_if(|(at, ..)| *at == place);
        if let Some((_, write, key)) = act {
            write(self.cache.get().expect("set before the first use"), key);
        }
    }
}

impl Expiry<u64, u64> for Callbacks {
    fn expire_after_create(&self, _: &u64, _: &u64, _: Instant) -> Option<Duration> {
        self.reach(Asked::Create);
        Some(MINUTE)
    }

    fn expire_after_update(
        &self,
        _: &u64,
        _: &u64,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.reach(Asked::Update);
        Some(MINUTE)
    }

    fn expire_after_read(
        &self,
        _: &u64,
        _: &u64,
        _: Instant,
        left: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        self.reach(Asked::Read);
        left
    }
}

impl Subject {
    fn new() -> Self {
        let callbacks = Callbacks { cache: kept(OnceLock::new()), act: Arc::default() };
        let weigher = callbacks.clone();
        let cache = audited(
            Cache::builder()
                .max_capacity(100)
                .clock(Clock::manual().0)
                .expire_after(callbacks.clone())
                .weigher(move |_, _| {
                    weigher.reach(Asked::Weigher);
                    1
                })
                .build_with_hasher(Same),
        );
        assert!(callbacks.cache.set(cache.clone()).is_ok());
        (1..=5).for_each(|key| cache.insert(key, 10 * key));
        Self { cache, act: callbacks.act }
    }

    /// An operation on key 1, or the missing key 100, about which `place` is asked.
    fn run(&self, place: Asked, outer: u64) {
        let cache = &self.cache;
        let condition = |key: &u64| {
            if *key == 1 {
                let slot = Callbacks { cache: kept(OnceLock::new()), act: Arc::clone(&self.act) };
                assert!(slot.cache.set((**cache).clone()).is_ok());
                slot.reach(place);
            }
            *key == 1
        };
        match place {
            Asked::Create | Asked::Weigher if outer == 0 => cache.insert(100, 7),
            Asked::Create | Asked::Weigher if outer == 1 => {
                assert_eq!(cache.get_with(100, || 7), 7)
            }
            Asked::Create | Asked::Weigher => _ = cache.entry(100).and_compute_with(|_| Op::Put(7)),
            Asked::Update if outer == 0 => cache.insert(1, 7),
            Asked::Update => _ = cache.entry(1).and_compute_with(|_| Op::Put(7)),
            Asked::Read if outer == 0 => assert_eq!(cache.get(&1), Some(10)),
            Asked::Read if outer == 1 => assert!(cache.touch(&1)),
            Asked::Read => assert_eq!(cache.get_with(1, || 7), 10),
            Asked::RemoveIf => assert_eq!(cache.remove_if(&1, |key, _| condition(key)), Some(10)),
            Asked::Retain => cache.retain(|key, _| !condition(key)),
        }
    }
}

/// The places, with how many operations there are that ask there, and the key of these.
const PLACES: [(Asked, u64, u64); 6] = [
    (Asked::Create, 3, 100),
    (Asked::Weigher, 3, 100),
    (Asked::Update, 2, 1),
    (Asked::Read, 3, 1),
    (Asked::RemoveIf, 1, 1),
    (Asked::Retain, 1, 1),
];

type Write = (&'static str, fn(&Numbers, u64));

const WRITES: [Write; 8] = [
    ("insert", |cache, key| cache.insert(key, 8)),
    ("insert_with_ttl", |cache, key| cache.insert_with_ttl(key, 8, SECOND)),
    ("invalidate", |cache, key| cache.invalidate(&key)),
    ("remove_if", |cache, key| _ = cache.remove_if(&key, |_, _| true)),
    ("set_ttl", |cache, key| _ = cache.set_ttl(&key, SECOND)),
    ("persist", |cache, key| _ = cache.persist(&key)),
    ("compute", |cache, key| _ = cache.entry(key).and_compute_with(|_| Op::Put(8))),
    // A write where it finds nothing.
    ("get_with", |cache, key| {
        cache.get_with(key, || 8);
    }),
];

#[test]
fn a_callback_that_writes_the_key_that_it_was_asked_about_panics_and_changes_nothing() {
    must_end(|| {
        for (place, operations, key) in PLACES {
            for outer in 0..operations {
                for (name, write) in WRITES {
                    if name == "get_with" && key == 1 {
                        continue;
                    }
                    let subject = Subject::new();
                    *subject.act.lock().unwrap() = Some((place, write, key));
                    let message = panic_of(|| subject.run(place, outer));
                    assert_eq!(message, REFUSED, "{place:?} {outer}, {name}");
                    let entries = subject.cache.entries().map(|entry| (*entry.key(), *entry));
                    let mut entries: Vec<_> = entries.collect();
                    entries.sort_unstable();
                    assert_eq!(entries, [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)], "{name}");
                    assert_eq!(subject.cache.expires_in(&1).into_options(), Some(Some(MINUTE)));
                    subject.cache.audit();
                    // As if nothing had been: the callback is not told to do it again.
                    subject.run(place, outer);
                    write(&subject.cache, key);
                    subject.cache.audit();
                }
            }
        }
    });
}

/// All of them have the same hash, and lie in the same bucket.
#[test]
fn a_callback_may_write_other_keys_of_the_same_hash() {
    must_end(|| {
        for (place, operations, _) in PLACES {
            for outer in 0..operations {
                for (name, write) in WRITES {
                    for other in [2, 101] {
                        let subject = Subject::new();
                        *subject.act.lock().unwrap() = Some((place, write, other));
                        subject.run(place, outer);
                        assert!(subject.act.lock().unwrap().is_none(), "{place:?} {outer}, {name}");
                        let removes = matches!(name, "invalidate" | "remove_if");
                        let keeps = matches!(name, "set_ttl" | "persist");
                        let there = !removes && (other == 2 || !keeps);
                        assert_eq!(subject.cache.contains_key(&other), there, "{name} of {other}");
                        subject.cache.audit();
                    }
                }
            }
        }
    });
}
