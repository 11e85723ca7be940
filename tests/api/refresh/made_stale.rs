//! Entries that a call makes stale, and the loads and reloads that it overtakes.

use super::bench::{Amid, Bench, HARD, SOFT, at_once, bench, bench_without_listener};
use crate::common::audited::{audited, loading_audited};
use crate::common::must_end;
use cortado::{Cache, Loaded, Op, Reloaded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// The call, for one key or for all.
type Makes = fn(&Cache<u32, u32>);
const MAKES: [Makes; 2] = [|cache| assert!(cache.make_stale(&7)), |cache| cache.make_all_stale()];

/// What the cache has, without a trace.
fn there(b: &Bench) -> Option<u32> {
    b.cache.cache().peek(&7).map(|entry| *entry)
}

#[test]
fn the_next_read_triggers_the_reload_of_an_entry_that_was_made_stale() {
    for makes in MAKES {
        let b = bench(|builder| builder);
        b.cache.insert(7, 50);
        assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(50), 0));
        makes(b.cache.cache());
        assert_eq!((b.jobs.len(), there(&b)), (0, Some(50)), "the call starts no reload");
        assert_eq!(b.cache.get(&7), Ok(50), "a stale value is returned");
        b.jobs.run();
        assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(1), 0), "fresh again");
        assert_eq!(b.cache.cache().expires_in(&7).due(), Some(HARD));
    }
}

/// It works also where no setting makes entries stale, and tells only whether there is an entry
/// where there is no loader.
#[test]
fn entries_are_made_stale_without_a_soft_lifetime_and_not_without_a_loader() {
    let plain = audited(Cache::new(100));
    plain.insert(1, 1);
    assert_eq!((plain.make_stale(&1), plain.make_stale(&2)), (true, false));
    plain.make_all_stale();
    assert_eq!(plain.get(&1), Some(1));
    let builder = Cache::builder().executor(|job: cortado::Job| job());
    let load = |key: u32| Ok::<_, ()>(Loaded::new(key));
    let loading = loading_audited(builder.build_with_loader(load));
    loading.insert(1, 100);
    assert!(!loading.cache().make_stale(&2));
    assert_eq!(loading.get(&1), Ok(100));
    assert!(loading.cache().make_stale(&1));
    assert_eq!(loading.get(&1), Ok(1));
}

/// Whatever has begun the reload, and however far it is: no value from before the call is fresh.
#[test]
fn a_reload_that_is_under_way_is_overtaken() {
    must_end(|| {
        for makes in MAKES {
            for by_call in [false, true] {
                let b = bench_without_listener(|builder| builder);
                b.cache.insert(7, 50);
                if by_call {
                    assert!(b.cache.refresh(&7));
                } else {
                    b.advance(SOFT.as_secs());
                    assert_eq!(b.cache.get(&7), Ok(50));
                }
                let cache = b.cache.cache().clone();
                let amid: Amid = Box::new(move || makes(&cache));
                *b.upstream.1.lock().unwrap() = Some(amid);
                b.plan(Ok(Reloaded::new(60)));
                b.jobs.run();
                assert_eq!(there(&b), Some(50), "{by_call}: its value is not kept");
                assert_eq!(b.cache.get(&7), Ok(50));
                assert_eq!(b.jobs.len(), 1, "{by_call}: the entry is stale");
                b.plan(Ok(Reloaded::new(70)));
                b.jobs.run();
                assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(70), 0));
            }
        }
    });
}

/// The same for an answer that the value was not modified, or is gone.
#[test]
fn what_an_overtaken_reload_says_of_the_old_value_does_not_count() {
    for says in [Reloaded::not_modified(), Reloaded::gone()] {
        let b = bench_without_listener(|builder| builder);
        b.cache.insert(7, 50);
        assert!(b.cache.refresh(&7));
        let cache = b.cache.cache().clone();
        *b.upstream.1.lock().unwrap() = Some(Box::new(move || assert!(cache.make_stale(&7))));
        b.plan(Ok(says));
        b.jobs.run();
        assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(50), 1));
    }
}

/// A reload that has not begun makes its value after the call, and so a fresh one. If it never
/// begins, the entry stays stale.
#[test]
fn a_reload_that_waits_in_the_executor_is_none_yet() {
    for is_dropped in [false, true] {
        let b = bench_without_listener(|builder| builder.refresh_retry(Duration::ZERO));
        b.cache.insert(7, 50);
        assert!(b.cache.refresh(&7), "of a fresh entry");
        assert!(b.cache.cache().make_stale(&7));
        if is_dropped {
            b.jobs.drop_one();
            assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(50), 1), "still stale");
        } else {
            b.jobs.run();
            assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(1), 0), "fresh");
        }
    }
}

/// A reload that user code has noted, where none may begin.
#[test]
fn a_reload_that_was_noted_begins_after_the_call() {
    let b = bench_without_listener(at_once);
    b.cache.insert(7, 50);
    b.advance(SOFT.as_secs());
    let view = b.cache.cache().pin();
    assert_eq!(view.get(&7), Some(&50));
    assert!(b.cache.cache().make_stale(&7));
    drop(view);
    assert_eq!(b.cache.get(&7), Ok(1));
    assert_eq!(b.cache.stats().reloads, 1);
}

#[test]
fn a_retry_delay_ends() {
    let b = bench_without_listener(|builder| builder);
    b.cache.insert(7, 50);
    b.advance(SOFT.as_secs());
    b.cache.get(&7).unwrap();
    b.plan(Err("down"));
    b.jobs.run();
    assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(50), 0), "not at once again");
    assert!(b.cache.cache().make_stale(&7));
    assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(50), 1));
}

/// A load of a key without an entry began before the call, too.
#[test]
fn a_load_that_is_under_way_is_overtaken() {
    for is_all in [false, true] {
        let b = bench_without_listener(|builder| builder);
        let cache = b.cache.cache();
        let made = cache.get_with(7, || {
            if is_all {
                cache.make_all_stale();
            } else {
                assert!(!cache.make_stale(&7), "there is no entry");
            }
            50
        });
        assert_eq!((made, there(&b)), (50, None), "returned, and not kept");
        // A load of another key goes on.
        let made = cache.get_with(7, || {
            assert!(!cache.make_stale(&8));
            60
        });
        assert_eq!((made, there(&b)), (60, Some(60)));
    }
}

/// What a computation puts was decided after the call, as far as anyone can tell.
#[test]
fn a_computation_is_not_waited_for_and_puts_a_fresh_value() {
    must_end(|| {
        for makes in MAKES {
            let b = bench_without_listener(|builder| builder);
            b.cache.insert(7, 50);
            let cache = b.cache.cache();
            cache.entry(7).and_compute_with(|_| {
                makes(cache);
                Op::Put(60)
            });
            assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(60), 0));
            cache.entry(7).and_compute_with(|_| {
                makes(cache);
                Op::Nop
            });
            assert_eq!((b.cache.get(&7), b.jobs.len()), (Ok(60), 1));
        }
    });
}

/// Among reloads of all keys, no value from before the last call stays fresh: else nobody would
/// ever reload it.
#[test]
fn a_crowd_leaves_no_value_from_before_the_call() {
    const KEYS: u32 = 8;
    must_end(|| {
        let (upstream, has_ended) = (Arc::new(AtomicU32::new(0)), AtomicBool::new(false));
        let version = Arc::clone(&upstream);
        let builder = Cache::builder().executor(|job: cortado::Job| job());
        let load = move |_: u32| Ok::<_, ()>(Loaded::new(version.load(SeqCst)));
        let cache = loading_audited(builder.build_with_loader(load));
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let cache = &cache;
                let has_ended = &has_ended;
                scope.spawn(move || {
                    for n in (0..).take_while(|_| !has_ended.load(SeqCst)) {
                        let key = (n * 7 + thread) % KEYS;
                        let _ = cache.get(&key);
                        if n % 5 == 0 {
                            cache.refresh(&key);
                        }
                    }
                });
            }
            for n in 1..2_000 {
                upstream.store(n, SeqCst);
                let is_all = n % 3 == 0;
                if is_all {
                    cache.cache().make_all_stale();
                } else {
                    cache.cache().make_stale(&(n % KEYS));
                }
                for key in (0..KEYS).filter(|key| is_all || *key == n % KEYS) {
                    while cache.get(&key).unwrap() < n {
                        std::thread::yield_now();
                    }
                }
            }
            has_ended.store(true, SeqCst);
        });
    });
}
