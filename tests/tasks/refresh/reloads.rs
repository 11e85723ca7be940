//! Reloads by loaders that await: in the task that finds an entry stale, or in one that the
//! executor polls.

use super::bench::{HARD, SOFT, at_once_if, bench};
use crate::common::audited::tasks_loading_audited;
use crate::common::{SECOND, must_end};
use crate::hand::{Task, at_once};
use cortado::future::Cache;
use cortado::{Clock, Job, Loaded, Reloaded, RemovalCause};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

#[test]
fn a_reload_on_the_executor_is_a_job_per_poll() {
    must_end(|| {
        let b = bench(|builder| builder);
        // Any read triggers it, that of a thread, too.
        assert_eq!(b.cache.cache().sync().get(&7), Some(1));
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
        for is_at_once in [false, true] {
            let b = bench(at_once_if(is_at_once));
            for (n, error) in ["down", "panic"].into_iter().enumerate() {
                b.upstream.answer(Err(error));
                assert_eq!(at_once(b.cache.get(&7)), Ok(1));
                b.jobs.run();
                let failure = b.cache.last_failure(&7).unwrap();
                let expected = (error != "panic").then_some(error);
                assert_eq!(failure.error.as_deref().copied(), expected);
                assert_eq!(failure.in_a_row, n as u32 + 1);
                assert_eq!(at_once(b.cache.get(&7)), Ok(1));
                assert_eq!(b.under_way(), 0);
                b.hand.advance(SECOND);
            }
            b.upstream.answer(Ok(Reloaded::not_modified()));
            assert_eq!(at_once(b.cache.get(&7)), Ok(1));
            b.jobs.run();
            assert!(b.cache.last_failure(&7).is_none());
            assert_eq!(b.cache.cache().sync().expires_in(&7).due(), Some(HARD));
            assert_eq!((b.cache.stats().reloads, b.cache.stats().reload_failures), (1, 2));
            assert_eq!(b.told(), []);
        }
    });
}

#[test]
fn writes_removals_and_computations_overtake_a_reload_that_awaits() {
    must_end(|| {
        for is_at_once in [false, true] {
            for write in 0..4 {
                let b = bench(at_once_if(is_at_once));
                assert_eq!(at_once(b.cache.get(&7)), Ok(1));
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
                        at_once(b.cache.cache().entry(7).and_compute_with(put));
                        Some(51)
                    }
                };
                b.upstream.answer(Ok(Reloaded::new(2)));
                b.jobs.run();
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
        b.upstream.answer(Ok(Reloaded::new(6)));
        assert_eq!((b.jobs.serve(b.cache.reload(&7)), b.upstream.asked()), (Ok(6), vec![Some(5)]));
        assert_eq!((b.jobs.serve(b.cache.reload(&8)), b.upstream.asked()), (Ok(1), vec![None]));
        let many = b.cache.get_many(&[7, 8, 9]);
        assert_eq!(b.jobs.serve(many), Ok(vec![Some(6), Some(1), Some(1)]));
        // One of a key that is under way is enough.
        assert!(b.cache.refresh(&10) && !b.cache.refresh(&10));
        assert!(b.cache.refresh(&7) && !b.cache.refresh(&7));
        b.upstream.answer(Ok(Reloaded::new(7)));
        b.jobs.run();
        assert_eq!((at_once(b.cache.get(&7)), at_once(b.cache.get(&10))), (Ok(7), Ok(1)));
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
            let leader = Task::waiting(b.cache.reload(&7));
            let joins: Vec<_> = (0..3).map(|_| Task::waiting(b.cache.reload(&7))).collect();
            b.upstream.answer(Ok(Reloaded::new(6)));
            b.jobs.run();
            assert_eq!(leader.end(), Ok(6));
            joins.into_iter().for_each(|join| assert_eq!(join.end(), Ok(6)));
            assert_eq!(b.upstream.asked(), [Some(1)]);
        }
    });
}

/// The reload that they share may come to nothing: then they get what is there, or load it.
#[test]
fn a_task_that_shares_a_reload_gets_what_it_leaves() {
    must_end(|| {
        for end in ["fails", "is dropped", "is overtaken", "is cleared", "is gone"] {
            let b = bench(|builder| builder);
            at_once(b.cache.insert(7, 5));
            b.jobs.run();
            let leader = Task::waiting(b.cache.reload(&7));
            let join = Task::waiting(b.cache.reload(&7));
            if end == "is dropped" {
                drop(b.jobs.pop());
            }
            b.jobs.run();
            match end {
                "fails" => b.upstream.answer(Err("down")),
                "is gone" => b.upstream.answer(Ok(Reloaded::gone())),
                "is overtaken" => at_once(b.cache.insert(7, 50)),
                "is cleared" => b.cache.invalidate_all(),
                _ => {}
            }
            if ["is cleared", "is overtaken"].contains(&end) {
                b.upstream.answer(Ok(Reloaded::new(6)));
            }
            b.jobs.run();
            drop(leader);
            let left = match end {
                "is overtaken" => 50,
                "is cleared" | "is gone" => 1,
                _ => 5,
            };
            let mut join = join;
            while !join.poll() {
                assert!(b.jobs.run() > 0, "it {end}: nothing goes on");
            }
            assert_eq!(join.result(), Ok(left), "it {end}");
        }
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
        cache.cache().sync().insert(Brittle(7), 1);
        hand.advance(SOFT);
        BREAKS.store(true, Relaxed);
        assert_eq!(cache.cache().sync().get(&Brittle(7)), Some(1));
        let failure = cache.last_failure(&Brittle(7)).expect("the reload has failed");
        assert_eq!((failure.error.is_none(), cache.stats().reload_failures), (true, 1));
        BREAKS.store(false, Relaxed);
    });
}
