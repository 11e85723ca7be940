//! Reads and loads under a condition: `get_if`, `load_if`, and the times that they are told.

use crate::common::audited::audited;
use crate::common::{SECOND, Tested, must_end, panic_of, tested};
use cortado::{Cache, ClockTime, Entry, Expiration, Loaded, ReadTimes, RemovalCause};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

type Found = Option<Entry<u32, u32>>;

#[test]
fn a_refused_entry_is_a_miss_and_is_left_alone() {
    let idle = tested(|builder| builder.time_to_idle(60 * SECOND).record_stats(true));
    idle.insert(1, 10);
    idle.hand.advance(45 * SECOND);
    assert_eq!(idle.get_if(&1, |value, _| *value > 10), None);
    assert_eq!(idle.expires_in(&1), Expiration::Due(15 * SECOND), "its life is not prolonged");
    let counted = |it: &Tested<u32, u32>| (it.stats().hits, it.stats().misses);
    assert_eq!(counted(&idle), (0, 1));
    assert_eq!(idle.get_if(&1, |value, _| *value == 10), Some(10));
    assert_eq!(idle.expires_in(&1), Expiration::Due(60 * SECOND));
    assert_eq!(idle.get_if(&2, |_, _| unreachable!("there is no entry")), None);
    assert_eq!(counted(&idle), (1, 2));
    idle.hand.advance(60 * SECOND);
    assert_eq!(idle.get_if(&1, |_, _| unreachable!("it has expired")), None);
}

/// A refused entry counts no use: the others stay when room is needed.
#[test]
fn a_refused_entry_is_not_used() {
    let survivors = |accepts: bool| {
        let lru = |builder: cortado::Builder<u32, u32>| {
            builder.max_capacity(10).eviction_policy(cortado::EvictionPolicy::lru())
        };
        let cache = tested(lru);
        (0..10).for_each(|key| cache.insert(key, key));
        cache.settle();
        assert_eq!(cache.get_if(&0, |_, _| accepts), accepts.then_some(0));
        cache.settle();
        cache.insert(10, 10);
        cache.settle();
        cache.contains_key(&0)
    };
    assert_eq!((survivors(true), survivors(false)), (true, false));
}

#[test]
fn a_read_hook_is_asked_about_accepted_entries_only() {
    let asked = std::sync::Arc::new(AtomicU64::new(0));
    let counts = asked.clone();
    let policy = cortado::expire::on_access(move |_: &u32, _: &u32| {
        counts.fetch_add(1, SeqCst);
        Some(60 * SECOND)
    });
    let cache = tested(|builder| builder.expire_after(policy));
    cache.insert(1, 1);
    let before = asked.load(SeqCst);
    assert_eq!(cache.get_if(&1, |_, _| false), None);
    assert_eq!(asked.load(SeqCst), before);
    assert_eq!(cache.get_if(&1, |_, _| true), Some(1));
    assert_eq!(asked.load(SeqCst), before + 1);
}

#[test]
fn a_condition_is_told_the_present_and_the_time_of_the_write() {
    let cache = tested(|builder| builder);
    let start = cache.clock_now();
    cache.hand.advance(3 * SECOND);
    cache.insert(1, 1);
    cache.hand.advance(2 * SECOND);
    let mut times: Option<ReadTimes> = None;
    cache.get_if(&1, |_, told| times.replace(told).is_none());
    let told = times.unwrap();
    assert_eq!((told.now - told.written, told.written - start), (2 * SECOND, 3 * SECOND));
    assert_eq!((told.now, start - told.now), (cache.clock_now(), Duration::ZERO));
    // As words of eight bytes.
    let word: u64 = told.written.into();
    assert_eq!(ClockTime::from(word), told.written);
    assert!(ClockTime::from(0) < start);
    // A change of the lifetime is no write; an update is one.
    assert!(cache.set_ttl(&1, 60 * SECOND));
    assert_eq!(cache.get_if(&1, |_, it| it.written == told.written), Some(1));
    cache.insert(1, 2);
    assert_eq!(cache.get_if(&1, |_, it| it.written == it.now), Some(2));
}

#[test]
fn an_instant_is_a_time_of_the_cache() {
    let cache = audited(Cache::<u32, u32>::new(10));
    let before = cache.clock_now();
    let now = Instant::now();
    let (at, after) = (cache.clock_time(now), cache.clock_now());
    // It may be a few microseconds early.
    assert!(before - at < Duration::from_micros(10) && at <= after);
    assert_eq!(cache.clock_time(now + SECOND) - at, SECOND);
    let (first, last) = (cache.clock_time(now - 1_000 * SECOND), u64::MAX);
    assert!(first < at && u64::from(cache.clock_time(now + Duration::from_secs(1 << 40))) <= last);
}

/// No value that was written before a stamp is taken for a later one, whatever clocks do.
#[test]
fn a_value_from_before_a_stamp_never_seems_later() {
    for ttl in [Duration::from_secs(1), Duration::from_secs(3600)] {
        let cache = audited(Cache::new(100));
        for n in 0..10_000_u32 {
            cache.insert_with_ttl(1, n, ttl);
            let stamp = cache.clock_now();
            assert_eq!(cache.get_if(&1, |_, times| times.written > stamp), None, "{ttl:?}");
        }
    }
}

/// The condition may do what it likes; the read returns what it has judged.
#[test]
fn a_condition_of_a_read_may_write_the_key() {
    must_end(|| {
        let cache = tested(|builder| builder);
        cache.insert(1, 1);
        let read = cache.get_if(&1, |value, _| {
            cache.insert(1, *value + 1);
            assert_eq!(cache.get_if(&1, |value, _| *value == 2), Some(2));
            true
        });
        assert_eq!((read, cache.get(&1)), (Some(1), Some(2)));
        assert_eq!(panic_of(|| cache.get_if(&1, |_, _| panic!("planned"))), "planned");
        assert_eq!(cache.get(&1), Some(2));
    });
}

/// Where reads prolong lives, each write of the key makes the read look again.
#[test]
fn a_condition_that_writes_the_key_each_time_comes_to_an_end() {
    let idle = tested(|builder| builder.time_to_idle(60 * SECOND).record_stats(true));
    idle.insert(1, 0);
    let mut asked = 0;
    let found = idle.get_if(&1, |value, _| {
        asked += 1;
        idle.insert(1, value + 1);
        true
    });
    assert_eq!((found, asked, idle.stats().misses), (None, 16, 1));
    assert_eq!(idle.get(&1), Some(16));
}

#[test]
fn a_load_with_a_condition_replaces_what_it_refuses() {
    let cache = tested(|builder| builder.record_stats(true));
    let next = |old: Found| Loaded::with_ttl(old.map_or(1, |old| *old + 1), 30 * SECOND);
    assert_eq!(cache.load_if(&1, next, |_, _| unreachable!("there is none")), 1);
    assert_eq!(cache.expires_in(&1), Expiration::Due(30 * SECOND));
    assert_eq!(cache.load_if(&1, next, |value, _| *value < 1), 1);
    assert_eq!(cache.load_if(&1, next, |value, _| *value < 2), 2);
    assert_eq!(cache.causes(), [(1, RemovalCause::Replaced)]);
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.loads), (1, 2, 2), "refused means missed");
}

/// Of an entry that is refused the read leaves no trace; if the loader makes nothing, it stays.
#[test]
fn a_load_that_comes_to_nothing_leaves_the_refused_entry() {
    let cache = tested(|builder| builder.time_to_idle(60 * SECOND));
    cache.insert(1, 10);
    cache.hand.advance(45 * SECOND);
    let fails = |old: Found| Err::<Option<Loaded<u32>>, _>(*old.unwrap());
    assert_eq!(*cache.load_if(&1, fails, |_, _| true).unwrap_err(), 10);
    let none = |_: Found| Ok::<Option<Loaded<u32>>, ()>(None);
    assert_eq!(cache.load_if(&1, none, |_, _| true), Ok(None));
    assert_eq!(panic_of(|| cache.load_if(&1, none, |_, _| panic!("judged"))), "judged");
    assert_eq!(cache.expires_in(&1), Expiration::Due(15 * SECOND));
    assert_eq!(cache.peek(&1).map(|entry| *entry), Some(10));
}

/// A loader is not shown what was removed between the judgement and its call.
#[test]
fn a_loader_does_not_see_an_entry_that_has_gone() {
    let cache = tested(|builder| builder);
    cache.insert(1, 10);
    let made = cache.load_if(
        &1,
        |old| Loaded::new(old.map_or(20, |old| *old)),
        |_, _| {
            std::thread::scope(|scope| {
                scope.spawn(|| cache.invalidate(&1));
            });
            true
        },
    );
    assert_eq!((made, cache.get(&1)), (20, Some(20)));
}

/// A condition of a load guards a write, so it must not write the key itself.
#[test]
fn a_condition_of_a_load_must_not_write_the_key() {
    let cache = tested(|builder| builder);
    cache.insert(1, 10);
    let writes = |_: &u32, _| {
        cache.insert(1, 11);
        true
    };
    let message = panic_of(|| cache.load_if(&1, |_| Loaded::new(12), writes));
    assert!(message.contains("writes the key that it was asked about"), "{message}");
    assert_eq!(cache.get(&1), Some(10));
}

/// A group of entries is invalidated by one store, and each entry is made anew when it is read.
#[test]
fn groups_of_entries_end_by_one_stamp() {
    let cache = tested(|builder| builder);
    let stamp = AtomicU64::new(0);
    let loads = AtomicU64::new(0);
    let read = |key: u32| {
        let is_outdated = |_: &u32, times: ReadTimes| times.written <= stamp.load(SeqCst).into();
        let load = |_: Found| {
            loads.fetch_add(1, SeqCst);
            Loaded::new(key)
        };
        cache.load_if(&key, load, is_outdated)
    };
    cache.hand.advance(SECOND);
    (0..10).for_each(|key| assert_eq!(read(key), key));
    (0..10).for_each(|key| assert_eq!(read(key), key));
    assert_eq!(loads.load(SeqCst), 10);
    stamp.store(cache.clock_now().into(), SeqCst);
    cache.hand.advance(Duration::from_nanos(1));
    (0..10).for_each(|key| assert_eq!(read(key), key));
    (0..10).for_each(|key| assert_eq!(read(key), key));
    assert_eq!(loads.load(SeqCst), 20);
}
