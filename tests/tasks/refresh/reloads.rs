//! Reloads by loaders that await: in the task that finds an entry stale, or in one that the
//! executor polls.

use super::bench::{HARD, Jobs, SOFT, bench};
use crate::common::audited::{TasksAudited, tasks_audited, tasks_loading_audited};
use crate::common::{SECOND, must_end, panic_of};
use crate::hand::{Task, at_once, pends};
use cortado::future::Cache;
use cortado::{Clock, Job, Loaded, ManualClock, Reloaded, RemovalCause};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

#[test]
fn a_reload_on_the_executor_is_a_job_per_poll() {
    must_end(|| {
        let b = bench(|builder| builder);
        // Any read triggers it, that of a thread, too.
        assert_eq!(b.cache.sync().get(&7), Some(1));
        assert_eq!(at_once(b.cache.get(&7)), Ok(1));
        assert_eq!((b.under_way(), b.upstream.asked()), (1, vec![]));
        assert_eq!(b.jobs.run(), 1);
        assert_eq!((b.under_way(), b.upstream.asked()), (1, vec![Some(1)]));
        // It waits for its upstream, and no job waits with it.
        assert_eq!((b.jobs.run(), at_once(b.cache.get(&7))), (0, Ok(1)));
        b.upstream.answer(Ok(Reloaded::new(2)));
        // One job for the poll, and one for the notice.
        assert_eq!(b.jobs.run(), 2);
        assert_eq!((b.under_way(), at_once(b.cache.get(&7))), (0, Ok(2)));
        assert_eq!(b.told(), [(1, RemovalCause::Replaced)]);
    });
}

#[test]
fn a_reload_whose_job_is_dropped_is_left_to_a_later_read() {
    must_end(|| {
        let b = bench(|builder| builder.refresh_limit(1));
        // Before its first poll, and before another one.
        for polls in [0, 1] {
            assert_eq!(at_once(b.cache.get(&7)), Ok(1));
            (0..polls).for_each(|_| assert_eq!(b.jobs.run(), 1));
            b.upstream.answer(Ok(Reloaded::new(2)));
            drop(b.jobs.pop());
            b.upstream.0.lock().unwrap().answers.clear();
            assert_eq!(b.under_way(), 0, "after {polls} polls");
            // Until the retry delay is over, an executor that drops jobs is left alone.
            assert_eq!((at_once(b.cache.get(&7)), b.under_way()), (Ok(1), 0));
            b.hand.advance(SECOND);
        }
        assert_eq!(at_once(b.cache.get(&7)), Ok(1));
        b.upstream.answer(Ok(Reloaded::new(3)));
        b.jobs.run();
        assert_eq!(at_once(b.cache.get(&7)), Ok(3));
    });
}

#[test]
fn failures_and_panics_leave_the_old_value() {
    must_end(|| {
        for inline in [false, true] {
            let b = bench(|builder| builder.refresh_inline(inline));
            for (n, error) in ["down", "panic"].into_iter().enumerate() {
                b.upstream.answer(Err(error));
                assert_eq!(at_once(b.cache.get(&7)), Ok(1));
                b.jobs.run();
                let failure = b.cache.last_failure(&7).unwrap();
                let expected = (error != "panic").then_some(error);
                assert_eq!(failure.error().map(|it| **it), expected);
                assert_eq!(failure.times(), n as u32 + 1);
                assert_eq!(at_once(b.cache.get(&7)), Ok(1));
                assert_eq!(b.under_way(), 0);
                b.hand.advance(SECOND);
            }
            b.upstream.answer(Ok(Reloaded::not_modified()));
            assert_eq!(at_once(b.cache.get(&7)), Ok(1));
            b.jobs.run();
            assert!(b.cache.last_failure(&7).is_none());
            assert_eq!(b.cache.expires_in(&7).due(), Some(HARD));
            assert_eq!((b.cache.stats().reloads, b.cache.stats().reload_failures), (1, 2));
            assert_eq!(b.told(), []);
        }
    });
}

#[test]
fn inline_one_task_awaits_the_reload_and_others_get_the_stale_value() {
    must_end(|| {
        let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
        let first = Task::waiting(b.cache.get(&7));
        assert_eq!(at_once(b.cache.get(&7)), Ok(1));
        assert_eq!(b.cache.sync().get(&7), Some(1));
        b.upstream.answer(Ok(Reloaded::new(2)));
        assert!(first.is_woken());
        assert_eq!((first.end(), at_once(b.cache.get(&7))), (Ok(2), Ok(2)));
        assert_eq!(b.upstream.asked(), [Some(1)]);
    });
}

#[test]
fn a_dropped_task_leaves_its_reload_to_the_next_one() {
    must_end(|| {
        let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
        drop(Task::waiting(b.cache.get(&7)));
        assert_eq!((b.under_way(), b.cache.sync().get(&7)), (0, Some(1)));
        let next = Task::waiting(b.cache.get(&7));
        b.upstream.answer(Ok(Reloaded::new(2)));
        assert_eq!(next.end(), Ok(2));
        assert_eq!(b.upstream.asked(), [Some(1), Some(1)]);
    });
}

#[test]
fn writes_removals_and_computations_overtake_a_reload_that_awaits() {
    must_end(|| {
        for inline in [false, true] {
            for write in 0..4 {
                let b = bench(|builder| builder.refresh_inline(inline));
                let mut reader = Task::new(b.cache.get(&7));
                assert_eq!(reader.poll(), !inline);
                b.jobs.run();
                let expected = match write {
                    0 => {
                        at_once(b.cache.insert(7, 50));
                        Some(50)
                    }
                    1 => {
                        at_once(b.cache.invalidate(&7));
                        None
                    }
                    2 => {
                        b.cache.invalidate_all();
                        None
                    }
                    _ => {
                        let put = async |_| cortado::Op::Put(51);
                        at_once(b.cache.entry(7).and_compute_with(put));
                        Some(51)
                    }
                };
                b.upstream.answer(Ok(Reloaded::new(2)));
                b.jobs.run();
                if inline {
                    let _ = reader.end();
                }
                assert_eq!(at_once(b.cache.cache().get(&7)), expected);
                assert!(b.told().iter().all(|(value, _)| *value != 2));
            }
        }
    });
}

#[test]
fn a_task_may_ask_for_a_reload() {
    must_end(|| {
        let b = bench(|builder| builder);
        at_once(b.cache.insert(7, 5));
        let asking = Task::waiting(b.cache.refresh(&7));
        b.upstream.answer(Ok(Reloaded::new(6)));
        assert_eq!((asking.end(), b.upstream.asked()), (Ok(6), vec![Some(5)]));
        let mut missing = Task::new(b.cache.refresh(&8));
        missing.run();
        assert_eq!((missing.result(), b.upstream.asked()), (Ok(1), vec![None]));
        let many = Task::new(b.cache.get_many([7, 8, 9]));
        assert_eq!(many.end(), Ok(vec![Some(6), Some(1), Some(1)]));
    });
}

/// Whoever asks for a reload while one is under way gets what that one brings, fresh or stale.
#[test]
fn tasks_that_ask_for_a_reload_at_the_same_time_share_it() {
    must_end(|| {
        for is_stale in [false, true] {
            let b = bench(|builder| builder);
            if !is_stale {
                at_once(b.cache.insert(7, 1));
            }
            let leader = Task::waiting(b.cache.refresh(&7));
            let joins: Vec<_> = (0..3).map(|_| Task::waiting(b.cache.refresh(&7))).collect();
            b.upstream.answer(Ok(Reloaded::new(6)));
            assert_eq!(leader.end(), Ok(6));
            joins.into_iter().for_each(|join| assert_eq!(join.end(), Ok(6)));
            assert_eq!(b.upstream.asked(), [Some(1)]);
        }
    });
}

/// A reload that waits in the executor may wait for this very thread.
#[test]
fn a_reload_that_has_not_begun_is_not_waited_for() {
    must_end(|| {
        let b = bench(|builder| builder);
        // It is stale: this queues its reload.
        assert_eq!(at_once(b.cache.get(&7)), Ok(1));
        assert_eq!(at_once(b.cache.refresh(&7)), Ok(1));
        b.jobs.run();
        let join = Task::waiting(b.cache.refresh(&7));
        b.upstream.answer(Ok(Reloaded::new(2)));
        b.jobs.run();
        assert!(join.is_woken());
        assert_eq!(join.end(), Ok(2));
    });
}

/// The reload that they share may come to nothing: then they get what is there, or load it.
#[test]
fn a_task_that_shares_a_reload_gets_what_it_leaves() {
    must_end(|| {
        for end in ["fails", "is dropped", "is overtaken", "is cleared", "is gone"] {
            let b = bench(|builder| builder);
            at_once(b.cache.insert(7, 5));
            let leader = Task::waiting(b.cache.refresh(&7));
            let join = Task::waiting(b.cache.refresh(&7));
            match end {
                "fails" => b.upstream.answer(Err("down")),
                "is gone" => b.upstream.answer(Ok(Reloaded::gone())),
                "is overtaken" => at_once(b.cache.insert(7, 50)),
                "is cleared" => b.cache.invalidate_all(),
                _ => {}
            }
            if ["fails", "is gone"].contains(&end) {
                leader.end().unwrap();
            } else {
                drop(leader);
            }
            let left = match end {
                "is overtaken" => 50,
                "is cleared" | "is gone" => 1,
                _ => 5,
            };
            assert_eq!(join.end(), Ok(left), "it {end}");
        }
    });
}

/// A cache without a stored loader, with the value 1 of "k", stale.
fn stale(inline: bool) -> (TasksAudited<&'static str, u32>, ManualClock) {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().refresh_after_write(SOFT).refresh_inline(inline).clock(clock);
    let cache = tasks_audited(builder.executor(drop::<Job>).build());
    at_once(cache.insert("k", 1));
    hand.advance(SOFT);
    (cache, hand)
}

#[test]
fn past_the_soft_deadline_a_load_awaits_its_own_loader_or_returns_the_stale_value() {
    must_end(|| {
        let (cache, _hand) = stale(false);
        assert_eq!(at_once(cache.get_with("k", async { unreachable!("not inline") })), 1);
        let (cache, hand) = stale(true);
        let load = |value: u32| cache.get_with("k", async move { (pends(1).await, value).1 });
        let mut first = Task::waiting(load(2));
        // Another caller finds it under way.
        assert_eq!(at_once(load(3)), 1);
        first.run();
        assert_eq!((first.result(), at_once(cache.get("k"))), (2, Some(2)));
        hand.advance(SOFT);
        assert_eq!(at_once(cache.entry("k").or_insert(9)).into_value(), 2);
        let failed = at_once(cache.try_get_with_by_ref(&"k", async { Err("down") }));
        assert_eq!((failed, cache.stats().reload_failures), (Ok(2), 1));
        hand.advance(SECOND);
        let gone = Task::waiting(load(4));
        drop(gone);
        assert_eq!(at_once(cache.load("k", async { Loaded::new(5) })), 5);
    });
}

/// The task is dropped while its thread unwinds, by a panic of something else.
#[test]
fn a_reload_fails_by_a_panic_of_its_own_loader_only() {
    must_end(|| {
        let (cache, hand) = stale(true);
        let load = |value: u32| cache.get_with("k", async move { (pends(1).await, value).1 });
        let reload = Task::waiting(load(2));
        let panic = panic_of(|| {
            let _reload = reload;
            panic!("of another");
        });
        assert_eq!((panic.as_str(), cache.stats().reload_failures), ("of another", 0));
        // The next caller need not wait for a retry delay.
        let mut next = Task::waiting(load(3));
        next.run();
        assert_eq!((next.result(), cache.stats().reload_failures), (3, 0));
        hand.advance(SOFT);
        let mut reload = Task::waiting(cache.get_with("k", async {
            pends(1).await;
            panic!("of its own")
        }));
        assert_eq!(panic_of(|| reload.run()), "of its own");
        assert_eq!(cache.stats().reload_failures, 1);
    });
}

#[test]
fn a_loader_that_may_leave_its_task_runs_in_the_background() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let jobs = Jobs::default();
        let queue = jobs.clone();
        let builder = Cache::builder()
            .refresh_after_write(SOFT)
            .executor(move |job| queue.0.lock().unwrap().push_back(job))
            .clock(clock);
        let cache = tasks_audited(builder.build());
        let load = |value: u32| {
            cache.load_refreshing("k", async move {
                pends(1).await;
                Loaded::new(value)
            })
        };
        let mut first = Task::new(load(1));
        first.run();
        assert_eq!((first.result(), jobs.run()), (1, 0));
        hand.advance(SOFT);
        // The second caller finds it under way, and its loader is dropped.
        assert_eq!((at_once(load(2)), at_once(load(3))), (1, 1));
        // It wakes itself during its first poll, and is polled again by the same job.
        assert_eq!((jobs.run(), at_once(cache.get("k"))), (1, Some(2)));
        hand.advance(SOFT);
        let fails = async { if true { panic!("planned") } else { Loaded::new(9) } };
        assert_eq!(at_once(cache.load_refreshing("k", fails)), 2);
        jobs.run();
        assert_eq!((cache.stats().reload_failures, at_once(cache.get("k"))), (1, Some(2)));
    });
}

#[test]
fn a_runtime_reloads_by_its_own_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let handle = tokio::runtime::Handle::current();
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder()
            .refresh_after_write(SOFT)
            .executor(move |job: Job| drop(handle.spawn(async { job() })))
            .clock(clock);
        let cache = tasks_loading_audited(builder.build_with_loader(|key: u32| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok::<_, ()>(Loaded::new(key))
        }));
        cache.insert(7, 1).await;
        hand.advance(SOFT);
        while cache.get(&7).await == Ok(1) {
            tokio::task::yield_now().await;
        }
        assert_eq!((cache.get(&7).await, cache.stats().reloads), (Ok(7), 1));
    });
}

/// A key that cannot be cloned while the flag is up.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Brittle(u32);

static BREAKS: AtomicBool = AtomicBool::new(false);

impl Clone for Brittle {
    fn clone(&self) -> Self {
        assert!(!BREAKS.load(Relaxed), "no clone");
        Self(self.0)
    }
}

/// The new entry needs a key of its own.
#[test]
fn a_key_that_cannot_be_cloned_is_a_failure() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let cache = tasks_loading_audited(
            Cache::<Brittle, u32>::builder()
                .refresh_after_write(SOFT)
                .executor(|job: Job| job())
                .clock(clock)
                .build_with_loader(|_: Brittle| async { Ok::<_, ()>(Loaded::new(1)) }),
        );
        cache.sync().insert(Brittle(7), 1);
        hand.advance(SOFT);
        BREAKS.store(true, Relaxed);
        assert_eq!(cache.sync().get(&Brittle(7)), Some(1));
        let failure = cache.last_failure(&Brittle(7)).expect("the reload has failed");
        assert_eq!((failure.error().is_none(), cache.stats().reload_failures), (true, 1));
        BREAKS.store(false, Relaxed);
    });
}
