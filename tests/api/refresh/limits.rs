//! Time limits of a load: past the soft one the stale value, past the hard one an error, and the
//! load goes on.

use super::bench::{Bench, HARD, SOFT, Shared, bench};
use crate::common::audited::{LoadingAudited, loading_audited};
use crate::common::{HANG, SECOND, must_end, panic_of, watched};
use cortado::{Cache, Job, LoadError, LoadLimits, ManualClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const NONE: LoadLimits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };
const AMPLE: LoadLimits = LoadLimits { soft: HANG, hard: HANG };

#[test]
fn past_the_soft_limit_a_caller_takes_the_stale_value() {
    let b = bench(|builder| builder);
    b.trigger();
    assert_eq!(b.cache.get_within(&7, NONE), Ok(1));
    assert_eq!(b.pending(), 1);
    b.jobs.run();
    assert_eq!(b.cache.get_within(&7, NONE), Ok(2));
}

/// The caller waits for the reload of a value that is another one when the reload ends.
#[test]
fn a_wait_ends_with_the_reload_that_a_write_has_overtaken() {
    watched(|watch| {
        watch.begin("a write amid the reload".to_owned());
        let b = bench(|builder| builder);
        b.trigger();
        let hits = b.cache.stats().hits;
        thread::scope(|scope| {
            let waiting = scope.spawn(|| b.cache.get_within(&7, AMPLE));
            while b.cache.stats().hits == hits {
                thread::yield_now();
            }
            let cache = b.cache.cache().clone();
            *b.upstream.1.lock().unwrap() = Some(Box::new(move || cache.insert(7, 50)));
            b.jobs.run();
            assert_eq!(waiting.join().unwrap(), Ok(50));
        });
    });
}

/// However long the executor's queue is.
#[test]
fn a_thread_that_waits_sees_what_others_insert() {
    type Wait = fn(&Bench) -> u32;
    let waits: [Wait; 2] =
        [|b| b.cache.get_within(&7, AMPLE).unwrap(), |b| b.cache.reload(&7).unwrap()];
    watched(move |watch| {
        for (case, wait) in waits.into_iter().enumerate() {
            watch.begin(format!("a wait beside an insert, {case}"));
            let b = bench(|builder| builder);
            b.trigger();
            thread::scope(|scope| {
                let waiting = scope.spawn(|| wait(&b));
                // It may not wait yet.
                while !waiting.is_finished() {
                    b.cache.insert(7, 50);
                    thread::yield_now();
                }
                assert_eq!(waiting.join().unwrap(), 50);
            });
            b.jobs.run();
        }
    });
}

/// An executor that drops its jobs, as one on a runtime that has ended: no call waits without end.
#[test]
fn an_executor_that_drops_jobs_keeps_no_caller_waiting() {
    watched(|watch| {
        watch.begin("an executor that drops jobs".to_owned());
        let b = bench(|builder| builder.executor(drop::<Job>));
        let endless = LoadLimits { soft: Duration::MAX, hard: Duration::MAX };
        assert_eq!(b.cache.get_within(&7, endless), Ok(1));
        b.advance(SOFT.as_secs());
        assert_eq!(b.cache.get_within(&7, endless), Ok(1));
        assert_eq!((b.cache.reload(&7), b.cache.reload(&8)), (Ok(1), Ok(2)));
        assert_eq!((b.pending(), b.cache.stats().reload_failures), (0, 0));
    });
}

#[test]
fn a_loader_does_not_wait_for_its_own_reload() {
    watched(|watch| {
        watch.begin("a loader that asks for its key".to_owned());
        let b = bench(|builder| builder);
        b.trigger();
        let cache = b.cache.clone();
        *b.upstream.1.lock().unwrap() = Some(Box::new(move || {
            assert_eq!(cache.get_within(&7, AMPLE), Ok(1));
        }));
        b.jobs.run();
        assert_eq!((b.cache.get(&7), b.cache.stats().reload_failures), (Ok(2), 0));
    });
}

/// Each job has a thread of its own, but for the first few, which are dropped.
fn threaded(dropped: u32) -> (LoadingAudited<u32, u32, &'static str>, ManualClock, Shared) {
    let (clock, hand) = cortado::Clock::manual();
    let (upstream, left) = (Shared::default(), AtomicU32::new(dropped));
    let spawn = move |job: Job| {
        let drops = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if drops.is_err() {
            thread::spawn(job);
        }
    };
    let builder = Cache::builder().refresh_after_write(SOFT).executor(spawn).clock(clock);
    (loading_audited(builder.build_with_loader(upstream.clone())), hand, upstream)
}

/// The threads' handles on the cache are weak, and upgraded while they reload. The test's is to be
/// the last.
fn settle(cache: &LoadingAudited<u32, u32, &'static str>) {
    while cache.stats().reloads_under_way > 0 {
        thread::yield_now();
    }
}

#[test]
fn within_the_limits_a_caller_gets_the_new_value() {
    for dropped in [0, 3] {
        let (cache, hand, upstream) = threaded(dropped);
        assert_eq!(cache.get_within(&7, AMPLE), Ok(1));
        hand.advance(SOFT);
        for _dropped in 0..dropped {
            // The next reload comes after the retry delay.
            assert_eq!(cache.get_within(&7, AMPLE), Ok(1));
            hand.advance(SECOND);
        }
        assert_eq!(cache.get_within(&7, AMPLE), Ok(2));
        let asked = std::mem::take(&mut upstream.0.lock().unwrap().asked);
        assert_eq!(asked, [(7, None), (7, Some(1))]);
        // A failed reload leaves the stale value.
        hand.advance(SOFT);
        upstream.0.lock().unwrap().plans.push_back(Err("down"));
        assert_eq!(cache.get_within(&7, AMPLE), Ok(2));
        assert_eq!(cache.stats().reload_failures, 1);
        settle(&cache);
    }
}

#[test]
fn errors_and_panics_of_a_load_reach_the_caller() {
    let load = |key: u32| match key {
        1 => Err("no such key"),
        _ => panic!("planned"),
    };
    let cache = loading_audited(Cache::<u32, u32>::builder().build_with_loader(load));
    let error = cache.get_within(&1, AMPLE);
    assert_eq!(error, Err(LoadError::Failed(Arc::new("no such key"))));
    assert_eq!(panic_of(|| cache.get_within(&2, AMPLE)), "planned");
}

#[test]
fn the_limits_end_waits_for_others() {
    let b = bench(|builder| builder);
    let Err(guard) = b.cache.cache().get_value_or_guard(&7) else {
        unreachable!("the key has no value");
    };
    assert_eq!(b.cache.get_within(&7, NONE), Err(LoadError::TimedOut));
    drop(guard);
    assert_eq!(b.cache.get_within(&7, NONE), Ok(1));
}

/// What the documentation of `refresh_limit` says.
#[test]
fn a_loader_that_hangs_keeps_its_place_and_its_entry_is_served_to_its_end() {
    watched(|watch| {
        watch.begin("a loader that hangs".to_owned());
        let b = bench(|builder| builder.refresh_limit(1));
        assert_eq!(b.cache.get(&8), Ok(1));
        assert_eq!(b.cache.get(&7), Ok(2));
        b.advance(SOFT.as_secs());
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(2), 1));
        let ((begin, begun), (end, ended)) = (channel(), channel());
        *b.upstream.1.lock().unwrap() = Some(Box::new(move || {
            begin.send(()).unwrap();
            ended.recv().unwrap();
        }));
        thread::scope(|scope| {
            let hangs = scope.spawn(|| b.jobs.run_one());
            begun.recv().unwrap();
            for skipped in 1..=3 {
                assert_eq!((b.cache.get(&8), b.cache.get(&7)), (Ok(1), Ok(2)));
                assert_eq!((b.pending(), b.cache.stats().reloads_skipped), (1, skipped));
            }
            b.advance((HARD - SOFT).as_secs());
            // It would join the loader that hangs.
            let given_up = b.cache.get_within(&7, NONE);
            assert_eq!((given_up, b.cache.contains_key(&7)), (Err(LoadError::TimedOut), false));
            b.cache.insert(7, 50);
            assert_eq!(b.cache.get_within(&7, NONE), Ok(50));
            end.send(()).unwrap();
            hangs.join().unwrap();
        });
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(50), 0));
        b.jobs.run();
    });
}

/// A reload that was asked for before its time keeps no caller waiting as long as the value is
/// fresh.
#[test]
fn a_fresh_value_is_returned_at_once() {
    watched(|watch| {
        watch.begin("a reload of a fresh value".to_owned());
        let b = bench(|builder| builder);
        b.trigger();
        b.jobs.run();
        assert!(b.cache.refresh(&7) && b.pending() == 1);
        assert_eq!(b.cache.get_within(&7, AMPLE), Ok(2));
        // Meanwhile it becomes stale, and the caller waits for the reload that is under way.
        b.hand.advance(SOFT);
        let hits = b.cache.stats().hits;
        thread::scope(|scope| {
            let waiting = scope.spawn(|| b.cache.get_within(&7, AMPLE));
            while b.cache.stats().hits == hits {
                thread::yield_now();
            }
            b.jobs.run();
            assert_eq!(waiting.join().unwrap(), Ok(3));
        });
    });
}

/// Past the hard limit nobody waits, whatever the soft one is.
#[test]
fn the_hard_limit_ends_the_wait_for_a_reload() {
    watched(|watch| {
        watch.begin("a soft limit beyond the hard one".to_owned());
        let b = bench(|builder| builder);
        b.trigger();
        let limits = LoadLimits { soft: HANG, hard: Duration::ZERO };
        assert_eq!(b.cache.get_within(&7, limits), Ok(1));
    });
}

/// Who waits for a reload may ask for the next one.
#[test]
fn a_reload_that_has_returned_takes_no_place() {
    must_end(|| {
        let builder =
            Cache::builder().refresh_limit(1).executor(|job: Job| drop(thread::spawn(job)));
        let cache = loading_audited(builder.build_with_loader(Shared::default()));
        assert_eq!(cache.get(&7), Ok(1));
        for value in 2..1_000 {
            assert_eq!(cache.reload(&7), Ok(value));
        }
        settle(&cache);
    });
}
