//! `replace`, which writes only what is there, and `drain`, which takes everything out.

use crate::common::{MINUTE, SECOND, must_end, tested};
use cortado::RemovalCause::{Expired, Replaced};
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
