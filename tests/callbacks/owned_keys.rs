//! A thread that is inside a load, a computation or a callback runs no listener and no destructor
//! of removed values. They may write the key in question.

use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, kept, must_end};
use cortado::RemovalCause::Replaced;
use cortado::{Cache, Clock, Expiry, Op, Removed};
use std::cell::Cell;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

type Numbers = Cache<u64, u64>;

/// The key under which the listener keeps its tally, in the same cache.
const TALLY: u64 = 0;
/// What is removed inside, so that the listener has something to tally: these keys and those after
/// them.
const TALLIED: u64 = 100;

std::thread_local! {
    /// Whether this thread is inside something.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// What the next hook on this thread does.
    static HOOK: Cell<Option<fn(&Numbers)>> = const { Cell::new(None) };
}

/// Runs what stands in a load, a computation or a callback.
fn inside<T>(run: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let result = run();
    INSIDE.set(before);
    result
}

/// Asks nothing but what the test wants to do in a hook.
struct Hooks(&'static OnceLock<Numbers>);

impl Hooks {
    fn ask(&self) -> Option<Duration> {
        if let Some(act) = HOOK.take() {
            inside(|| act(self.0.get().expect("set before the first use")));
        }
        Some(MINUTE)
    }
}

impl Expiry<u64, u64> for Hooks {
    fn expire_after_create(&self, _: &u64, _: &u64, _: Instant) -> Option<Duration> {
        self.ask()
    }

    fn expire_after_read(
        &self,
        _: &u64,
        _: &u64,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        self.ask()
    }
}

/// A cache whose listener keeps a tally in it.
fn tallying() -> Audited<u64, u64> {
    let slot: &'static OnceLock<Numbers> = kept(OnceLock::new());
    let cache = audited(
        Cache::builder()
            .record_stats(true)
            .clock(Clock::manual().0)
            .expire_after(Hooks(slot))
            .removal_listener(move |removed: Removed<u64, u64>| {
                assert!(!INSIDE.get(), "a listener inside of something");
                if *removed.key() >= TALLIED {
                    let cache = slot.get().expect("set before the first use");
                    cache.entry(TALLY).and_compute_with(|tally| {
                        inside(|| Op::Put(tally.map_or(0, |tally| *tally) + 1))
                    });
                }
            })
            .build(),
    );
    assert!(slot.set(cache.clone()).is_ok());
    (0..10).for_each(|key| cache.insert(TALLIED + key, key));
    cache
}

/// Removes ten entries, each in another way or with another call after it.
fn remove_ten(cache: &Numbers) {
    let told = cache.stats().pending_notifications;
    cache.invalidate(&TALLIED);
    assert_eq!(cache.remove(&(TALLIED + 1)), Some(1));
    assert_eq!(cache.remove_if(&(TALLIED + 2), |_, _| true), Some(2));
    cache.entry(TALLIED + 3).and_compute_with(|_| inside(|| Op::Remove));
    cache.run_pending_tasks();
    let _ = cache.run_pending_tasks_up_to(1000);
    cache.retain(|key, _| !(TALLIED + 4..TALLIED + 8).contains(key));
    assert!(cache.set_ttl(&(TALLIED + 8), Duration::ZERO));
    cache.invalidate(&(TALLIED + 9));
    assert_eq!(cache.get_with(50, || inside(|| 5)), 5);
    assert_eq!(cache.stats().pending_notifications, told + 10, "delivered inside");
}

type Outer = (&'static str, fn(&Numbers));

/// Operations on the tally inside of which ten entries are removed. What stands in a hook of a
/// write is over before that takes effect, which replaces the tally.
const OUTER: [Outer; 7] = [
    ("computation", |cache| {
        cache.entry(TALLY).and_compute_with(|_| {
            inside(|| remove_ten(cache));
            Op::Put(0)
        });
    }),
    ("load", |cache| {
        let load = || inside(|| remove_ten(cache));
        cache.entry(TALLY).or_insert_with(|| {
            load();
            0
        });
    }),
    ("create hook", |cache| {
        HOOK.set(Some(remove_ten));
        cache.insert(TALLY, 0);
    }),
    ("update hook", |cache| {
        cache.insert(TALLY, 7);
        HOOK.set(Some(remove_ten));
        cache.insert(TALLY, 0);
    }),
    ("read hook", |cache| {
        cache.insert(TALLY, 0);
        HOOK.set(Some(remove_ten));
        cache.get(&TALLY);
    }),
    ("condition", |cache| {
        cache.insert(TALLY, 0);
        cache.remove_if(&TALLY, |_, _| {
            inside(|| remove_ten(cache));
            false
        });
    }),
    ("condition of retain", |cache| {
        cache.insert(TALLY, 0);
        cache.retain(|key, _| {
            if *key == TALLY {
                inside(|| remove_ten(cache));
            }
            true
        });
    }),
];

#[test]
fn a_listener_may_write_the_key_inside_of_whose_operation_it_was_called_for() {
    for (name, operation) in OUTER {
        must_end(move || {
            let cache = tallying();
            operation(&cache);
            if name == "read hook" {
                // A read has delivered before it asks.
                cache.run_pending_tasks();
            }
            // Of others no call has followed: the end of the operation has delivered.
            assert_eq!(cache.get(&TALLY), Some(10), "{name}");
            let changes = cache.stats().removed(Replaced) + 1;
            assert!(changes >= 10, "{name}: {changes} changes of the tally");
            let stats = cache.stats();
            assert_eq!((stats.listener_panics, stats.pending_notifications), (0, 0), "{name}");
        });
    }
}

/// Each computation removes what the listener answers by a write of the other's key.
#[test]
fn two_computations_whose_listeners_write_each_others_keys_end() {
    must_end(|| {
        for round in 0..200 {
            let slot: &'static OnceLock<Numbers> = kept(OnceLock::new());
            let cache: Audited<u64, u64> = audited(
                Cache::builder()
                    .removal_listener(move |removed: Removed<u64, u64>| {
                        if *removed.key() >= TALLIED {
                            slot.get().unwrap().insert(removed.key() - TALLIED, 7);
                        }
                    })
                    .build(),
            );
            assert!(slot.set((*cache).clone()).is_ok());
            (1..=2).for_each(|key| cache.insert(TALLIED + key, key));
            let both = Barrier::new(2);
            let compute = |own: u64, other: u64| {
                cache.entry(own).and_compute_with(|_| {
                    both.wait();
                    cache.invalidate(&(TALLIED + other));
                    if round % 2 == 0 {
                        cache.run_pending_tasks();
                    }
                    Op::Put(1)
                });
            };
            std::thread::scope(|scope| {
                scope.spawn(|| compute(1, 2));
                compute(2, 1);
            });
            cache.run_pending_tasks();
            assert_eq!([1, 2].map(|key| cache.get(&key)), [Some(7); 2]);
        }
    });
}

/// The last counts on an entry go after the flight, also when the closure panics: this value's
/// destructor writes the key that the computation owns.
#[test]
fn a_destructor_may_write_the_key_of_the_computation_that_panicked() {
    type Slot = OnceLock<Cache<u64, Value>>;
    /// The cache and the key that the destructor writes.
    struct Value(OnceLock<(std::sync::Weak<Slot>, u64)>);
    impl Drop for Value {
        fn drop(&mut self) {
            if let Some((cache, key)) = self.0.take()
                && let Some(cache) = cache.upgrade()
                && let Some(cache) = cache.get()
            {
                cache.insert(key, Value(OnceLock::new()));
            }
        }
    }
    must_end(|| {
        let slot = std::sync::Arc::new(OnceLock::new());
        let cache: Audited<u64, Value> = audited(Cache::builder().max_capacity(100).build());
        assert!(slot.set(Cache::clone(&cache)).is_ok());
        for _ in 0..10 {
            let writes = (std::sync::Arc::downgrade(&slot), 7);
            cache.insert(7, Value(OnceLock::from(writes)));
            cache.run_pending_tasks();
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                cache.entry(7).and_compute_with(|entry| {
                    assert!(entry.is_some());
                    drop(entry);
                    cache.invalidate_all();
                    // The cache gives up its own count: the computation has the last ones.
                    cache.run_pending_tasks();
                    panic!("as a closure may")
                })
            }));
            assert!(ended.is_err());
            // Guards of other tests may have kept the cache's own count until now.
            let written = loop {
                if let Some(written) = cache.get_entry(&7) {
                    break written;
                }
                std::thread::yield_now();
                cache.run_pending_tasks();
            };
            assert!(written.0.get().is_none());
        }
    });
}
