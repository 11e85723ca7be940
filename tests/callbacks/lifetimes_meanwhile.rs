//! Lifetimes that are set while the update hook is asked.

use crate::common::audited::{audited, loading_audited};
use crate::common::{MINUTE, SECOND, must_end};
use cortado::{
    Builder, Cache, Clock, Expiration, Expiry, Loaded, Loader, LoadingCache, ManualClock, Reloaded,
};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Keeps the lifetime of the entry, and lets another thread do something while it is asked.
struct Keeps(Meanwhile);

impl Expiry<u32, u32> for Keeps {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        Some(MINUTE)
    }

    fn expire_after_update(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        let meanwhile = self.0.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            thread::spawn(meanwhile).join().unwrap();
        }
        current
    }
}

/// The same with a read hook of its own, which leaves lifetimes as they are.
struct KeepsAlsoWhenRead(Keeps);

impl Expiry<u32, u32> for KeepsAlsoWhenRead {
    fn expire_after_create(&self, key: &u32, value: &u32, now: Instant) -> Option<Duration> {
        self.0.expire_after_create(key, value, now)
    }

    fn expire_after_update(
        &self,
        key: &u32,
        value: &u32,
        now: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        self.0.expire_after_update(key, value, now, current)
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        current
    }
}

/// Shorter lives than the present one, and longer ones.
const LIVES: [Duration; 2] = [SECOND, Duration::from_secs(600)];

/// A lifetime that is set while the update hook is asked is the present one: the hook is asked once
/// more.
#[test]
fn a_lifetime_that_is_set_while_the_hook_is_asked_counts() {
    must_end(|| {
        for life in LIVES {
            for idle in [None, Some(Duration::from_secs(3600))] {
                let meanwhile = Meanwhile::default();
                let mut builder = Cache::builder().expire_after(Keeps(Arc::clone(&meanwhile)));
                if let Some(idle) = idle {
                    builder = builder.time_to_idle(idle);
                }
                let (clock, _hand) = Clock::manual();
                let cache = audited(builder.clock(clock).build());
                cache.insert(1, 1);
                let other = cache.clone();
                let sets = move || assert!(other.set_ttl(&1, life));
                *meanwhile.lock().unwrap() = Some(Box::new(sets));
                cache.insert(1, 2);
                let seen = (cache.get(&1), cache.expires_in(&1));
                assert_eq!(seen, (Some(2), Expiration::Due(life)), "{idle:?}");
            }
        }
    });
}

/// The same while a load by a condition asks the hook.
#[test]
fn a_lifetime_that_is_set_while_a_load_asks_the_hook_counts() {
    must_end(|| {
        for life in LIVES {
            for reads in [false, true] {
                let (builder, _hand, meanwhile) = keeping(reads);
                let cache = audited(builder.build());
                cache.insert(1, 1);
                let other = cache.clone();
                let sets = move || assert!(other.set_ttl(&1, life));
                *meanwhile.lock().unwrap() = Some(Box::new(sets));
                assert_eq!(cache.load_if(&1, |_| Loaded::new(2), |old, _| *old == 1), 2);
                assert_eq!(cache.expires_in(&1), Expiration::Due(life), "{reads}");
            }
        }
    });
}

/// A builder with the policy that keeps lifetimes, with or without a read hook.
fn keeping(reads: bool) -> (Builder<u32, u32>, ManualClock, Meanwhile) {
    let (meanwhile, (clock, hand)) = (Meanwhile::default(), Clock::manual());
    let (builder, keeps) = (Cache::builder().clock(clock), Keeps(Arc::clone(&meanwhile)));
    let builder = match reads {
        true => builder.expire_after(KeepsAlsoWhenRead(keeps)),
        false => builder.expire_after(keeps),
    };
    (builder, hand, meanwhile)
}

/// The same for a cache that reloads in the call of a reader.
fn refreshing(reads: bool) -> (Builder<u32, u32>, ManualClock, Meanwhile) {
    let (builder, hand, meanwhile) = keeping(reads);
    (builder.refresh_after_write(SECOND).executor(|job: cortado::Job| job()), hand, meanwhile)
}

/// Reloads an entry, and sets another lifetime while its hook is asked.
fn set_amid_a_reload(
    cache: &LoadingCache<u32, u32, ()>,
    hand: &ManualClock,
    meanwhile: &Meanwhile,
    life: Duration,
) {
    cache.insert(1, 1);
    hand.advance(SECOND);
    let other = cache.cache().clone();
    *meanwhile.lock().unwrap() = Some(Box::new(move || assert!(other.set_ttl(&1, life))));
    assert!(cache.get(&1).is_ok());
    assert!(meanwhile.lock().unwrap().is_none(), "the hook was asked");
    assert_eq!(cache.cache().expires_in(&1), Expiration::Due(life));
}

/// The same for a reload, and for one that a persisting entry overtakes.
#[test]
fn a_lifetime_that_is_set_amid_a_reload_counts() {
    must_end(|| {
        for life in LIVES {
            for reads in [false, true] {
                let (builder, hand, meanwhile) = refreshing(reads);
                let loader = |_: u32| Ok::<_, ()>(Loaded::new(2));
                let cache = loading_audited(builder.build_with_loader(loader));
                set_amid_a_reload(&cache, &hand, &meanwhile, life);
            }
        }
    });
}

/// A loader that finds each old value unmodified.
struct Unmodified;

impl Loader<u32, u32> for Unmodified {
    type Error = ();

    fn load(&self, _: &u32) -> Result<Loaded<u32>, ()> {
        Ok(Loaded::new(1))
    }

    fn reload(&self, _: &u32, _: &u32) -> Result<Reloaded<u32>, ()> {
        Ok(Reloaded::not_modified())
    }
}

/// The same if the value is not modified.
#[test]
fn a_lifetime_that_is_set_while_the_hook_is_asked_about_an_unmodified_value_counts() {
    must_end(|| {
        for life in LIVES {
            for reads in [false, true] {
                let (builder, hand, meanwhile) = refreshing(reads);
                let cache = loading_audited(builder.build_with_loader(Unmodified));
                set_amid_a_reload(&cache, &hand, &meanwhile, life);
            }
        }
    });
}

/// Gives ten seconds at least when it is asked about a read, and lets another thread do something
/// first.
struct Prolongs(Meanwhile);

const LEAST: Duration = Duration::from_secs(10);

impl Expiry<u32, u32> for Prolongs {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        Some(LEAST)
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        let meanwhile = self.0.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            thread::spawn(meanwhile).join().unwrap();
        }
        current.map(|left| left.max(LEAST))
    }
}

/// The answer is about the lifetime that the hook was told of. So a read does not give it to an
/// entry that has got another one meanwhile: it asks again.
#[test]
fn a_lifetime_that_is_set_while_the_read_hook_is_asked_counts() {
    must_end(|| {
        for life in LIVES {
            for idle in [None, Some(Duration::from_secs(3600))] {
                let meanwhile = Meanwhile::default();
                let mut builder = Cache::builder().expire_after(Prolongs(Arc::clone(&meanwhile)));
                if let Some(idle) = idle {
                    builder = builder.time_to_idle(idle);
                }
                let (clock, hand) = Clock::manual();
                let cache = audited(builder.clock(clock).build());
                cache.insert(1, 1);
                hand.advance(LEAST / 2);
                let other = cache.clone();
                let sets = move || assert!(other.set_ttl(&1, life));
                *meanwhile.lock().unwrap() = Some(Box::new(sets));
                assert_eq!(cache.get(&1), Some(1));
                assert_eq!(cache.expires_in(&1), Expiration::Due(life.max(LEAST)), "{idle:?}");
            }
        }
    });
}

/// Adds ten seconds when it is asked about a read.
struct Adds(Prolongs);

impl Expiry<u32, u32> for Adds {
    fn expire_after_create(&self, key: &u32, value: &u32, now: Instant) -> Option<Duration> {
        self.0.expire_after_create(key, value, now)
    }

    fn expire_after_read(
        &self,
        key: &u32,
        value: &u32,
        now: Instant,
        current: Option<Duration>,
        created: Instant,
    ) -> Option<Duration> {
        self.0.expire_after_read(key, value, now, None, created);
        current.map(|left| left + LEAST)
    }
}

/// The same by the system's clock, where the hook is asked by a coarse reading first.
#[test]
fn a_lifetime_that_is_set_while_the_read_hook_is_asked_coarsely_counts() {
    must_end(|| {
        for refresh in [false, true] {
            let meanwhile = Meanwhile::default();
            let policy = Adds(Prolongs(Arc::clone(&meanwhile)));
            let builder = Cache::builder().expire_after(policy);
            let load = |key: u32| Ok::<_, ()>(Loaded::new(key));
            let (plain, loading);
            let cache: &Cache<u32, u32> = if refresh {
                let builder = builder.refresh_after_write(MINUTE);
                loading = loading_audited(builder.build_with_loader(load));
                loading.cache()
            } else {
                plain = audited(builder.build());
                &plain
            };
            cache.insert(1, 1);
            // The cache learns that the hook is not the trait's default.
            assert_eq!(cache.get(&1), Some(1));
            let other = cache.clone();
            let sets = move || assert!(other.set_ttl(&1, LEAST));
            *meanwhile.lock().unwrap() = Some(Box::new(sets));
            // The read adds to what was set, not to the twenty seconds before.
            assert_eq!(cache.get(&1), Some(1));
            let left = cache.expires_in(&1).due();
            assert!(left <= Some(2 * LEAST), "{refresh}: {left:?}");
        }
    });
}

/// Has another lifetime set each time it is asked.
#[derive(Clone, Default)]
struct Restless(Arc<Mutex<Option<Cache<u32, u32>>>>);

impl Expiry<u32, u32> for Restless {
    fn expire_after_read(
        &self,
        key: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        let life = current.unwrap_or(MINUTE) + SECOND;
        let (cache, key) = (self.0.lock().unwrap().clone().unwrap(), *key);
        assert!(thread::spawn(move || cache.set_ttl(&key, life)).join().unwrap());
        Some(life + SECOND)
    }
}

/// A read asks sixteen times at most.
#[test]
fn a_read_ends_though_its_hook_has_a_lifetime_set_each_time() {
    must_end(|| {
        for idle in [None, Some(Duration::from_secs(3600))] {
            let restless = Restless::default();
            let mut builder = Cache::builder().expire_after(restless.clone());
            if let Some(idle) = idle {
                builder = builder.time_to_idle(idle);
            }
            let cache = audited(builder.clock(Clock::manual().0).build());
            *restless.0.lock().unwrap() = Some(cache.clone());
            cache.insert(1, 1);
            assert_eq!(cache.get(&1), Some(1));
            drop(restless.0.lock().unwrap().take());
        }
    });
}
