//! What the operations mean where caches differ: one test for each question.

use crate::common::audited::audited;
use crate::common::{MINUTE, SECOND, TICK, Tested, kept, tested};
use cortado::RemovalCause::{Expired, Replaced};
use cortado::{Cache, Expiry, Op};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Lifetimes in seconds are in the value; counts which hook was asked.
#[derive(Default)]
struct ByValue {
    creates: AtomicUsize,
    updates: AtomicUsize,
    reads: AtomicUsize,
}

impl Expiry<u32, u64> for &'static ByValue {
    fn expire_after_create(&self, _: &u32, value: &u64, _: Instant) -> Option<Duration> {
        self.creates.fetch_add(1, SeqCst);
        Some(Duration::from_secs(*value))
    }

    fn expire_after_update(
        &self,
        _: &u32,
        value: &u64,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.updates.fetch_add(1, SeqCst);
        Some(Duration::from_secs(*value))
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u64,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        self.reads.fetch_add(1, SeqCst);
        current
    }
}

fn by_value() -> (Tested<u32, u64>, &'static ByValue) {
    let hooks: &'static ByValue = kept(Default::default());
    (tested(|builder| builder.expire_after(hooks)), hooks)
}

/// Only a create hook.
struct CreateOnly;

impl Expiry<u32, u64> for CreateOnly {
    fn expire_after_create(&self, _: &u32, value: &u64, _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(*value))
    }
}

#[test]
fn update_without_an_update_hook_gives_a_new_life() {
    let cache = tested(|builder| builder.expire_after(CreateOnly));
    cache.insert(1, 60);
    cache.hand.advance(40 * SECOND);
    cache.insert(1, 30);
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(30 * SECOND)));
    cache.pass(29 * SECOND);
    assert_eq!(cache.get(&1), Some(30));
    cache.pass(SECOND);
    assert_eq!(cache.get(&1), None);
    cache.audit();
}

#[test]
fn insert_over_an_expired_entry_asks_the_create_hook_and_announces_expired() {
    let (cache, hooks) = by_value();
    cache.insert(1, 10);
    cache.hand.advance(10 * SECOND);
    cache.insert(1, 20);
    assert_eq!((hooks.creates.load(SeqCst), hooks.updates.load(SeqCst)), (2, 0));
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(20 * SECOND)));
    assert_eq!(cache.causes(), [(1, Expired)]);
    cache.insert(1, 20);
    assert_eq!((hooks.creates.load(SeqCst), hooks.updates.load(SeqCst)), (2, 1));
    assert_eq!(cache.causes(), [(1, Replaced)]);
    cache.audit();
}

#[test]
fn removing_an_expired_entry_returns_none_and_announces_expired() {
    let (cache, _) = by_value();
    for key in 0..3 {
        cache.insert(key, 10);
    }
    cache.hand.advance(10 * SECOND);
    assert_eq!(cache.remove(&0), None);
    assert_eq!(cache.remove_if(&1, |_, _| panic!("asked about an expired entry")), None);
    cache.invalidate(&2);
    assert_eq!(cache.causes(), [(0, Expired), (1, Expired), (2, Expired)]);
    cache.audit();
}

/// While its read hook is asked another thread replaces the value that is being read. Then it asks
/// for a long life.
#[derive(Default)]
struct Overtaking {
    cache: OnceLock<Cache<u32, u64>>,
}

impl Expiry<u32, u64> for &'static Overtaking {
    fn expire_after_create(&self, _: &u32, value: &u64, _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(*value))
    }

    fn expire_after_read(
        &self,
        key: &u32,
        _: &u64,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        let cache = self.cache.get().expect("set");
        std::thread::scope(|scope| _ = scope.spawn(|| cache.insert(*key, 10)));
        Some(1000 * SECOND)
    }
}

#[test]
fn a_read_that_an_update_overtakes_leaves_the_new_value_its_own_life() {
    let hooks: &'static Overtaking = kept(Default::default());
    let cache = tested(|builder| builder.expire_after(hooks));
    hooks.cache.set(cache.cache.clone()).unwrap();
    cache.insert(1, 60);
    let read = cache.get(&1);
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(10 * SECOND)));
    assert_eq!(cache.peek(&1).as_deref(), Some(&10));
    // Either answer is that of some moment of the call.
    assert!(read == Some(60) || read.is_none(), "{read:?}");
    cache.pass(10 * SECOND);
    assert!(!cache.contains_key(&1));
    cache.audit();
}

/// A read leaves five seconds.
struct ShortenedByReads;

impl Expiry<u32, u64> for ShortenedByReads {
    fn expire_after_create(&self, _: &u32, _: &u64, _: Instant) -> Option<Duration> {
        Some(60 * MINUTE)
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u64,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(5 * SECOND)
    }
}

#[test]
fn a_read_that_shortens_a_life_is_honoured_at_once_and_moves_the_entry() {
    let cache = tested(|builder| builder.expire_after(ShortenedByReads));
    cache.insert(1, 1);
    cache.insert(2, 2);
    cache.settle();
    assert_eq!(cache.get(&1), Some(1));
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(5 * SECOND)));
    cache.settle();
    cache.hand.advance(5 * SECOND);
    assert!(!cache.contains_key(&1));
    // Not an hour late: the wheel has it where it belongs.
    cache.pass(TICK);
    assert_eq!(cache.causes(), [(1, Expired)]);
    assert_eq!(cache.entry_count(), 1);
    cache.audit();
}

#[test]
fn an_entry_is_expired_exactly_at_its_deadline() {
    let (cache, _) = by_value();
    cache.insert(1, 10);
    cache.hand.advance(10 * SECOND - Duration::from_nanos(1));
    assert_eq!(cache.get(&1), Some(10));
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(Duration::from_nanos(1))));
    cache.hand.advance(Duration::from_nanos(1));
    assert_eq!(cache.get(&1), None);
    assert_eq!(cache.expires_in(&1).into_options(), None);
    assert!(cache.peek(&1).is_none() && cache.pin().get(&1).is_none());
    cache.audit();
}

#[test]
fn lifetime_zero_on_create_is_not_stored_and_announced_as_expired() {
    let (cache, _) = by_value();
    cache.insert(1, 0);
    assert_eq!(cache.get(&1), None);
    assert_eq!(cache.causes(), [(1, Expired)]);
    assert_eq!(cache.entry_count(), 0);
    // It takes the place of a living value all the same.
    cache.insert(2, 60);
    cache.insert(2, 0);
    assert_eq!(cache.get(&2), None);
    let told = cache.told();
    let causes: Vec<_> = told.iter().map(|told| (told.value, told.cause)).collect();
    assert_eq!(causes, [(60, Replaced), (0, Expired)]);
    cache.insert_with_ttl(3, 3, Duration::ZERO);
    assert_eq!(cache.causes(), [(3, Expired)]);
    cache.audit();
}

#[test]
fn huge_lifetimes_saturate_to_never() {
    let cache: Tested<u32, u64> = tested(|builder| builder.time_to_live(Duration::MAX));
    cache.insert(1, 1);
    cache.insert_with_ttl(2, 2, Duration::MAX);
    cache.insert_with_ttl(3, 3, Duration::from_secs(u64::MAX));
    for key in 1..=3 {
        assert_eq!(cache.expires_in(&key).into_options(), Some(None));
    }
    cache.pass(Duration::from_secs(500 * 365 * 86400));
    assert_eq!((cache.get(&1), cache.get(&2), cache.get(&3)), (Some(1), Some(2), Some(3)));
    cache.audit();
}

#[test]
fn a_deadline_in_the_past_is_over_at_once_and_gone_after_the_next_pass() {
    let cache: Tested<u32, u64> = tested(|builder| builder);
    let start = Instant::now();
    cache.hand.advance(60 * MINUTE);
    cache.insert(1, 1);
    let past = start - 30 * MINUTE;
    assert!(cache.set_expires_at(&1, past));
    assert_eq!(cache.get(&1), None);
    cache.insert_until(2, 2, past);
    assert_eq!(cache.get(&2), None);
    assert_eq!(cache.causes(), [(1, Expired), (2, Expired)]);
    assert_eq!(cache.entry_count(), 0);
    cache.audit();
}

#[test]
fn iteration_and_contains_key_hide_expired_entries_and_size_may_count_them() {
    let (cache, _) = by_value();
    cache.insert(1, 10);
    cache.insert(2, 60);
    cache.settle();
    cache.hand.advance(10 * SECOND);
    assert_eq!(cache.keys().collect::<Vec<_>>(), [2]);
    assert!(!cache.contains_key(&1) && cache.contains_key(&2));
    assert_eq!(cache.entry_count(), 2);
    cache.pass(TICK);
    assert_eq!(cache.entry_count(), 1);
    cache.audit();
}

/// What an iterator has seen already and not yet returned: it ends meanwhile, or has left the cache
/// when the clock is set back to where it would still live.
#[test]
fn an_iterator_returns_nothing_that_has_ended_since_it_began() {
    for is_set_back in [false, true] {
        let cache: Tested<u64, u64> = tested(|builder| builder.time_to_live(SECOND));
        cache.insert_with_ttl(0, 0, 60 * SECOND);
        (1..1000).for_each(|key| cache.insert(key, key));
        let mut iterator = cache.entries();
        assert!(iterator.next().is_some());
        cache.hand.advance(SECOND);
        if is_set_back {
            cache.pass(TICK);
            cache.hand.set(Duration::ZERO);
        }
        assert!(iterator.all(|entry| *entry.key() == 0));
    }
}

#[test]
fn get_and_its_kin_ask_the_read_hook_and_quiet_reads_do_not() {
    let (cache, hooks) = by_value();
    cache.insert(1, 60);
    let asked = |read: &dyn Fn()| {
        let before = hooks.reads.load(SeqCst);
        read();
        hooks.reads.load(SeqCst) - before
    };
    assert_eq!(asked(&|| assert!(cache.get(&1).is_some())), 1);
    assert_eq!(asked(&|| drop(cache.get_entry(&1))), 1);
    assert_eq!(asked(&|| assert!(cache.pin().get(&1).is_some())), 1);
    assert_eq!(asked(&|| assert!(cache.pin().get(&1).is_some())), 1);
    assert_eq!(asked(&|| assert!(cache.touch(&1))), 1);
    assert_eq!(asked(&|| assert_eq!(cache.get_with(1, || unreachable!()), 60)), 1);
    assert_eq!(asked(&|| drop(cache.entry(1).or_insert_with(|| unreachable!()))), 1);
    assert_eq!(asked(&|| assert!(cache.contains_key(&1))), 0);
    assert_eq!(asked(&|| drop(cache.peek(&1))), 0);
    assert_eq!(asked(&|| assert_eq!(cache.entries().count(), 1)), 0);
    assert_eq!(asked(&|| assert_eq!(cache.keys().count() + cache.values().count(), 2)), 0);
    assert_eq!(asked(&|| assert!(cache.expires_in(&1).into_options().is_some())), 0);
    assert_eq!(asked(&|| assert!(cache.get(&2).is_none())), 0);
    assert_eq!(asked(&|| cache.retain(|_, _| true)), 0);
    let written = || (hooks.creates.load(SeqCst), hooks.updates.load(SeqCst));
    assert_eq!(written(), (1, 0));
    let nop = |_| Op::Nop;
    assert_eq!(asked(&|| drop(cache.entry(1).and_compute_with(nop))), 0);
    assert_eq!(asked(&|| drop(cache.entry(1).and_compute_with(|_| Op::Put(50)))), 0);
    assert_eq!(written(), (1, 1));
    assert_eq!(asked(&|| drop(cache.entry(3).and_compute_with(|_| Op::Put(50)))), 0);
    assert_eq!(written(), (2, 1));
    cache.audit();
}

#[test]
fn a_cache_has_the_name_it_was_given() {
    let named = audited(Cache::<u32, u32>::builder().name("sessions").build());
    let nameless = audited(Cache::<u32, u32>::builder().build());
    assert_eq!((named.name(), nameless.name()), (Some("sessions"), None));
    assert!(format!("{:?}", *named).contains("sessions"));
}
