//! Callbacks that write to the cache each time they are asked.

use crate::common::audited::audited;
use crate::common::fuse::Timing;
use crate::common::{MINUTE, kept, must_end};
use cortado::RemovalCause::Explicit;
use cortado::{Cache, Expiry, Op, Removed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

type Numbers = Cache<u32, u32>;

/// Each hook, for a key below a thousand, writes another key.
struct Writing {
    cache: OnceLock<Numbers>,
    life: Duration,
}

impl Writing {
    fn answer(&self, key: u32) -> Option<Duration> {
        if key < 1000 {
            self.cache.get().expect("set").insert(key + 1000, key);
        }
        Some(self.life)
    }
}

impl Expiry<u32, u32> for &'static Writing {
    fn expire_after_create(&self, key: &u32, _: &u32, _: Instant) -> Option<Duration> {
        self.answer(*key)
    }

    fn expire_after_read(
        &self,
        key: &u32,
        _: &u32,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        self.answer(*key)
    }
}

/// Whether or not the two keys are neighbours in the index, where a write to one makes a write to
/// the other look again; and on both sides of the lifetime below which hooks are asked twice.
#[test]
fn a_hook_that_writes_another_key_each_time() {
    must_end(|| {
        for life in [Timing::Short, Timing::Long].map(Timing::life) {
            let hooks: &'static Writing = kept(Writing { cache: OnceLock::new(), life });
            let cache = audited(Cache::builder().expire_after(hooks).build());
            hooks.cache.set(cache.clone()).unwrap();
            for key in 0..200 {
                cache.insert(key, key);
                cache.insert(key, key + 1);
                assert_eq!(cache.get(&key), Some(key + 1));
                assert_eq!(cache.get_with(key + 300, || key), key);
                assert_eq!(cache.get(&(key + 1000)), Some(key));
            }
        }
    });
}

#[test]
fn a_condition_that_writes_another_key_each_time() {
    must_end(|| {
        let cache = audited(Cache::new(10_000));
        for key in 0..200 {
            cache.insert(key, key);
            let removed = cache.remove_if(&key, |key, _| {
                cache.insert(key + 1000, *key);
                true
            });
            assert_eq!(removed, Some(key));
        }
        (0..200).for_each(|key| cache.insert(key, key));
        cache.retain(|key, _| {
            if *key < 1000 {
                cache.insert(key + 1000, *key);
            }
            *key >= 1000
        });
        assert!((0..200).all(|key| !cache.contains_key(&key)));
    });
}

#[test]
fn a_hook_that_clears_the_cache_each_time() {
    must_end(|| {
        struct Clearing(OnceLock<Numbers>);
        impl Expiry<u32, u32> for &'static Clearing {
            fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
                self.0.get().expect("set").invalidate_all();
                Some(MINUTE)
            }
        }
        let hooks: &'static Clearing = kept(Clearing(OnceLock::new()));
        let cache = audited(Cache::builder().expire_after(hooks).build());
        hooks.0.set(cache.clone()).unwrap();
        for key in 0..100 {
            cache.insert(key, key);
            assert!(cache.entries().count() <= 1);
        }
    });
}

#[test]
fn a_life_that_another_sets_while_each_read_hook_is_asked() {
    must_end(|| {
        struct Setting(OnceLock<Numbers>);
        impl Expiry<u32, u32> for &'static Setting {
            fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
                Some(MINUTE)
            }

            fn expire_after_read(
                &self,
                key: &u32,
                _: &u32,
                _: Instant,
                _: Option<Duration>,
                _: Instant,
            ) -> Option<Duration> {
                let cache = self.0.get().expect("set");
                let set = || assert!(cache.set_ttl(key, 10 * MINUTE));
                std::thread::scope(|scope| scope.spawn(set).join().expect("it is there"));
                Some(20 * MINUTE)
            }
        }
        for idles in [false, true] {
            let hooks: &'static Setting = kept(Setting(OnceLock::new()));
            let mut builder = Cache::builder().expire_after(hooks);
            if idles {
                builder = builder.time_to_idle(30 * MINUTE);
            }
            // On the system's clock, by which each setting is another.
            let cache = audited(builder.build());
            hooks.0.set(cache.clone()).unwrap();
            cache.insert(1, 1);
            assert_eq!(cache.get(&1), Some(1));
            assert!(cache.expires_in(&1).into_options().unwrap().unwrap() > 15 * MINUTE);
        }
    });
}

/// The cache is not closed. So the value is not one that the listener puts back without end.
#[test]
fn a_value_that_the_listener_computed_in_vain_is_announced() {
    must_end(|| {
        let slot: &'static OnceLock<Numbers> = kept(OnceLock::new());
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let listener = move |removed: Removed<u32, u32>| {
            tell.lock().unwrap().push((*removed.key(), *removed.value(), removed.cause()));
            if *removed.key() == 1 {
                let cache = slot.get().expect("set");
                cache.entry(2).and_compute_with(|entry| {
                    assert!(entry.is_some());
                    cache.invalidate_all();
                    Op::Put(3)
                });
            }
        };
        let cache = audited(Cache::builder().removal_listener(listener).build());
        slot.set(cache.clone()).unwrap();
        cache.insert(1, 1);
        cache.insert(2, 2);
        cache.invalidate(&1);
        cache.run_pending_tasks();
        let mut told = told.lock().unwrap();
        told.sort();
        assert_eq!(*told, [(1, 1, Explicit), (2, 2, Explicit), (2, 3, Explicit)]);
    });
}
