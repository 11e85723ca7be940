//! What Caffeine documents of refresh, in its wiki ("Refresh") and its Javadoc
//! (`refreshAfterWrite`, `LoadingCache.refresh`, `CacheLoader.reload`), a test for each sentence.
//! The last one lists where this cache differs on purpose.

use super::bench::{HARD, SOFT, at_once_if, bench};
use crate::common::{SECOND, must_end};
use cortado::{Reloaded, RemovalCause};

/// Refreshing a key loads a new value for the key asynchronously. The old value (if any) is still
/// returned while the key is being refreshed, in contrast to eviction, which forces retrievals to
/// wait until the value is loaded anew.
#[test]
fn the_old_value_is_returned_while_the_key_is_being_refreshed() {
    let b = bench(|builder| builder);
    b.trigger();
    for _ in 0..3 {
        assert_eq!(b.cache.get(&7), Ok(1));
    }
    b.jobs.run();
    assert_eq!(b.cache.get(&7), Ok(2));
}

/// `refreshAfterWrite` will make a key eligible for refresh after the specified duration, but a
/// refresh will only be actually initiated when the entry is queried.
#[test]
fn a_refresh_is_initiated_by_a_query_only() {
    let b = bench(|builder| builder);
    assert_eq!(b.cache.get(&7), Ok(1));
    b.advance(50);
    b.cache.run_pending_tasks();
    assert!(b.cache.contains_key(&7));
    assert_eq!(b.pending(), 0);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 1));
}

/// You can specify both `refreshAfterWrite` and `expireAfterWrite` on the same cache, so that the
/// expiration timer on an entry isn't blindly reset whenever an entry becomes eligible for a
/// refresh. If an entry isn't queried after it comes eligible for refreshing, it is allowed to
/// expire.
#[test]
fn an_entry_that_is_not_queried_is_allowed_to_expire() {
    let b = bench(|builder| builder);
    assert_eq!(b.cache.get(&7), Ok(1));
    b.advance(HARD.as_secs());
    assert_eq!(b.told(), [(7, 1, RemovalCause::Expired)]);
    assert_eq!((b.cache.get(&7), b.asked()), (Ok(2), vec![(7, None), (7, None)]));
}

/// The request triggering refresh will … immediately return the old value. (Guava, whose reload may
/// run on the thread of the request: the new value if the reload is complete by then, and the old
/// one otherwise.)
#[test]
fn the_query_that_triggers_returns_the_old_value() {
    for (inline, expected) in [(false, 1), (true, 2)] {
        let b = bench(at_once_if(inline));
        assert_eq!(b.cache.get(&7), Ok(1));
        b.advance(SOFT.as_secs());
        assert_eq!(b.cache.get(&7), Ok(expected), "inline: {inline}");
    }
}

/// A `CacheLoader` may specify smart behavior to use on a refresh by overriding
/// `CacheLoader.reload(K, V)`, which allows you to use the old value in computing the new value.
#[test]
fn a_reload_gets_the_old_value() {
    let b = bench(|builder| builder);
    b.trigger();
    b.jobs.run();
    assert_eq!(b.asked(), [(7, Some(1))]);
}

/// Refresh operations are executed asynchronously using an `Executor`.
#[test]
fn nothing_is_loaded_before_the_executor_runs_the_job() {
    let b = bench(|builder| builder);
    b.trigger();
    assert_eq!((b.pending(), b.asked()), (1, vec![]));
    b.jobs.run();
    assert_eq!((b.pending(), b.asked().len()), (0, 1));
}

/// If an exception is thrown while refreshing, the old value is kept, and the exception is logged
/// and swallowed.
#[test]
fn failures_are_swallowed_and_the_old_value_is_kept() {
    for error in ["down", "panic"] {
        let b = bench(|builder| builder);
        b.trigger();
        b.plan(Err(error));
        b.jobs.run();
        assert_eq!((b.cache.get(&7), b.told()), (Ok(1), vec![]));
    }
}

/// If the cache loader … returns null, the mapping is removed (`reload`).
#[test]
fn a_reload_that_finds_nothing_removes_the_entry() {
    let b = bench(|builder| builder);
    b.trigger();
    b.plan(Ok(Reloaded::gone()));
    b.jobs.run();
    assert_eq!(b.told(), [(7, 1, RemovalCause::Explicit)]);
}

/// `refresh`: If the cache currently contains a value for the key, then … loads a new value; … the
/// previous value (if any) will continue to be returned by `get(key)` unless it is evicted. If it
/// is refreshed successfully, it will replace the previous value.
#[test]
fn a_call_refreshes_a_fresh_entry_and_loads_an_absent_one() {
    let b = bench(|builder| builder);
    assert_eq!(b.cache.get(&7), Ok(1));
    assert!(b.cache.refresh(&7) && b.cache.refresh(&8));
    assert_eq!(b.cache.get(&7), Ok(1));
    b.jobs.run();
    assert_eq!((b.cache.get(&7), b.cache.get(&8)), (Ok(2), Ok(3)));
    assert_eq!(b.told(), [(7, 1, RemovalCause::Replaced)]);
}

/// `refresh`: Returns an existing future without doing anything if another thread is currently
/// loading the value for the key.
#[test]
fn a_call_does_nothing_while_the_key_is_being_loaded() {
    let b = bench(|builder| builder);
    b.trigger();
    assert!(!b.cache.refresh(&7), "a reload is under way");
    b.jobs.run();
    assert_eq!(b.asked().len(), 1);
    let Err(guard) = b.cache.cache().get_value_or_guard(&8) else {
        unreachable!("the key has no value");
    };
    assert!(!b.cache.refresh(&8), "a load is under way");
    drop(guard);
}

/// It would block a thread of the executor for as long as the other load lasts.
#[test]
fn a_load_that_was_asked_for_waits_for_no_other_one() {
    must_end(|| {
        let b = bench(|builder| builder);
        assert!(b.cache.refresh(&8));
        let Err(guard) = b.cache.cache().get_value_or_guard(&8) else {
            unreachable!("the key has no value");
        };
        b.jobs.run();
        assert!(b.asked().is_empty());
        guard.insert(80);
        assert_eq!((b.cache.get(&8), b.pending()), (Ok(80), 0));
    });
}

/// The refreshed value is discarded if the mapping was changed or removed meanwhile.
#[test]
fn a_refreshed_value_is_discarded_if_the_mapping_was_changed() {
    let b = bench(|builder| builder);
    b.trigger();
    let cache = b.cache.cache().clone();
    *b.upstream.1.lock().unwrap() = Some(Box::new(move || cache.insert(7, 50)));
    b.jobs.run();
    assert_eq!(b.cache.get(&7), Ok(50));
    assert_eq!(b.told(), [(7, 1, RemovalCause::Replaced)]);
}

/// `loadSuccessCount` and `loadFailureCount` … are incremented by refreshes.
#[test]
fn refreshes_count_as_loads() {
    let b = bench(|builder| builder);
    b.trigger();
    b.plan(Err("down"));
    b.jobs.run();
    b.advance(1);
    assert_eq!(b.cache.get(&7), Ok(1));
    b.jobs.run();
    let stats = b.cache.stats();
    assert_eq!((stats.loads, stats.load_failures), (2, 1));
}

/// `expireAfterAccess`: a refresh is no access.
#[test]
fn a_refresh_does_not_reset_the_idle_time() {
    let b = bench(|builder| builder.time_to_idle(30 * SECOND));
    assert_eq!(b.cache.get(&7), Ok(1));
    b.advance(20);
    assert!(b.cache.refresh(&7));
    b.jobs.run();
    b.advance(10);
    assert!(!b.cache.contains_key(&7));
}

/// Where this cache differs: after a failure the next reload waits for the retry delay, in which
/// Caffeine reloads with the next query; and an entry that expires while its reload runs is
/// followed by the new value, which Caffeine discards.
#[test]
fn where_it_differs() {
    let b = bench(|builder| builder.refresh_retry(5 * SECOND));
    b.trigger();
    b.plan(Err("down"));
    b.jobs.run();
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 0));
    b.advance(5);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 1));
    let hand = b.hand.clone();
    *b.upstream.1.lock().unwrap() = Some(Box::new(move || hand.advance(HARD)));
    b.jobs.run();
    assert_eq!(b.cache.get(&7), Ok(2));
}
