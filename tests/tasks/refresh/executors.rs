//! Loads by a loader that awaits, on executors of all kinds: they go on without their callers, and
//! a call whose executor fails it runs the loader itself.

use super::bench::{Bench, SOFT, bench};
use crate::common::audited::{TasksLoadingAudited, loading_audited, tasks_loading_audited};
use crate::common::noted::eventually;
use crate::common::{must_end, panic_of};
use crate::hand::{Boxed, Task, at_once};
use cortado::future::Cache;
use cortado::{Clock, Execute, Job, Loaded};
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

type Call = for<'a> fn(&'a Bench) -> Boxed<'a, ()>;

/// Calls that load key 8.
const CALLS: [(&str, Call); 5] = [
    ("get", |b| Box::pin(async { drop(b.cache.get(&8).await) })),
    ("get_entry", |b| Box::pin(async { drop(b.cache.get_entry(&8).await) })),
    ("get_many", |b| Box::pin(async { drop(b.cache.get_many(&[8, 9]).await) })),
    ("get_within", |b| Box::pin(async { drop(b.cache.get_within(&8, pending::<()>()).await) })),
    ("reload", |b| Box::pin(async { drop(b.cache.reload(&8).await) })),
];

#[test]
fn a_call_that_is_dropped_cancels_nothing() {
    must_end(|| {
        for (name, call) in CALLS {
            let b = bench(|builder| builder);
            drop(Task::waiting(call(&b)));
            assert_eq!(
                (b.cache.cache().sync().peek(&8).map(|it| *it), b.jobs.run()),
                (None, 1),
                "{name}"
            );
            assert_eq!(b.cache.cache().sync().peek(&8).map(|it| *it), Some(1), "{name}");
            assert_eq!(b.cache.stats().loads_under_way, 0, "{name}");
        }
    });
}

#[test]
fn a_call_that_is_polled_once_and_kept_delays_nobody() {
    must_end(|| {
        for (name, call) in CALLS {
            let b = bench(|builder| builder);
            let kept = Task::waiting(call(&b));
            let other = Task::waiting(b.cache.get(&8));
            b.jobs.run();
            assert_eq!(other.end(), Ok(1), "{name}");
            drop(kept);
        }
    });
}

#[test]
fn a_bulk_load_is_one_job() {
    must_end(|| {
        let b = bench(|builder| builder);
        let many = Task::waiting(b.cache.get_many(&[8, 9, 10]));
        let one = Task::waiting(b.cache.get(&9));
        b.jobs.run();
        assert_eq!(many.end(), Ok(vec![Some(1); 3]));
        assert_eq!(one.end(), Ok(1));
    });
}

/// An executor that drops its jobs, or panics when it gets one.
fn failing(panics: bool) -> TasksLoadingAudited<u32, u32, ()> {
    let builder = Cache::builder().executor(move |job: Job| {
        drop(job);
        assert!(!panics, "refused");
    });
    tasks_loading_audited(
        builder.build_with_loader(|key: u32| async move { Ok(Loaded::new(10 * key)) }),
    )
}

#[test]
fn a_call_whose_executor_fails_it_runs_the_loader_itself() {
    must_end(|| {
        for panics in [false, true] {
            let cache = failing(panics);
            assert_eq!(Task::new(cache.get(&1)).end(), Ok(10), "{panics}");
            assert_eq!(Task::new(cache.get_many(&[1, 2])).end(), Ok(vec![Some(10), Some(20)]));
            let limited = cache.get_within(&3, pending::<()>());
            assert_eq!(Task::new(limited).end(), Ok(30), "{panics}");
        }
    });
}

/// Of a bulk load, too, and those who wait for a key of it load that themselves.
#[test]
fn a_panic_of_the_loader_goes_on_in_the_call() {
    must_end(|| {
        let calls = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&calls);
        let builder = Cache::builder().executor(|job: Job| job());
        let cache = tasks_loading_audited(builder.build_with_loader(move |key: u32| {
            let call = counts.fetch_add(1, SeqCst);
            async move {
                assert!(call > 2, "planned");
                Ok::<_, ()>(Loaded::new(key))
            }
        }));
        assert_eq!(panic_of(|| at_once(cache.get(&1))), "planned");
        assert_eq!(panic_of(|| at_once(cache.get_many(&[1, 2]))), "planned");
        // Of a load that a call has only started it is caught.
        assert!(cache.refresh(&1));
        assert_eq!(at_once(cache.get(&1)), Ok(1));
    });
}

fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap()
}

/// Its first loads never end.
fn hangs_at_first(calls: &Arc<AtomicU32>) -> TasksLoadingAudited<u32, u32, ()> {
    let calls = Arc::clone(calls);
    tasks_loading_audited(Cache::builder().on_tokio().build_with_loader(move |key: u32| {
        let call = calls.fetch_add(1, SeqCst);
        async move {
            if call == 0 {
                pending::<()>().await;
            }
            Ok(Loaded::new(key))
        }
    }))
}

#[test]
fn a_runtime_that_ends_amid_a_load_wakes_its_waiters() {
    must_end(|| {
        let (runtime, calls) = (runtime(), Arc::new(AtomicU32::new(0)));
        let cache = {
            let _inside = runtime.enter();
            hangs_at_first(&calls)
        };
        std::thread::scope(|scope| {
            let waiting: Vec<_> =
                (0..3).map(|_| scope.spawn(|| pollster::block_on(cache.get(&7)))).collect();
            while calls.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            runtime.shutdown_background();
            waiting.into_iter().for_each(|it| assert_eq!(it.join().unwrap(), Ok(7)));
        });
        assert_eq!(cache.stats().loads_under_way, 0);
    });
}

/// As a cache is that several tests of a program use, each of which has a runtime of its own.
#[test]
fn a_static_cache_works_in_each_runtime() {
    static PAGES: OnceLock<TasksLoadingAudited<u32, u32, ()>> = OnceLock::new();
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let mut settings = Some(clock);
        for round in 0..3 {
            let runtime = runtime();
            runtime.block_on(async {
                let pages = PAGES.get_or_init(|| {
                    let builder = Cache::builder().refresh_after_write(SOFT).on_tokio();
                    let builder = builder.clock(settings.take().unwrap());
                    tasks_loading_audited(builder.build_with_loader(|key: u32| async move {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        Ok(Loaded::new(key))
                    }))
                });
                assert_eq!(pages.get(&round).await, Ok(round));
                pages.insert(99, 0).await;
                hand.advance(SOFT);
                assert_eq!(pages.reload(&99).await, Ok(99));
            });
        }
        // Outside of any runtime, the loader runs in the call, which needs its timer: here it has
        // the value.
        assert_eq!(pollster::block_on(PAGES.get().unwrap().cache().get(&1)), Some(1));
    });
}

/// The listener and the reloads of a loader that blocks, too.
#[test]
fn on_tokio_jobs_that_block_run_on_threads_for_them() {
    must_end(|| {
        let runtime = runtime();
        let (clock, hand) = Clock::manual();
        let _inside = runtime.enter();
        let blocks = |key: u32| {
            // It would panic on a thread that drives tasks.
            Handle::current().block_on(tokio::time::sleep(Duration::from_millis(1)));
            Ok::<_, ()>(Loaded::new(key + 1))
        };
        let builder = cortado::Cache::builder().refresh_after_write(SOFT).on_tokio().clock(clock);
        let cache = loading_audited(builder.build_with_loader(blocks));
        cache.insert(1, 0);
        hand.advance(SOFT);
        assert_eq!(cache.reload(&1), Ok(2));
        eventually("the job has ended", || cache.stats().reloads_under_way == 0);
    });
}

/// The value was there, and is gone when the call looks.
#[test]
fn a_call_goes_on_waiting_if_a_value_came_and_went() {
    must_end(|| {
        let b = bench(|builder| builder);
        let mut call = Task::waiting(b.cache.get(&8));
        at_once(b.cache.insert(8, 99));
        at_once(b.cache.invalidate(&8));
        assert!(call.is_woken() && !call.poll());
        assert!(b.upstream.asked().is_empty());
        b.jobs.run();
        assert_eq!((call.end(), b.upstream.asked()), (Ok(1), vec![None]));
        assert_eq!(
            b.cache.cache().sync().peek(&8).map(|it| *it),
            None,
            "the write has overtaken it"
        );
    });
}

type Itself = Arc<OnceLock<TasksLoadingAudited<u32, u32, ()>>>;

/// Loads key 1 by a loader that uses its cache, where jobs run at once.
fn assert_waits_for_itself<F>(load: impl Fn(Itself, u32) -> F + Send + Sync + 'static)
where
    F: Future<Output = Result<Loaded<u32>, ()>> + Send + 'static,
{
    let itself = Itself::default();
    let own = Arc::clone(&itself);
    let builder = Cache::builder().executor(|job: Job| job());
    let load = move |key: u32| load(Arc::clone(&own), key);
    let _ = itself.set(tasks_loading_audited(builder.build_with_loader(load)));
    let waits = panic_of(|| at_once(itself.get().unwrap().get(&1)));
    assert!(waits.contains("waits for its own key"), "{waits}");
}

/// The inner wait blocks the thread on which the outer load would go on.
#[test]
fn a_thread_that_waits_inside_of_a_job_for_what_goes_on_below_panics() {
    must_end(|| {
        assert_waits_for_itself(|own, key| async move {
            let cache = own.get().unwrap();
            match key {
                1 => cache.get(&2).await.map(Loaded::new).map_err(|_| ()),
                _ => Ok(Loaded::new(cache.cache().sync().get_with(1, || 7))),
            }
        });
    });
}

/// A call that would wait in a job of its own.
#[test]
fn a_loader_that_awaits_many_keys_with_its_own_panics() {
    must_end(|| {
        assert_waits_for_itself(|own, key| async move {
            own.get().unwrap().get_many(&[8, key]).await.map(|_| Loaded::new(key)).map_err(|_| ())
        });
    });
}

/// An executor with a queue of its own, which nothing empties.
struct Queue(Mutex<Vec<Job>>, #[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Execute for Queue {
    fn execute(&self, job: Job) {
        self.0.lock().unwrap().push(job);
    }
}

#[test]
fn what_waits_in_a_queue_of_the_executors_keeps_no_executor() {
    let (queue, loader) = (Arc::new(()), Arc::new(()));
    let captured = Arc::clone(&loader);
    let builder = Cache::builder().executor(Queue(Mutex::default(), Arc::clone(&queue)));
    let cache = tasks_loading_audited(builder.build_with_loader(move |key: u32| {
        let _captured = Arc::clone(&captured);
        async move { Ok::<_, ()>(Loaded::new(key)) }
    }));
    at_once(cache.insert(7, 1));
    assert!(cache.refresh(&7));
    drop(cache);
    assert_eq!((Arc::strong_count(&queue), Arc::strong_count(&loader)), (1, 1));
}
