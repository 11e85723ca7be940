//! Loads by a guard.

use crate::common::audited::{Audited, audited};
use crate::common::fuse::{Borrowed, Key, Place, arm, disarm};
use crate::common::same_hash::Same;
use crate::common::{must_end, tested};
use cortado::{Cache, LoadGuard, Loaded, RemovalCause, TimedOut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

type Guarded = Audited<String, u32>;

fn cache() -> Guarded {
    audited(Cache::builder().max_capacity(100).record_stats(true).build())
}

fn guard(cache: &Cache<String, u32>, key: &str) -> LoadGuard<String, u32> {
    match cache.get_value_or_guard(key) {
        Err(guard) => guard,
        other => panic!("{other:?}"),
    }
}

fn is_send<T: Send>(it: T) -> T {
    it
}

#[test]
fn a_guard_brings_the_value_for_all_who_wait() {
    must_end(|| {
        let cache = Arc::new(cache());
        let guard = is_send(guard(&cache, "k"));
        assert_eq!(guard.key(), "k");
        let waiters = [0, 1, 2].map(|n| {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || match n {
                0 => cache.get_with("k".into(), || unreachable!("a guard loads")),
                1 => match cache.get_value_or_guard("k") {
                    Ok(value) => value,
                    other => panic!("{other:?}"),
                },
                _ => cache.try_get_with("k".into(), || Err("a guard loads")).unwrap(),
            })
        });
        // Another thread ends the load.
        let entry = std::thread::spawn(move || guard.insert(7)).join().unwrap();
        assert!(entry.is_fresh() && *entry == 7);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), 7);
        }
        assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 0));
    });
}

#[test]
fn a_dropped_guard_lets_another_caller_load() {
    must_end(|| {
        let cache = Arc::new(cache());
        let first = guard(&cache, "k");
        let other = {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || cache.get_with("k".into(), || 8))
        };
        drop(first);
        assert_eq!(other.join().unwrap(), 8);
        assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 1));
    });
}

#[test]
fn a_caller_waits_no_longer_than_its_time_limit() {
    must_end(|| {
        let cache = cache();
        let held = guard(&cache, "k");
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            let result = cache.within(limit, async |cache| cache.get_value_or_guard("k").await);
            assert!(matches!(result, Err(TimedOut)));
        }
        // Of other keys, and of a value that is there, no call waits.
        assert!(cache.get_value_or_guard("l").is_err());
        held.insert(1);
        let limit = Duration::MAX;
        let result = cache.within(limit, async |cache| cache.get_value_or_guard("k").await);
        assert!(matches!(result, Ok(Ok(1))));
    });
}

/// A load owns nothing: it blocks no write, and a write ends its claim to the key.
#[test]
fn writes_overtake_a_guard_even_if_it_is_leaked() {
    must_end(|| {
        let cache = cache();
        let overtaken = guard(&cache, "k");
        cache.insert("k".into(), 2);
        let entry = overtaken.insert(1);
        assert!(!entry.is_fresh() && *entry == 2);

        cache.invalidate("k");
        let overtaken = guard(&cache, "k");
        cache.invalidate("k");
        let entry = overtaken.insert(1);
        assert!(entry.is_fresh() && *entry == 1);
        assert_eq!(cache.get("k"), None, "a load from before a removal is not kept");

        let leaked = guard(&cache, "k");
        let limit = Duration::ZERO;
        let blocked = cache.within(limit, async |cache| cache.get_value_or_guard("k").await);
        assert!(matches!(blocked, Err(TimedOut)));
        cache.remove("k");
        assert_eq!(cache.get_with("k".into(), || 3), 3);
        // Leaking it would be found by the leak checkers, and holding it is the same to the cache.
        drop(leaked);
        assert_eq!(cache.get("k"), Some(3));
    });
}

#[test]
fn a_guard_keeps_its_cache_and_gives_a_lifetime_if_it_has_one() {
    let tested = tested::<String, u32>(|builder| builder.max_capacity(100));
    let entry = guard(&tested.cache, "k").insert(Loaded::with_ttl(1, Duration::from_secs(5)));
    assert_eq!(entry.expires_in(), Some(Duration::from_secs(5)));
    drop(guard(&tested.cache, "zero").insert(Loaded::with_ttl(2, Duration::ZERO)));
    assert!(!tested.cache.contains_key("zero"));
    tested.pass(Duration::from_secs(5));
    let causes: Vec<_> = tested.told().iter().map(|told| (told.value, told.cause)).collect();
    assert!(causes.contains(&(1, RemovalCause::Expired)));

    let cache = Cache::new(10);
    let guard = guard(&cache, "k");
    drop(cache);
    assert_eq!(*guard.insert(3), 3);
}

/// The second look, with the load on the board, compares keys of one hash. User code that loads the
/// key there would wait for its own thread.
#[test]
fn a_comparison_that_loads_the_guards_key_panics_instead_of_waiting_for_ever() {
    must_end(|| {
        let mut waited = 0;
        for nth in 1..9 {
            let cache = Arc::new(audited(Cache::builder().build_with_hasher(Same)));
            cache.insert(Key(2), 2);
            let other = Arc::clone(&cache);
            arm(Place::Eq, nth, move || _ = other.get_with(Key(1), || 7));
            let take = || cache.get_value_or_guard(&Borrowed(1));
            if let Err(panic) = catch_unwind(AssertUnwindSafe(take)) {
                let message = panic.downcast_ref::<&str>().copied();
                assert_eq!(message, Some("a load or computation waits for its own key"));
                waited += 1;
            }
            disarm();
            assert!(cache.get_with(Key(1), || 8) > 6);
        }
        assert!(waited > 0, "no comparison came after the load had begun");
    });
}
