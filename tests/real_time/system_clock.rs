//! Deadlines by the system's clock: exact for short lifetimes, early by a documented bound for long
//! ones, never late. Each bound is between readings taken before and after, so that no delay can
//! break it.

use crate::common::audited::audited;
use cortado::{Cache, Clock, Loaded, Op};
use std::time::{Duration, Instant};

/// What the documentation trusts the kernel's coarse clock not to lag by.
const LAG: Duration = Duration::from_nanos(1 << 27);
/// What is counted from a coarse reading is at least this long.
const LONG: Duration = Duration::from_nanos(1 << 32);

/// The earliest and the latest instant at which the key's entry may end, by what the cache says is
/// left. `None` if it has ended.
fn end(cache: &Cache<u32, u32>, key: u32) -> Option<(Instant, Instant)> {
    let before = Instant::now();
    let left = cache.expires_in(&key).into_options()?.expect("it ends");
    Some((before + left, Instant::now() + left))
}

/// That an entry's end is no later than `ttl` after the write was over, and no earlier than `early`
/// before `ttl` after the write began.
fn check(cache: &Cache<u32, u32>, ttl: Duration, early: Duration, write: impl Fn(u32)) {
    for key in 0..1000 {
        let began = Instant::now();
        write(key);
        let done = Instant::now();
        let Some((earliest, latest)) = end(cache, key) else {
            // This thread was off its core for that long.
            assert!(began.elapsed() + early >= ttl, "{ttl:?}: it has ended early");
            continue;
        };
        assert!(earliest <= done + ttl, "{ttl:?}: late by {:?}", earliest - (done + ttl));
        assert!(latest + early >= began + ttl, "{ttl:?}: early by {:?}", began + ttl - latest);
    }
}

#[test]
fn short_lifetimes_are_exact() {
    let cache = audited(Cache::new(10_000));
    for ttl in [Duration::from_secs(1), LONG - Duration::from_nanos(1)] {
        check(&cache, ttl, Duration::ZERO, |key| cache.insert_with_ttl(key, 0, ttl));
    }
}

/// Also where a policy would give a long one.
#[test]
fn short_lifetimes_that_computations_give_are_exact() {
    let hour = Duration::from_secs(3600);
    let cache = audited(Cache::builder().ttl_on_write(move |_, _| Some(hour)).build());
    for ttl in [Duration::from_millis(50), Duration::from_secs(1)] {
        check(&cache, ttl, Duration::ZERO, |key| {
            cache.entry(key).and_compute_with(|_| Op::PutLoaded(Loaded::with_ttl(0, ttl)));
        });
    }
}

#[test]
fn long_lifetimes_are_early_by_the_lag_of_the_coarse_clock_at_most_and_never_late() {
    let cache = audited(Cache::new(10_000));
    for ttl in [LONG, Duration::from_secs(3600), Duration::from_secs(1 << 30)] {
        check(&cache, ttl, LAG, |key| cache.insert_with_ttl(key, 0, ttl));
    }
    let hour = Duration::from_secs(3600);
    let fixed = audited(Cache::builder().max_capacity(10_000).time_to_live(hour).build());
    check(&fixed, hour, LAG, |key| fixed.insert(key, 0));
}

#[test]
fn a_changed_term_counts_from_the_call() {
    let cache = audited(Cache::new(10_000));
    let ttl = Duration::from_secs(60);
    check(&cache, ttl, Duration::ZERO, |key| {
        cache.insert(key, 0);
        assert!(cache.set_ttl(&key, ttl));
    });
}

#[test]
fn idle_times_are_prolonged_by_reads_exactly_if_short_and_nearly_if_long() {
    for (idle, early) in [
        (Duration::from_secs(2), Duration::ZERO),
        (Duration::from_secs(10), LAG + Duration::from_secs(10) / 1024),
    ] {
        let cache = audited(Cache::builder().max_capacity(10_000).time_to_idle(idle).build());
        (0..1000).for_each(|key| cache.insert(key, 0));
        check(&cache, idle, early, |key| assert_eq!(cache.get(&key), Some(0)));
    }
}

/// By more than the coarse clock may lag and a read may leave an idle time as it is.
#[test]
fn a_read_after_a_while_prolongs_a_long_idle_time() {
    let cache = audited(Cache::builder().time_to_idle(Duration::from_secs(10)).build());
    cache.insert(1, 1);
    let (_, before) = end(&cache, 1).expect("it lives");
    std::thread::sleep(2 * LAG);
    assert_eq!(cache.get(&1), Some(1));
    let (after, _) = end(&cache, 1).expect("it lives");
    assert!(after > before, "not prolonged");
}

/// A view that has just read an entry with an hour to live does not take one with little time for
/// granted.
#[test]
fn a_view_sees_short_lives_end_between_long_ones() {
    let cache = audited(Cache::new(10_000));
    let (long, short) = (Duration::from_secs(3600), Duration::from_millis(50));
    cache.insert_with_ttl(0, 0, long);
    let view = cache.pin();
    for key in 1..10 {
        let before = Instant::now();
        cache.insert_with_ttl(key, key, short);
        assert_eq!(view.get(&0), Some(&0));
        let seen = view.get(&key);
        assert!(seen.is_some() || before.elapsed() >= short);
        std::thread::sleep(short + LAG / 2);
        assert_eq!(view.get(&0), Some(&0));
        assert_eq!(view.get(&key), None, "returned after its deadline");
    }
}

/// With a clock of one's own there is nothing to share: each lookup reads it, however much time is
/// left.
#[test]
fn a_view_asks_a_clock_of_ones_own_at_each_lookup() {
    let (clock, hand) = Clock::manual();
    let hour = Duration::from_secs(3600);
    let cache = audited(Cache::builder().max_capacity(10).time_to_live(hour).clock(clock).build());
    cache.insert(1, 1);
    let view = cache.pin();
    assert_eq!(view.get(&1), Some(&1));
    hand.advance(hour);
    assert_eq!(view.get(&1), None);
}
