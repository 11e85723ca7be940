//! Loom models of whole caches: what threads that insert, replace, read, remove, expire and clear
//! may do to one another's entries.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `insert_vs_remove` | a node whose events are drained in either order is freed once, and never while it is linked | `added-after-removed` |
//! | `insert_vs_insert_vs_remove` | one key, a bound of one, a write buffer that is full at once: each value leaves once | `added-after-removed`, `reclaim-under-handles`, `outbox-two-deliverers` |
//! | `replace_vs_read` | a key that is there all the time is always found | `gone-before-replaced`, `judged-again` |
//! | `replace_vs_shorten` | a value that takes another's place on the wheel is there no later than it ends | `shortened-in-silence` |
//! | `extend_vs_expire` | of a reader that extends and the expirer exactly one wins | `extend-blindly`, `expirer-ignores-extensions`, `gone-is-a-hit` |
//! | `read_vs_set_ttl` | deadline and cap fit each other when both have returned | `renew-looks-at-the-hard-deadline-once` |
//! | `read_vs_set_ttl_after_it` | a read whose effect was seen has no second one over what came then | `renewals-are-made-again` |
//! | `persist_vs_reads_that_outlive_it` | a call that has changed a lifetime says so | `claims-hide-new-deadlines` |
//! | `set_ttl_vs_a_read_that_prolongs_and_one_that_misses` | a call that has changed nothing says so | `unstored-lifetimes-count` |
//! | `read_vs_reclaim` | a handle, and a guard, keep the value; it is dropped once, after them | `retire-without-grace` |
//! | `remove_vs_remove` | each notice is delivered once, one at a time, by one of those who removed | `outbox-two-deliverers` |
//! | `insert_vs_invalidate_all` | what was inserted before is gone, and what was published late is swept | `outbox-two-deliverers`; `added-skips-the-sweep` (at two preemptions) |
//! | `sweep_vs_clearing_and_insert` | a sweep takes nothing that came after the last clearing | `sweep-judges-before-the-lock` |
//! | `extend_vs_miss` | what somebody has found expired does not come back | `expiry-unclaimed` |
//! | `insert_vs_close` | a value comes too late or leaves with the rest | `close-clears-first` |
//! | `write_vs_pass` | a write that asks for a pass later gets it, whatever pass is running | `pass-forgets-wishes` |
//!
//! `LOOM_ENGINE_PREEMPTIONS` is the bound on preemptions, 1 by default: some models take minutes at
//! 2. Two seeds in the engine, `removed-before-added` and `full-buffer-drops-the-event`, have not
//! been seen to break a model within these bounds.

use crate::support::engine_world::{Ledger, Plain, Store, finish, model, model_at, race};
use cortado::{Expiry, RemovalCause};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn insert_vs_remove() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        let other = cache.clone();
        let inserts = cache.clone();
        race(
            || (),
            [
                Box::new(move || inserts.insert(1, ledger.value(1))),
                Box::new(move || {
                    drop(other.remove_entry(&1));
                    other.run_pending_tasks_up_to(8);
                }),
            ],
        );
        ledger.settle(&cache, 1);
    });
}

#[test]
fn insert_vs_insert_vs_remove() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().max_capacity(1).build_with_hasher(Plain);
        let other = cache.clone();
        // The stripe of this thread is full.
        cache.insert(2, ledger.value(1));
        race(
            || {
                cache.insert(1, ledger.value(2));
                cache.insert(1, ledger.value(3));
            },
            [Box::new(move || drop(other.remove_entry(&1)))],
        );
        ledger.settle(&cache, 3);
    });
}

#[test]
fn replace_vs_read() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        let other = cache.clone();
        race(
            || {
                let found = cache.get_entry(&1).expect("it is there all the time");
                assert!(matches!(found.number(), 1..=3));
            },
            [Box::new(move || {
                other.insert(1, ledger.value(2));
                other.insert(1, ledger.value(3));
            })],
        );
        assert_eq!(cache.get_entry(&1).unwrap().number(), 3);
        ledger.settle(&cache, 3);
    });
}

/// The first value has its place at 100 s when it is told to end at 10 s; the second, which is to
/// end at 20 s, comes before or after that.
#[test]
fn replace_vs_shorten() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        cache.insert_with_ttl(1, ledger.value(1), 100 * SECOND);
        cache.run_pending_tasks();
        let other = cache.clone();
        race(
            || assert!(cache.set_ttl(&1, 10 * SECOND)),
            [Box::new(move || {
                other.insert_with_ttl(1, ledger.value(2), 20 * SECOND);
                other.run_pending_tasks_up_to(8);
            })],
        );
        finish(&cache);
        ledger.set_seconds(25);
        ledger.settle(&cache, 2);
        assert_eq!(ledger.cause(1), Some(RemovalCause::Replaced));
        assert_eq!(ledger.cause(2), Some(RemovalCause::Expired));
    });
}

/// The entry is to end at 100 s; the reader comes at 50 s and gives it until 150 s, the expirer at
/// 120 s. A reader that is held up so long may find that the entry is gone that it has found, and
/// return it as it was.
#[test]
fn extend_vs_expire() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().time_to_idle(100 * SECOND).build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        cache.run_pending_tasks();
        ledger.set_seconds(50);
        let mut read = None;
        let other = cache.clone();
        race(
            || read = cache.get_entry(&1),
            [Box::new(move || {
                ledger.set_seconds(120);
                other.run_pending_tasks_up_to(8);
            })],
        );
        let end = read.as_ref().map(|entry| entry.age() + entry.expires_in().unwrap());
        let extended = end == Some(150 * SECOND);
        assert_eq!(read.is_some(), extended, "a hit prolongs");
        assert_eq!(cache.contains_key(&1), extended);
        drop(read);
        ledger.settle(&cache, 1);
        assert_eq!(ledger.cause(1), (!extended).then_some(RemovalCause::Expired));
    });
}

/// Read and `set_ttl` come at the same moment, 5 s after the insertion: either way the idle time
/// makes 15 s, and 10 s, which is also what the deadline was, is the limit.
#[test]
fn read_vs_set_ttl() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().time_to_idle(10 * SECOND).build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        ledger.set_seconds(5);
        let other = cache.clone();
        race(
            || assert!(cache.set_ttl(&1, 5 * SECOND)),
            [Box::new(move || assert!(other.touch(&1)))],
        );
        assert_eq!(cache.expires_in(&1).into_options(), Some(Some(5 * SECOND)));
        ledger.settle(&cache, 1);
    });
}

/// Gives 7 s at each read.
struct ReadsGive;

impl<K, V> Expiry<K, V> for ReadsGive {
    fn expire_after_read(
        &self,
        _: &K,
        _: &V,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(7 * SECOND)
    }
}

/// The idle time leaves 5 s, so 7 s are left only after the read. A thread that sees them gives
/// another lifetime. It came after the read, so it is the one that counts.
#[test]
fn read_vs_set_ttl_after_it() {
    model(|| {
        let ledger = Ledger::new();
        let builder = ledger.builder().time_to_idle(10 * SECOND).expire_after(ReadsGive);
        let cache = builder.build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        ledger.set_seconds(5);
        let (other, seen) = (cache.clone(), Arc::new(AtomicBool::new(false)));
        let sees = Arc::clone(&seen);
        race(
            || assert!(cache.touch(&1)),
            [Box::new(move || {
                let left = other.expires_in(&1).into_options().flatten();
                sees.store(left == Some(7 * SECOND), Relaxed);
                assert!(other.set_ttl(&1, SECOND));
            })],
        );
        let left = cache.expires_in(&1).into_options().flatten();
        assert!(left == Some(SECOND) || !seen.load(Relaxed), "the read counts twice: {left:?}");
        finish(&cache);
    });
}

/// A read after the old lifetime shows that it was taken away. Then `persist` says so, although it
/// finds the expiry claimed. What has ended by the old lifetime was not there any more.
#[test]
fn persist_vs_reads_that_outlive_it() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.builder().time_to_idle(12 * SECOND).build_with_hasher(Plain);
        cache.insert_with_ttl(1, ledger.value(1), 8 * SECOND);
        let (other, outlives) = (cache.clone(), Arc::new(AtomicBool::new(false)));
        let (is_set, has_outlived) = (Cell::new(false), Arc::clone(&outlives));
        race(
            || is_set.set(cache.persist(&1)),
            [Box::new(move || {
                ledger.set_seconds(6);
                let _ = other.get_entry(&1);
                ledger.set_seconds(10);
                has_outlived.store(other.peek(&1).is_some(), Relaxed);
                ledger.set_seconds(40);
                assert!(other.peek(&1).is_none());
            })],
        );
        assert_eq!(is_set.get(), outlives.load(Relaxed));
        finish(&cache);
    });
}

/// Leaves 8 s at least when it is asked about a read.
struct ReadsProlong;

impl<K, V> Expiry<K, V> for ReadsProlong {
    fn expire_after_read(
        &self,
        _: &K,
        _: &V,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        current.map(|left| left.max(8 * SECOND))
    }
}

/// A read prolongs the life while a call sets another one. If a second read then finds the life
/// over before the call has stored anything, the call says that there is no entry.
#[test]
fn set_ttl_vs_a_read_that_prolongs_and_one_that_misses() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.builder().expire_after(ReadsProlong).build_with_hasher(Plain);
        cache.insert_with_ttl(1, ledger.value(1), 8 * SECOND);
        let (other, is_set) = (cache.clone(), Cell::new(false));
        race(
            || is_set.set(cache.set_ttl(&1, 1000 * SECOND)),
            [Box::new(move || {
                ledger.set_seconds(6);
                let _ = other.get_entry(&1);
                ledger.set_seconds(20);
                let _ = other.get_entry(&1);
            })],
        );
        assert_eq!(is_set.get(), cache.peek(&1).is_some());
        finish(&cache);
    });
}

#[test]
fn read_vs_reclaim() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.builder().build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        cache.run_pending_tasks();
        let other = cache.clone();
        race(
            || {
                if let Some(value) = cache.pin().get(&1) {
                    assert_eq!(value.number(), 1);
                }
                if let Some(entry) = cache.get_entry(&1) {
                    assert_eq!(entry.number(), 1);
                }
            },
            [Box::new(move || {
                other.invalidate(&1);
                other.run_pending_tasks();
            })],
        );
        finish(&cache);
        assert_eq!(ledger.dropped(1), 1);
    });
}

#[test]
fn remove_vs_remove() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        cache.insert(2, ledger.value(2));
        cache.run_pending_tasks();
        let other = cache.clone();
        race(|| cache.invalidate(&1), [Box::new(move || other.invalidate(&2))]);
        // Nobody comes after the two.
        let explicit = Some(RemovalCause::Explicit);
        assert_eq!([ledger.cause(1), ledger.cause(2)], [explicit; 2]);
        ledger.settle(&cache, 2);
    });
}

#[test]
fn insert_vs_invalidate_all() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        let other = cache.clone();
        race(
            || {
                cache.invalidate_all();
                assert!(!matches!(cache.peek(&1), Some(entry) if entry.number() == 1));
            },
            [Box::new(move || other.insert(2, ledger.value(2)))],
        );
        ledger.settle(&cache, 2);
        assert_eq!(ledger.cause(1), Some(RemovalCause::Explicit));
    });
}

/// One thread clears and inserts, twice. Another sweeps, and may be held up at any point of that.
/// What was inserted after the last clearing stays. (It takes two preemptions: into the sweep
/// before its clearing's own, and out of it.)
#[test]
fn sweep_vs_clearing_and_insert() {
    model_at(("LOOM_SWEEP_PREEMPTIONS", 2), || {
        let ledger = Ledger::new();
        let cache = ledger.builder().build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        cache.run_pending_tasks();
        let other = cache.clone();
        race(
            || {
                cache.invalidate_all();
                cache.insert(1, ledger.value(2));
                cache.invalidate_all();
                cache.insert(1, ledger.value(3));
            },
            [Box::new(move || _ = other.run_pending_tasks_up_to(4))],
        );
        assert!(cache.peek(&1).is_some_and(|entry| entry.number() == 3), "swept");
        finish(&cache);
    });
}

/// The entry is to end at 100 s. A reader comes at 50 s and gives it until 150 s. It may be held up
/// until after another has found the entry expired, at 120 s: then it is so for all.
#[test]
fn extend_vs_miss() {
    model(|| {
        let ledger = Ledger::new();
        let builder = ledger.listening_builder().time_to_idle(100 * SECOND);
        let cache = builder.build_with_hasher(Plain);
        cache.insert(1, ledger.value(1));
        ledger.set_seconds(50);
        let other = cache.clone();
        race(
            || _ = cache.get_entry(&1),
            [Box::new(move || {
                ledger.set_seconds(120);
                if other.peek(&1).is_none() {
                    assert!(other.peek(&1).is_none(), "it came back");
                }
            })],
        );
        ledger.settle(&cache, 1);
    });
}

#[test]
fn insert_vs_close() {
    model(|| {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        let other = cache.clone();
        race(|| cache.close(), [Box::new(move || other.insert(1, ledger.value(1)))]);
        ledger.settle(&cache, 1);
        assert_eq!(ledger.cause(1), Some(RemovalCause::Explicit));
    });
}

#[test]
fn write_vs_pass() {
    model(|| {
        let ledger = Ledger::new();
        let cache: Store = ledger.listening_builder().build_with_hasher(Plain);
        let other = cache.clone();
        race(
            || _ = cache.run_pending_tasks_up_to(8),
            [Box::new(move || other.insert_with_ttl(1, ledger.value(1), SECOND))],
        );
        // Only reads come after them.
        ledger.set_seconds(10);
        assert!(cache.get_entry(&2).is_none());
        ledger.set_seconds(20);
        assert!(cache.get_entry(&2).is_none());
        assert_eq!(ledger.cause(1), Some(RemovalCause::Expired));
        ledger.settle(&cache, 1);
    });
}
