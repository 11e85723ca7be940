//! `replace`, which writes only what is there, and `drain`, which takes everything out.

use crate::common::{MINUTE, SECOND, must_end, tested};
use cortado::RemovalCause::{Expired, Explicit, Replaced};
use cortado::{Builder, Expiration, Expiry};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

type Build = Builder<u32, u32>;

#[test]
fn replace_returns_the_old_entry_or_the_value() {
    let tested = tested(|builder: Build| builder);
    assert_eq!(tested.replace(1, 10).unwrap_err(), 10);
    assert!(!tested.contains_key(&1));
    tested.insert(1, 11);
    let old = tested.replace(1, 12).unwrap();
    assert_eq!((*old, *old.key(), tested.get(&1)), (11, 1, Some(12)));
    tested.insert_with_ttl(2, 20, SECOND);
    tested.hand.advance(SECOND);
    assert_eq!(tested.replace(2, 21).unwrap_err(), 21, "its life is over");
    assert_eq!(tested.causes(), [(1, Replaced), (2, Expired)]);
    tested.invalidate_all();
    assert_eq!(tested.replace(1, 13).unwrap_err(), 13);
}

/// Says by its numbers which hook was asked.
struct Hooks;

impl Expiry<u32, u32> for Hooks {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        Some(100 * SECOND)
    }

    fn expire_after_update(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        Some(current? + SECOND)
    }
}

#[test]
fn replace_is_an_update_for_the_hooks_and_for_the_statistics() {
    let tested = tested(|builder: Build| builder.expire_after(Hooks).time_to_live(MINUTE * 3));
    tested.insert(1, 1);
    tested.hand.advance(10 * SECOND);
    tested.replace(1, 2).unwrap();
    assert_eq!(tested.expires_in(&1), Expiration::Due(91 * SECOND));
    assert!(tested.replace(7, 7).is_err());
    let stats = tested.stats();
    assert_eq!((stats.insertions, stats.hits, stats.misses), (2, 0, 0));
}

/// Of several threads that replace one value, each replaces another one.
#[test]
fn no_value_is_replaced_twice() {
    must_end(|| {
        let tested = tested(|builder: Build| builder);
        tested.insert(0, 0);
        let old = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (tested, old) = (&tested, &old);
                scope.spawn(move || {
                    for n in 0..500 {
                        let replaced = tested.replace(0, 1 + thread * 1000 + n).unwrap();
                        old.lock().unwrap().push(*replaced);
                    }
                });
            }
        });
        let old = old.into_inner().unwrap();
        assert_eq!(old.len(), 1500);
        let last = tested.get(&0).unwrap();
        let all: BTreeSet<u32> = old.into_iter().chain([last]).collect();
        assert_eq!(all.len(), 1501);
        assert!(tested.told().iter().all(|told| told.cause == Replaced));
    });
}

#[test]
fn a_drain_takes_everything_out_as_explicit() {
    let tested = tested(|builder: Build| builder);
    (0..1000).for_each(|key| tested.insert(key, key + 1));
    tested.insert_with_ttl(5000, 0, SECOND);
    tested.hand.advance(SECOND);
    let mut seen = BTreeSet::new();
    for entry in tested.drain() {
        assert_eq!(*entry, *entry.key() + 1);
        assert!(!tested.contains_key(entry.key()), "it is out when it is returned");
        assert!(seen.insert(*entry.key()), "returned twice");
    }
    assert_eq!(seen.len(), 1000);
    assert_eq!((tested.entries().count(), tested.drain().count()), (0, 0));
    let told = tested.causes();
    assert_eq!(told.len(), 1001);
    let of = |cause| told.iter().filter(|(_, it)| *it == cause).count();
    assert_eq!((of(Explicit), of(Expired)), (1000, 1));
}

#[test]
fn a_drain_that_is_dropped_early_leaves_the_rest() {
    let tested = tested(|builder: Build| builder.max_capacity(100));
    (0..50).for_each(|key| tested.insert(key, key));
    assert_eq!(tested.drain().take(20).count(), 20);
    drop(tested.drain());
    assert_eq!((tested.entries().count(), tested.causes().len()), (30, 20));
}

/// What a drain returns is what the key had when it was its turn.
#[test]
fn a_drain_meets_changes_on_the_way() {
    let tested = tested(|builder: Build| builder);
    (0..100).for_each(|key| tested.insert(key, 0));
    let mut drain = tested.drain();
    let first = *drain.next().unwrap().key();
    (0..100).filter(|key| *key != first).for_each(|key| tested.insert(key, 1));
    let removed = (first + 1) % 100;
    tested.invalidate(&removed);
    let rest: Vec<_> = drain.map(|entry| (*entry.key(), *entry)).collect();
    assert!(rest.iter().all(|(key, value)| (*key, *value) != (removed, 0) && *value == 1));
    assert_eq!(rest.len(), 98);
    assert_eq!(tested.entries().count(), 0);
}

/// Each value comes out of one of two drains, or goes otherwise.
#[test]
fn two_drains_share_the_entries_and_double_none() {
    must_end(|| {
        let tested = tested(|builder: Build| builder);
        for round in 0..20 {
            (0..300).for_each(|key| tested.insert(key, round));
            let drained = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let (tested, drained) = (&tested, &drained);
                    scope.spawn(move || {
                        for entry in tested.drain() {
                            drained.lock().unwrap().push(*entry.key());
                        }
                    });
                }
            });
            let mut drained = drained.into_inner().unwrap();
            drained.sort_unstable();
            assert_eq!(drained, (0..300).collect::<Vec<_>>());
        }
    });
}
