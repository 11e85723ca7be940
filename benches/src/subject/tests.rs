//! What the reports rely on: the cards say what the adapters do.

use super::*;
use crate::value::Tracked;
use std::time::Instant;

/// Hands what it is told to each cache that can have these keys.
fn each<K: Key, V: Value, D: Driver<K, V>>(driver: impl Fn(Rival) -> D) {
    for &rival in Rival::all() {
        rival.drive(driver(rival));
    }
}

fn found<K: Key, V: Value, S: Subject<K, V>>(cache: &S, keys: std::ops::Range<u64>) -> u64 {
    let mut reader = cache.reader();
    keys.filter(|&key| reader.read(&K::of(key))).count() as u64
}

struct StoresAndFinds(Rival);

impl<K: Key, V: Value> Driver<K, V> for StoresAndFinds {
    type Output = ();

    fn drive<S: Subject<K, V>>(self) {
        let cache = S::new(Plan::entries(100_000));
        assert_eq!(found(&cache, 0..100), 0, "{:?} is empty", self.0);
        for round in 0..2 {
            (0..100).for_each(|key| cache.insert(K::of(key), V::lasting(key + round)));
            cache.settle();
            assert_eq!(found(&cache, 0..100), 100, "{:?} finds what it was given", self.0);
            assert_eq!(found(&cache, 100..200), 0, "{:?} finds nothing else", self.0);
        }
    }
}

#[test]
fn every_cache_stores_and_finds() {
    each::<u64, u64, _>(StoresAndFinds);
    each::<u64, Tracked, _>(StoresAndFinds);
    each::<String, u64, _>(StoresAndFinds);
}

#[test]
fn only_keys_that_cannot_be_copied_keep_a_cache_out() {
    let out = |rival: &&Rival| rival.drive::<String, u64, _>(StoresAndFinds(**rival)).is_none();
    assert_eq!(Rival::all().iter().filter(out).collect::<Vec<_>>(), [&Rival::LightCache]);
}

struct StaysWithinCapacity(Rival);

impl Driver<u64, u64> for StaysWithinCapacity {
    type Output = ();

    fn drive<S: Subject<u64, u64>>(self) {
        let cache = S::new(Plan::entries(1000));
        (0..20_000).for_each(|key| cache.insert(key, u64::lasting(key)));
        cache.settle();
        let found = found(&cache, 0..20_000);
        if self.0.card().bounded {
            // scc rounds up to a power of two.
            assert!((100..=1100).contains(&found), "{:?} holds {found} of 1,000", self.0);
        } else {
            assert_eq!(found, 20_000, "{:?} holds everything", self.0);
        }
    }
}

#[test]
fn the_bounded_ones_are_bounded() {
    each(StaysWithinCapacity);
}

struct Expires(Rival);

impl Driver<u64, u64> for Expires {
    type Output = ();

    fn drive<S: Subject<u64, u64>>(self) {
        let cache = S::new(Plan::entries(1000));
        cache.insert(1, u64::fleeting(1, Duration::from_millis(20)));
        cache.insert(2, u64::lasting(2));
        cache.settle();
        let start = Instant::now();
        while found(&cache, 1..2) == 1 && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let gone = found(&cache, 1..2) == 0;
        assert_eq!(gone, self.0.card().lifetimes, "{:?}", self.0);
        assert_eq!(found(&cache, 2..3), 1, "{:?} keeps what is to stay", self.0);
    }
}

#[test]
fn the_timed_ones_expire_entry_by_entry() {
    // The others would be waited for in vain.
    Rival::all().iter().filter(|rival| rival.card().lifetimes).for_each(|rival| {
        rival.drive(Expires(*rival)).expect("they take any keys");
    });
}

struct ExpiresWhenIdle(Rival);

impl Driver<u64, u64> for ExpiresWhenIdle {
    type Output = ();

    fn drive<S: Subject<u64, u64>>(self) {
        let idle = Some(Duration::from_millis(20));
        let cache = S::new(Plan { capacity: 1000, idle });
        cache.insert(1, u64::lasting(1));
        cache.settle();
        let start = Instant::now();
        let mut wait = Duration::from_millis(20);
        while found(&cache, 1..2) == 1 && start.elapsed() < Duration::from_secs(10) {
            // Each look prolongs its life; sleeps get longer, however the machine is loaded.
            std::thread::sleep(wait);
            wait *= 2;
        }
        assert_eq!(found(&cache, 1..2), 0, "{:?}", self.0);
    }
}

#[test]
fn the_idle_ones_expire_when_idle() {
    Rival::all().iter().filter(|rival| rival.card().idle).for_each(|rival| {
        rival.drive(ExpiresWhenIdle(*rival)).expect("they take any keys");
    });
}
