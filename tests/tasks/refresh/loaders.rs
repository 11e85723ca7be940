//! When a loader's code runs, and what callers with a condition get of it.

use super::bench::{Jobs, SOFT, bench};
use crate::common::audited::{loading_audited, tasks_loading_audited};
use crate::common::{must_end, watched};
use crate::hand::{Task, at_once, pends};
use cortado::future::Cache;
use cortado::{AsyncLoader, Clock, Job, Loaded, Overflow, Reloaded, RemovalCause};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;

/// What a closure does before it returns its future is part of the load, which is another caller's
/// here.
#[test]
fn a_loaders_code_begins_within_its_load() {
    must_end(|| {
        let begun = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&begun);
        let jobs = Jobs::default();
        let queue = jobs.clone();
        let builder = Cache::builder().executor(move |job| queue.0.lock().unwrap().push_back(job));
        let cache = tasks_loading_audited(builder.build_with_loader(move |key: u32| {
            count.fetch_add(1, Relaxed);
            async move { (pends(1).await, Ok::<_, ()>(Loaded::new(key))).1 }
        }));
        let leader = Task::waiting(cache.get(&7));
        let waiter = Task::waiting(cache.get(&7));
        assert_eq!((begun.load(Relaxed), jobs.run()), (0, 1));
        assert_eq!((leader.end(), waiter.end()), (Ok(7), Ok(7)));
        assert_eq!((at_once(cache.get(&7)), begun.load(Relaxed)), (Ok(7), 1));
    });
}

/// Its code before the future panics in a reload.
struct Eager(Arc<AtomicU32>);

impl AsyncLoader<u32, u32> for Eager {
    type Error = ();

    async fn load(&self, _: &u32) -> Result<Loaded<u32>, ()> {
        Ok(Loaded::new(1))
    }

    fn reload(&self, _: &u32, _: &u32) -> impl Future<Output = Result<Reloaded<u32>, ()>> + Send {
        self.0.fetch_add(1, Relaxed);
        assert!(self.0.load(Relaxed) == 0, "planned");
        async { Ok(Reloaded::gone()) }
    }
}

#[test]
fn a_panic_before_the_future_is_a_failed_reload() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let asked = Arc::new(AtomicU32::new(0));
        let builder = Cache::builder()
            .refresh_after_write(SOFT)
            .executor(|job: cortado::Job| job())
            .clock(clock);
        let cache = tasks_loading_audited(builder.build_with_loader(Eager(Arc::clone(&asked))));
        assert_eq!(at_once(cache.get(&7)), Ok(1));
        hand.advance(SOFT);
        assert_eq!(at_once(cache.get(&7)), Ok(1));
        assert_eq!((cache.stats().reload_failures, asked.load(Relaxed)), (1, 1));
    });
}

/// A caller that wants another value than 1 waits for the reload of that value.
#[test]
fn not_modified_is_the_old_value_for_a_callers_condition() {
    must_end(|| {
        for (brought, expected) in [(Reloaded::not_modified(), 9), (Reloaded::new(2), 2)] {
            let b = bench(|builder| builder);
            assert_eq!(at_once(b.cache.get(&7)), Ok(1));
            b.jobs.run();
            let place = b.cache.cache().entry(7);
            let caller = Task::waiting(place.or_insert_with_if(async { 9 }, |value| *value == 1));
            b.upstream.answer(Ok(brought));
            b.jobs.run();
            assert_eq!(caller.end().into_value(), expected);
        }
    });
}

/// A read that hands a reload to an executor which runs it at once is not held back while removals
/// wait for their receiver, who may be the reader.
#[test]
fn a_read_that_reloads_is_not_held_back() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let cache = loading_audited(
            cortado::Cache::builder()
                .removals(true)
                .notification_limit(0, Overflow::Wait)
                .refresh_after_write(SOFT)
                .executor(|job: Job| job())
                .clock(clock)
                .build_with_loader(|key: u32| Ok::<_, ()>(Loaded::new(key))),
        );
        let mut removals = cache.cache().removals().unwrap();
        cache.cache().insert(1, 0);
        for by_task in [false, true] {
            hand.advance(SOFT);
            let tasks = cache.cache().future();
            let read = if by_task { at_once(tasks.get(&1)) } else { cache.get(&1).ok() };
            assert!(read.is_some());
            assert_eq!(removals.try_recv().map(|it| it.cause()), Some(RemovalCause::Replaced));
        }
    });
}

/// A reload that a load of a task has left begins when that load ends, on whatever thread; if it is
/// of another cache, by the next operation there.
#[test]
fn a_reload_is_left_until_its_task_has_loaded() {
    must_end(|| {
        for own in [true, false] {
            let (clock, hand) = Clock::manual();
            let load = |key: u32| Ok::<_, ()>(Loaded::new(key + 1));
            let loading = || {
                let builder = cortado::Cache::builder().refresh_after_write(SOFT);
                let builder = builder.executor(|job: cortado::Job| job()).clock(clock.clone());
                loading_audited(builder.build_with_loader(load))
            };
            let (cache, other) = (loading(), loading());
            cache.cache().insert(1, 0);
            hand.advance(SOFT);
            let tasks = if own { cache.cache().future() } else { other.cache().future() };
            let inner = cache.cache().clone();
            let mut load = Task::waiting(async move {
                let loaded = async {
                    inner.get(&1);
                    pends(2).await;
                    5
                };
                tasks.get_with(2, loaded).await
            });
            other.cache().insert(3, 3);
            assert_eq!((cache.stats().reloads, cache.stats().reloads_under_way), (0, 1));
            thread::scope(|scope| scope.spawn(|| load.run()).join().unwrap());
            if !own {
                assert_eq!((cache.stats().reloads, cache.stats().reloads_under_way), (0, 1));
                assert_eq!(cache.cache().get(&9), None);
            }
            let stats = cache.stats();
            assert_eq!((stats.reloads, stats.reloads_under_way), (1, 0), "{own}");
        }
    });
}

#[test]
fn a_bulk_load_that_is_cancelled_leaves_its_reload_to_the_next_operation() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let builder =
            cortado::Cache::builder().refresh_after_write(SOFT).executor(|job: cortado::Job| job());
        let load = |key: u32| Ok::<_, ()>(Loaded::new(key + 1));
        let cache = loading_audited(builder.clock(clock).build_with_loader(load));
        cache.cache().insert(1, 0);
        hand.advance(SOFT);
        let (tasks, inner) = (cache.cache().future(), cache.cache().clone());
        let load = Task::waiting(async move {
            let load = |_: &[&u32]| async {
                inner.get(&1);
                pending::<Vec<(u32, u32)>>().await
            };
            tasks.get_many_with([2, 3], load).await
        });
        assert_eq!((cache.stats().reloads, cache.stats().reloads_under_way), (0, 1));
        drop(load);
        assert_eq!((cache.stats().reloads, cache.stats().reloads_under_way), (0, 1));
        assert_eq!(cache.cache().get(&9), None);
        assert_eq!((cache.stats().reloads, cache.stats().reloads_under_way), (1, 0));
    });
}

/// The reader may be the task that receives.
#[test]
fn a_read_that_reloads_in_its_task_is_not_held_back() {
    must_end(|| {
        for is_within in [false, true] {
            let (clock, hand) = Clock::manual();
            let builder = Cache::builder().removals(true).notification_limit(0, Overflow::Wait);
            let builder =
                builder.refresh_after_write(SOFT).executor(|job: cortado::Job| job()).clock(clock);
            let load = |key: u32| async move { Ok::<_, ()>(Loaded::new(key)) };
            let cache = tasks_loading_audited(builder.build_with_loader(load));
            let mut removals = cache.cache().removals().unwrap();
            at_once(cache.insert(1, 0));
            hand.advance(SOFT);
            let got = if is_within {
                at_once(cache.get_within(&1, pending::<()>())).ok()
            } else {
                at_once(cache.get(&1)).ok()
            };
            assert_eq!(got, Some(1));
            assert!(removals.try_recv().is_some());
        }
    });
}

/// Neither reads nor the executor wait for a slow receiver. So reloads do not begin while more
/// notifications wait than the limit allows.
#[test]
fn no_reload_begins_while_too_many_notifications_wait() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let (jobs, queue) = channel::<Job>();
        let builder = Cache::builder().removals(true).notification_limit(0, Overflow::Wait);
        let builder = builder.refresh_after_write(SOFT).clock(clock);
        let cache = tasks_loading_audited(
            builder
                .executor(move |job: Job| drop(jobs.send(job)))
                .build_with_loader(|key: u32| async move { Ok::<_, ()>(Loaded::new(key)) }),
        );
        let mut removals = cache.cache().removals().unwrap();
        at_once(cache.insert(1, 0));
        for _ in 0..10 {
            hand.advance(SOFT);
            at_once(cache.get(&1)).unwrap();
            queue.try_iter().for_each(|job| job());
        }
        let stats = cache.stats();
        assert_eq!((stats.reloads, stats.reloads_skipped, stats.pending_notifications), (1, 9, 1));
        assert!(removals.try_recv().is_some());
        at_once(cache.get(&1)).unwrap();
        queue.try_iter().for_each(|job| job());
        assert_eq!(cache.stats().reloads, 2);
    });
}

/// The executor's only thread may be the one that receives.
#[test]
fn a_job_that_reloads_waits_for_no_receiver() {
    watched(|watch| {
        watch.begin("a reload's job waits for the receiver".to_owned());
        for is_load in [false, true] {
            let (clock, hand) = Clock::manual();
            let (jobs, queue) = channel::<Job>();
            let builder = cortado::Cache::builder().removals(true);
            let builder = builder.notification_limit(0, Overflow::Wait).refresh_after_write(SOFT);
            let cache = loading_audited(
                builder
                    .executor(move |job| drop(jobs.send(job)))
                    .clock(clock)
                    .build_with_loader(|key: u32| Ok::<_, ()>(Loaded::new(key))),
            );
            cache.cache().insert(1, 0);
            if is_load {
                // Nobody has taken the receiver, so nobody is held back yet.
                cache.invalidate(&1);
            }
            let mut removals = cache.cache().removals().unwrap();
            hand.advance(SOFT);
            if is_load {
                assert!(cache.refresh(&1));
            } else {
                assert_eq!(cache.get(&1), Ok(0));
            }
            queue.recv().unwrap()();
            assert!(removals.try_recv().is_some());
        }
    });
}

/// If only threads used the cache, nobody would ever tell a listener that awaits. Here one task is
/// in such a listener, and does not come back.
#[test]
fn a_listener_that_awaits_and_is_behind_keeps_no_reload_away() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let (jobs, queue) = channel::<Job>();
        let builder = Cache::builder().notification_limit(0, Overflow::Wait);
        let builder = builder.refresh_after_write(SOFT).clock(clock);
        let cache = tasks_loading_audited(
            builder
                .async_eviction_listener(|_, _, _| Box::pin(pending()))
                .executor(move |job: Job| drop(jobs.send(job)))
                .build_with_loader(|key: u32| async move { Ok::<_, ()>(Loaded::new(key)) }),
        );
        at_once(cache.insert(1, 0));
        let mut stuck = Task::waiting(cache.insert(1, 1));
        // The job hands the removal to the listener, and the task is in it from now on.
        queue.try_iter().for_each(|job| job());
        assert!(!stuck.poll());
        for _ in 0..20 {
            hand.advance(SOFT);
            at_once(cache.get(&1)).unwrap();
            queue.try_iter().for_each(|job| job());
        }
        assert_eq!(cache.stats().reloads, 20);
        drop(stuck);
    });
}

/// Reads are all that happens, and they submit again what the executor has dropped.
#[test]
fn reads_that_are_held_back_deliver() {
    let (clock, hand) = Clock::manual();
    let (jobs, queue) = channel::<Job>();
    let builder = cortado::Cache::builder().removal_listener(|_| ()).refresh_after_write(SOFT);
    let cache = loading_audited(
        builder
            .notification_limit(0, Overflow::Wait)
            .executor(move |job| drop(jobs.send(job)))
            .clock(clock)
            .build_with_loader(|key: u32| Ok::<_, ()>(Loaded::new(key))),
    );
    cache.cache().insert(1, 0);
    hand.advance(SOFT);
    assert_eq!(cache.get(&1), Ok(0));
    queue.recv().unwrap()();
    for overloaded in [true, false] {
        for _ in 0..10 {
            hand.advance(SOFT);
            assert_eq!(cache.get(&1), Ok(1));
            queue.try_iter().for_each(|job| if overloaded { drop(job) } else { job() });
        }
    }
    assert!(cache.stats().reloads > 1);
}
