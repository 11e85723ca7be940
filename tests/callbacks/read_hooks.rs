//! A read hook that is the trait's default is asked once, by the first read, and never again. A
//! hook of the user's is asked by each read, also where it leads to the trait's default for some
//! keys.

use crate::common::audited::{Audited, audited};
use cortado::{Cache, Clock, Expiry, expire};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);

/// As in the documentation: the create hook only.
struct Documented;

impl<K, V> Expiry<K, V> for Documented {
    fn expire_after_create(&self, _: &K, _: &V, _: Instant) -> Option<Duration> {
        Some(HOUR)
    }
}

/// A read hook of its own that counts, and leaves even keys to another policy.
struct Wrapper<E>(E, Arc<AtomicU64>);

impl<E: Expiry<u64, u64>> Expiry<u64, u64> for Wrapper<E> {
    fn expire_after_create(&self, key: &u64, value: &u64, now: Instant) -> Option<Duration> {
        self.0.expire_after_create(key, value, now)
    }

    fn expire_after_read(
        &self,
        key: &u64,
        value: &u64,
        now: Instant,
        current: Option<Duration>,
        modified: Instant,
    ) -> Option<Duration> {
        self.1.fetch_add(1, SeqCst);
        if key.is_multiple_of(2) {
            self.0.expire_after_read(key, value, now, current, modified)
        } else {
            Some(2 * HOUR)
        }
    }
}

/// One of several policies, chosen at run time.
enum Either {
    Plain(Documented),
    Renewing,
}

impl Expiry<u64, u64> for Either {
    fn expire_after_create(&self, key: &u64, value: &u64, now: Instant) -> Option<Duration> {
        Documented.expire_after_create(key, value, now)
    }

    fn expire_after_read(
        &self,
        key: &u64,
        value: &u64,
        now: Instant,
        current: Option<Duration>,
        modified: Instant,
    ) -> Option<Duration> {
        match self {
            Self::Plain(policy) => policy.expire_after_read(key, value, now, current, modified),
            Self::Renewing => Some(2 * HOUR),
        }
    }
}

/// Implements the trait twice. One read hook is the trait's default, the other leads to it for even
/// keys.
struct Twice;

impl Expiry<u32, u32> for Twice {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        Some(HOUR)
    }
}

impl Expiry<u64, u64> for Twice {
    fn expire_after_create(&self, _: &u64, _: &u64, _: Instant) -> Option<Duration> {
        Some(HOUR)
    }

    fn expire_after_read(
        &self,
        key: &u64,
        _: &u64,
        now: Instant,
        current: Option<Duration>,
        modified: Instant,
    ) -> Option<Duration> {
        if key.is_multiple_of(2) {
            Expiry::<u32, u32>::expire_after_read(self, &0, &0, now, current, modified)
        } else {
            Some(2 * HOUR)
        }
    }
}

fn cache<E: Expiry<u64, u64> + Send + Sync + 'static>(policy: E) -> Audited<u64, u64> {
    let cache = audited(Cache::builder().expire_after(policy).clock(Clock::manual().0).build());
    (0..10).for_each(|key| cache.insert(key, key));
    cache
}

/// Reads an even key first, whose hook may be the trait's default.
fn reads(cache: &Audited<u64, u64>) -> [Option<Option<Duration>>; 2] {
    [0, 1].map(|key| {
        assert_eq!(cache.get(&key), Some(key));
        cache.expires_in(&key).into_options()
    })
}

#[test]
fn a_hook_that_is_the_traits_own_is_asked_once() {
    static DOCUMENTED: Documented = Documented;
    let policies: Vec<(&str, Audited<u64, u64>)> = vec![
        ("plain", cache(Documented)),
        ("boxed", cache(Box::new(Documented))),
        ("dyn", cache(Box::new(Documented) as Box<dyn Expiry<u64, u64> + Send + Sync>)),
        (
            "twice boxed",
            cache(Box::new(Box::new(Documented) as Box<dyn Expiry<u64, u64> + Send + Sync>)),
        ),
        ("counted", cache(Arc::new(Documented))),
        ("static", cache(&DOCUMENTED)),
    ];
    for (name, cache) in policies {
        assert!(cache.has_read_hook(), "{name}: nothing is known before the first read");
        assert_eq!(reads(&cache), [Some(Some(HOUR)); 2]);
        assert!(!cache.has_read_hook(), "{name}");
        cache.audit();
    }
}

/// What the ready-made policies do is known from the start, also behind pointers.
#[test]
fn reads_never_ask_a_ready_made_policy_that_leaves_them_alone() {
    let life = |_: &u64, _: &u64| Some(HOUR);
    for (name, cache, asks) in [
        ("on_create", cache(expire::on_create(life)), false),
        ("on_write", cache(expire::on_write(life)), false),
        ("boxed", cache(Box::new(expire::on_write(life))), false),
        ("counted", cache(Arc::new(expire::on_create(life))), false),
        ("on_access", cache(expire::on_access(life)), true),
    ] {
        assert_eq!(cache.has_read_hook(), asks, "{name}");
        assert_eq!(reads(&cache), [Some(Some(HOUR)); 2], "{name}");
        assert_eq!(cache.has_read_hook(), asks, "{name}");
        cache.audit();
    }
}

#[test]
fn also_beside_an_idle_time() {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().expire_after(Documented).time_to_idle(HOUR / 2).clock(clock);
    let cache: Audited<u64, u64> = audited(builder.build());
    cache.insert(1, 1);
    assert_eq!(cache.get(&1), Some(1));
    assert!(!cache.has_read_hook());
    // Reads go on to prolong the idle time, up to the policy's end.
    hand.advance(HOUR / 4);
    assert_eq!(
        (cache.get(&1), cache.expires_in(&1).into_options()),
        (Some(1), Some(Some(HOUR / 2)))
    );
    hand.advance(HOUR / 2 - Duration::from_nanos(1));
    assert_eq!(
        (cache.get(&1), cache.expires_in(&1).into_options().flatten().is_some()),
        (Some(1), true)
    );
    hand.advance(HOUR / 4 + Duration::from_nanos(1));
    assert_eq!(cache.get(&1), None);
    cache.audit();
}

#[test]
fn a_hook_of_the_users_is_asked_by_each_read() {
    let renewing = [Some(Some(HOUR)), Some(Some(2 * HOUR))];
    let count = Arc::new(AtomicU64::new(0));
    for wrapper in [
        cache(Wrapper(Documented, Arc::clone(&count))),
        cache(Wrapper(
            Box::new(Documented) as Box<dyn Expiry<u64, u64> + Send + Sync>,
            Arc::clone(&count),
        )),
        cache(Box::new(Wrapper(Documented, Arc::clone(&count)))),
    ] {
        assert_eq!(reads(&wrapper), renewing);
        assert!(wrapper.has_read_hook());
        // The clock is a manual one, whose every reading is precise.
        assert_eq!(count.swap(0, SeqCst), 2);
        wrapper.audit();
    }
    let twice = cache(Twice);
    assert_eq!((reads(&twice), twice.has_read_hook()), (renewing, true));
    twice.audit();
    let plain = cache(Either::Plain(Documented));
    assert_eq!((reads(&plain), plain.has_read_hook()), ([Some(Some(HOUR)); 2], true));
    plain.audit();
    let other = cache(Either::Renewing);
    assert_eq!(reads(&other), [Some(Some(2 * HOUR)); 2]);
    other.audit();
    let access = cache(expire::on_access(|_: &u64, _: &u64| Some(HOUR)));
    assert_eq!((reads(&access), access.has_read_hook()), ([Some(Some(HOUR)); 2], true));
    access.audit();
}

/// By the system's clock a read hook is asked by a coarse reading as long as that makes no
/// difference.
#[test]
fn by_the_systems_clock_an_unchanged_life_is_asked_about_once() {
    let count = Arc::new(AtomicU64::new(0));
    let cache =
        audited(Cache::builder().expire_after(Wrapper(Documented, Arc::clone(&count))).build());
    (0..10_u64).for_each(|key| cache.insert(key, key));
    for key in [0, 2, 4] {
        assert_eq!(cache.get(&key), Some(key));
    }
    assert_eq!(count.swap(0, SeqCst), 3);
    // A longer and long life may begin at a coarse reading as well.
    assert_eq!(cache.get(&1), Some(1));
    assert_eq!(count.swap(0, SeqCst), 1);
    cache.audit();
}
