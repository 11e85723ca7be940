//! Lifetimes, weights, capacities and clocks at the ends of their ranges.

use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, SECOND, TICK, Tested, must_end, tested};
use cortado::RemovalCause::{Expired, Size};
use cortado::{Cache, Clock, Expiry, expire};
use std::cell::RefCell;
use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 86400);
const NANO: Duration = Duration::from_nanos(1);

/// The value is the lifetime; so is each read and each update.
struct AsLong;

impl Expiry<u32, Duration> for AsLong {
    fn expire_after_create(&self, _: &u32, value: &Duration, _: Instant) -> Option<Duration> {
        Some(*value)
    }

    fn expire_after_read(
        &self,
        _: &u32,
        value: &Duration,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(*value)
    }
}

/// Lifetimes, and what `expires_in` says of them on a fresh entry.
const LIFETIMES: [(Duration, Option<Option<Duration>>); 7] = [
    (Duration::ZERO, None),
    (NANO, Some(Some(NANO))),
    (Duration::from_millis(1), Some(Some(Duration::from_millis(1)))),
    (Duration::from_secs(1000 * 365 * 86400), Some(None)),
    (Duration::from_secs(290 * 365 * 86400), Some(Some(Duration::from_secs(290 * 365 * 86400)))),
    (Duration::from_nanos(u64::MAX), Some(None)),
    (Duration::MAX, Some(None)),
];

#[test]
fn lifetimes_of_any_length_come_from_anywhere() {
    must_end(|| {
        for (life, left) in LIFETIMES {
            let cache = tested(|builder| builder.expire_after(AsLong));
            cache.insert(1, life);
            cache.insert(1, life);
            assert_eq!(cache.expires_in(&1).into_options(), left, "{life:?}");
            assert_eq!(cache.get(&1).is_some(), left.is_some());
            cache.get_with(2, || life);
            assert_eq!(cache.expires_in(&2).into_options(), left);
            cache.entry(3).and_compute_with(|_| cortado::Op::Put(life));
            assert_eq!(cache.expires_in(&3).into_options(), left);
            cache.insert_with_ttl(4, life, life);
            assert_eq!(cache.expires_in(&4).into_options(), left);
            cache.insert_with_ttl(5, life, MINUTE);
            assert!(cache.set_ttl(&5, life));
            assert_eq!(cache.expires_in(&5).into_options(), left);
            cache.audit();
            // At the end of each of them nothing is left of it, to the nanosecond.
            if let Some(Some(left)) = left {
                cache.hand.advance(left - NANO);
                assert_eq!(cache.entries().count(), 5);
                cache.hand.advance(NANO);
                assert_eq!(cache.entries().count(), 0);
            }
            cache.pass(TICK);
            let stays = if left == Some(None) { 5 } else { 0 };
            assert_eq!(cache.entry_count(), stays, "{life:?}");
            cache.audit();
        }
    });
}

#[test]
fn fixed_lifetimes_of_any_length() {
    must_end(|| {
        for (life, left) in &LIFETIMES[1..] {
            let live: Tested<u32, u32> = tested(|builder| builder.time_to_live(*life));
            let idle: Tested<u32, u32> = tested(|builder| builder.time_to_idle(*life));
            for cache in [live, idle] {
                cache.insert(1, 1);
                assert_eq!(cache.expires_in(&1).into_options(), *left);
                cache.get(&1);
                cache.audit();
                cache.pass(2 * YEAR);
                let stays = left.unwrap().is_none_or(|left| left > 2 * YEAR);
                assert_eq!(cache.get(&1).is_some(), stays);
                assert_eq!(cache.causes(), if stays { vec![] } else { vec![(1, Expired)] });
                cache.audit();
            }
        }
    });
}

#[test]
fn instants_far_away_and_long_gone() {
    let cache: Tested<u32, u32> = tested(|builder| builder);
    cache.hand.advance(HOUR);
    cache.settle();
    cache.insert(1, 1);
    cache.insert_with_ttl(2, 2, HOUR);
    let now = cache.expires_at(&2).into_options().unwrap().unwrap() - HOUR;
    let far =
        (0..63).filter_map(|shift| now.checked_add(Duration::from_secs(1 << shift))).next_back();
    for instant in [far.unwrap(), now + 1000 * YEAR, now + 600 * YEAR] {
        cache.insert_until(3, 3, instant);
        assert_eq!(cache.expires_in(&3).into_options(), Some(None));
        assert!(cache.set_expires_at(&1, instant));
        assert_eq!(cache.expires_in(&1).into_options(), Some(None));
        cache.audit();
    }
    cache.told();
    // As far back as an Instant can be.
    let long_gone =
        (0..63).filter_map(|shift| now.checked_sub(Duration::from_secs(1 << shift))).next_back();
    for instant in [long_gone.unwrap(), now - HOUR, now - 2 * HOUR, now - NANO, now] {
        cache.insert_until(3, 3, instant);
        assert!(!cache.contains_key(&3));
        cache.insert(4, 4);
        assert!(cache.set_expires_at(&4, instant));
        assert!(!cache.contains_key(&4));
        let told = cache.told();
        assert!(told.iter().filter(|told| told.cause == Expired).count() >= 2, "{told:?}");
        assert!(told.iter().all(|told| told.age == Duration::ZERO));
        cache.audit();
    }
    cache.insert_until(3, 3, now + NANO);
    assert_eq!(cache.expires_in(&3).into_options(), Some(Some(NANO)));
}

#[test]
fn weights_from_nothing_to_the_most() {
    for capacity in [0, 1, 2, 3, 100, u64::from(u32::MAX), 3 * u64::from(u32::MAX), u64::MAX] {
        let cache: Tested<u32, u32> =
            tested(|builder| builder.max_capacity(capacity).weigher(|_, weight| *weight));
        let weights = [0, 1, 2, 3, 100, u32::MAX - 1, u32::MAX];
        for round in 0..30 {
            for (n, &weight) in weights.iter().enumerate() {
                cache.insert(round * 10 + n as u32, weight);
                // The same key changes its weight, too.
                cache.insert(1_000_000, weight);
            }
        }
        cache.audit();
        assert!(cache.weighted_size() <= capacity, "{} in {capacity}", cache.weighted_size());
        let told = cache.told();
        // What is heavier than everything is never stored.
        let heavy = |told: &&crate::common::Told<u32, u32>| u64::from(told.weight) > capacity;
        assert!(told.iter().filter(heavy).all(|told| told.cause == Size && told.age.is_zero()));
        assert!(cache.entries().all(|entry| entry.weight() == *entry));
        // Weightless entries are never evicted, unless caching is off.
        let weightless = cache.entries().filter(|entry| **entry == 0).count();
        assert_eq!(weightless, if capacity == 0 { 0 } else { 30 });
        assert!(
            told.iter()
                .filter(|told| told.weight == 0)
                .all(|told| told.cause != Size || capacity == 0)
        );
    }
}

#[test]
fn capacities_from_nothing_to_the_most() {
    for capacity in [0, 1, 2, 3, 4, 5, 15, 16, 17, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        let cache: Tested<u64, u64> = tested(|builder| builder.max_capacity(capacity));
        for round in 0..5 {
            for key in 0..200 {
                cache.insert(key, round);
                cache.get(&(key / 2));
                cache.get_with(key + 1000, || key);
            }
            cache.invalidate(&round);
        }
        (2000..2100).for_each(|key| cache.insert(key, key));
        cache.audit();
        let count = cache.entry_count();
        assert!(count <= capacity);
        // And it is made use of.
        assert_eq!(count, capacity.min(499), "of {capacity}");
        assert_eq!(cache.told().len() as u64 + count, cache.stats().insertions);
    }
}

#[test]
fn the_last_of_two_entries_in_a_cache_of_one_is_one_of_them() {
    let cache: Tested<u32, u32> = tested(|builder| builder.max_capacity(1));
    cache.insert(1, 1);
    cache.settle();
    cache.insert(2, 2);
    cache.settle();
    let inside: Vec<_> = cache.keys().collect();
    let gone = cache.causes();
    assert!(inside == [1] && gone == [(2, Size)] || inside == [2] && gone == [(1, Size)]);
}

#[test]
fn jitter_of_extreme_lifetimes_stays_within_them() {
    let cache: Tested<u32, Duration> = tested(|builder| {
        let policy = expire::on_write(|_: &u32, life: &Duration| Some(*life)).jitter(1.0);
        builder.expire_after(policy)
    });
    for (key, life) in [Duration::MAX, Duration::from_nanos(u64::MAX), 100 * YEAR, NANO, 2 * NANO]
        .into_iter()
        .enumerate()
    {
        for _ in 0..100 {
            cache.insert(key as u32, life);
            let left = cache.expires_in(&(key as u32)).into_options();
            assert!(left.is_none_or(|left| left.is_none_or(|left| left <= life)), "{left:?}");
        }
    }
    cache.audit();
}

/// The message of a panic that `work` must end with, and the source file that the panic names.
fn located_panic_of<T>(work: impl FnOnce() -> T) -> (String, String) {
    thread_local! {
        static FILE: RefCell<String> = const { RefCell::new(String::new()) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = take_hook();
        set_hook(Box::new(move |panic| {
            let file = panic.location().map_or("", |place| place.file());
            let _ = FILE.try_with(|it| *it.borrow_mut() = file.to_owned());
            next(panic);
        }));
    });
    let message = crate::common::panic_of(work);
    (message, FILE.take())
}

/// Where a method panics, it names the line of its caller.
#[test]
fn builders_take_what_makes_sense_and_name_what_does_not() {
    let refused = |builder: cortado::Builder<u32, u32>| {
        let error = builder.try_build().unwrap_err();
        assert!(error.to_string().contains(error.setting()), "{error}");
        error.setting().to_owned()
    };
    let fine = Duration::from_micros(999);
    assert_eq!(refused(Cache::builder().expiry_resolution(fine)), "expiry_resolution");
    assert_eq!(refused(Cache::builder().expiry_resolution(Duration::ZERO)), "expiry_resolution");
    assert_eq!(refused(Cache::builder().initial_capacity(usize::MAX)), "initial_capacity");
    let (built, file) = located_panic_of(|| {
        let _ = Cache::<u32, u32>::builder().expiry_resolution(Duration::ZERO).build();
    });
    assert!(built.contains("expiry_resolution"), "{built}");
    assert_eq!(file, file!());
    for resolution in [Duration::from_millis(1), HOUR, Duration::MAX] {
        let cache: Tested<u32, u32> = tested(|builder| builder.expiry_resolution(resolution));
        cache.insert_with_ttl(1, 1, SECOND);
        cache.pass(SECOND + TICK);
        assert_eq!(cache.causes(), [(1, Expired)]);
        cache.audit();
    }
    for share in [1.5, f64::NAN] {
        let policy = expire::on_create(|_: &u32, _: &u32| None::<Duration>);
        let (refused, file) = located_panic_of(|| policy.jitter(share));
        assert!(refused.contains("jitter"), "{refused}");
        assert_eq!(file, file!());
    }
}

/// A clock need not begin at zero when a cache is built, and may be about to end.
#[test]
fn clocks_begin_anywhere() {
    // Caches count 2^63 instants, and read one more than the clock.
    let end = (1 << 63) - 3;
    for origin in [0, 1, end / 2, end - 1_000_000_000, end - 1, end] {
        let time = Arc::new(AtomicU64::new(origin));
        let reading = Arc::clone(&time);
        let clock = Clock::custom(move || Duration::from_nanos(reading.load(SeqCst)));
        for idle in [None, Some(SECOND)] {
            time.store(origin, SeqCst);
            let mut builder = Cache::builder().clock(clock.clone()).max_capacity(100);
            if let Some(idle) = idle {
                builder = builder.time_to_idle(idle);
            }
            let cache: Audited<u32, u32> = audited(builder.build());
            cache.insert(1, 1);
            cache.insert_with_ttl(2, 2, NANO);
            cache.insert_with_ttl(3, 3, Duration::MAX);
            cache.insert_with_ttl(4, 4, Duration::ZERO);
            let alive = |key| cache.contains_key(&key);
            assert!(alive(1) && alive(2) && alive(3) && !alive(4), "at {origin}");
            cache.audit();
            // The last instant there is does not come to an end.
            time.store(end, SeqCst);
            let over = end - origin > 2;
            assert!(!over || !cache.contains_key(&2), "at {origin}");
            assert!(idle.is_some() || alive(1) && alive(3));
            (10..200).for_each(|key| cache.insert(key, key));
            cache.audit();
            cache.invalidate_all();
            cache.audit();
            assert_eq!(cache.entry_count(), 0);
        }
    }
}
