//! Many tasks that want one missing key make one load.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::crowd::{draw, seed};
use crate::common::must_end;
use crate::hand::{Boxed, Gate, Task, pends};
use async_executor::Executor;
use cortado::Loaded;
use cortado::future::Cache;
use futures_util::future::join_all;
use pollster::block_on;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use tokio::runtime;

const TASKS: usize = 1000;

type Shared = Arc<TasksAudited<u64, u64>>;
type Jobs = Vec<Boxed<'static, u64>>;

fn cache() -> Shared {
    Arc::new(tasks_audited(Cache::builder().max_capacity(100).record_stats(true).build()))
}

/// Runs the jobs as tasks of tokio.
fn on_tokio(mut builder: runtime::Builder, jobs: Jobs) -> Vec<u64> {
    let runtime = builder.build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = jobs.into_iter().map(tokio::spawn).collect();
        join_all(tasks).await.into_iter().map(|result| result.unwrap()).collect()
    })
}

fn on_threads(jobs: Jobs) -> Vec<u64> {
    let mut builder = runtime::Builder::new_multi_thread();
    builder.worker_threads(3);
    on_tokio(builder, jobs)
}

fn on_one_thread(jobs: Jobs) -> Vec<u64> {
    on_tokio(runtime::Builder::new_current_thread(), jobs)
}

/// The executor of smol, on two threads.
fn on_smol(jobs: Jobs) -> Vec<u64> {
    let executor = Executor::new();
    let end = Gate::default();
    thread::scope(|scope| {
        let runs = || block_on(executor.run(end.passed()));
        let threads = [scope.spawn(runs), scope.spawn(runs)];
        let tasks: Vec<_> = jobs.into_iter().map(|job| executor.spawn(job)).collect();
        let results = block_on(join_all(tasks));
        end.open();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        results
    })
}

/// Polled by hand, each when it was woken.
fn by_hand(jobs: Jobs) -> Vec<u64> {
    let mut tasks: Vec<_> = jobs.into_iter().map(Task::new).collect();
    tasks.iter_mut().for_each(|task| _ = task.poll());
    while let Some(task) = tasks.iter_mut().find(|task| !task.is_ready() && task.is_woken()) {
        task.poll();
    }
    tasks.into_iter().map(Task::result).collect()
}

const EXECUTORS: [fn(Jobs) -> Vec<u64>; 4] = [on_threads, on_one_thread, on_smol, by_hand];

#[test]
fn a_thousand_tasks_make_one_load() {
    must_end(|| {
        for run in EXECUTORS {
            let (cache, loads) = (cache(), Arc::new(AtomicUsize::new(0)));
            let get = |_| {
                let (cache, loads) = (Arc::clone(&cache), Arc::clone(&loads));
                let get = async move {
                    let load = async {
                        loads.fetch_add(1, SeqCst);
                        pends(50).await;
                        7
                    };
                    cache.get_with(1, load).await
                };
                Box::pin(get) as _
            };
            assert_eq!(run((0..TASKS).map(get).collect()), [7; TASKS]);
            assert_eq!((loads.load(SeqCst), cache.stats().loads), (1, 1));
        }
    });
}

/// No load has a value, so whoever cannot use what it has waited for loads next.
#[test]
fn one_load_at_a_time_whatever_they_come_to() {
    must_end(|| {
        for run in EXECUTORS {
            let (cache, inside) = (cache(), Arc::new(AtomicUsize::new(0)));
            let mut random = seed(1);
            let mut job = |_| {
                let (cache, inside) = (Arc::clone(&cache), Arc::clone(&inside));
                let kind = draw(&mut random);
                let job = async move {
                    let alone = async {
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two loads at a time");
                        pends((kind >> 8) as u32 % 4).await;
                        inside.fetch_sub(1, SeqCst);
                    };
                    // What each kind of load gets is its own, or of its own kind.
                    match kind % 5 {
                        0 => {
                            let load = async { (alone.await, Err::<u64, String>("a".into())).1 };
                            assert_eq!(*cache.try_get_with(1, load).await.unwrap_err(), "a");
                        }
                        1 => {
                            let load = async { (alone.await, Err::<u64, u8>(9)).1 };
                            assert_eq!(*cache.try_get_with_by_ref(&1, load).await.unwrap_err(), 9);
                        }
                        2 => {
                            let load = async { (alone.await, None).1 };
                            assert_eq!(cache.optionally_get_with(1, load).await, None);
                        }
                        3 => {
                            let load = async { (alone.await, None::<Loaded<u64>>).1 };
                            assert_eq!(cache.load(1, load).await, None);
                        }
                        _ => {
                            let load = async { (alone.await, Err::<Loaded<u64>, u8>(9)).1 };
                            let loaded = cache.entry(1).or_load_with(load).await;
                            assert_eq!(*loaded.unwrap_err(), 9);
                        }
                    }
                    1_u64
                };
                Box::pin(job) as _
            };
            assert_eq!(run((0..TASKS).map(&mut job).collect()), [1; TASKS]);
            let stats = cache.stats();
            assert_eq!((inside.load(SeqCst), stats.loads, cache.entry_count()), (0, 0, 0));
            assert!((1..=TASKS as u64).contains(&stats.load_failures));
        }
    });
}

async fn own<T>() -> T {
    unreachable!("another task loads")
}

#[test]
fn errors_and_absences_are_shared() {
    must_end(|| {
        let (cache, gate) = (cache(), Gate::default());
        let leader = Task::waiting(cache.try_get_with(1, async {
            gate.passed().await;
            Err::<u64, String>("refused".into())
        }));
        let mut waiters: Vec<_> =
            (0..5).map(|_| Task::waiting(cache.try_get_with(1, own()))).collect();
        waiters.push(Task::waiting(cache.try_get_with_by_ref(&1, own())));
        gate.open();
        let error = leader.end().unwrap_err();
        for waiter in waiters {
            assert!(Arc::ptr_eq(&error, &waiter.end().unwrap_err()));
        }

        let gate = Gate::default();
        let leader =
            Task::waiting(cache.optionally_get_with(1, async { (gate.passed().await, None).1 }));
        let optional = Task::waiting(cache.optionally_get_with(1, own()));
        let by_ref = Task::waiting(cache.optionally_get_with_by_ref(&1, own()));
        let entry = Task::waiting(cache.entry(1).or_optionally_insert_with(own()));
        // This one needs a value, and loads next.
        let needy = Task::waiting(cache.get_with(1, async { 8 }));
        gate.open();
        assert_eq!((leader.end(), optional.end(), by_ref.end()), (None, None, None));
        assert!(entry.end().is_none());
        assert_eq!(needy.end(), 8);
        let stats = cache.stats();
        assert_eq!((stats.loads, stats.load_failures), (1, 2));
    });
}

#[test]
fn a_value_is_shared_by_loads_of_all_kinds() {
    must_end(|| {
        let (cache, gate) = (cache(), Gate::default());
        let leader = Task::waiting(cache.load(1, async {
            gate.passed().await;
            Loaded::with_ttl(5, std::time::Duration::ZERO)
        }));
        let plain = Task::waiting(cache.get_with(1, own()));
        let by_ref = Task::waiting(cache.get_with_by_ref(&1, own()));
        let optional = Task::waiting(cache.optionally_get_with(1, own()));
        let fallible = Task::waiting(cache.try_get_with::<_, String>(1, own()));
        let entry = Task::waiting(cache.entry_by_ref(&1).or_insert_with(own()));
        let refresh = Task::waiting(cache.entry(1).or_insert_with_if(own(), |_| true));
        // A computation waits too, and finds nothing: a lifetime of zero is not kept.
        let update = Task::waiting(
            cache
                .entry(1)
                .and_upsert_with(|entry| async move { entry.map_or(100, |value| *value) }),
        );
        gate.open();
        assert_eq!((leader.end(), plain.end(), by_ref.end()), (5, 5, 5));
        assert_eq!((optional.end(), fallible.end(), *entry.end()), (Some(5), Ok(5), 5));
        assert_eq!((*refresh.end(), *update.end()), (5, 100));
    });
}

/// Those who come after an invalidation do not get what was loaded before it.
#[test]
fn an_overtaken_load_is_not_joined() {
    must_end(|| {
        let (cache, gate) = (cache(), Gate::default());
        let old = Task::waiting(cache.get_with(1, async { (gate.passed().await, 1).1 }));
        let joined = Task::waiting(cache.get_with(1, async { 2 }));
        block_on(cache.invalidate(&1));
        assert_eq!(block_on(cache.get_with(1, async { 3 })), 3);
        gate.open();
        // The leader finds the younger value; who had joined it may get either.
        assert_eq!(old.end(), 3);
        assert_eq!(joined.end(), 3);
        assert_eq!(block_on(cache.get(&1)), Some(3));
    });
}
