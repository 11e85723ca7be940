//! While a future of a load or a computation is polled, nothing is delivered on that thread: a
//! synchronous listener that wrote the key would wait for the very task.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::{must_end, panic_of};
use crate::hand::{Task, at_once, pends};
use cortado::Op;
use cortado::future::Cache;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

/// The key that the listener writes.
const KEY: u64 = 1;

struct Bench {
    cache: Arc<TasksAudited<u64, u64>>,
    told: Arc<AtomicU64>,
}

/// A cache whose synchronous listener writes the key whenever another one's value leaves.
fn bench() -> Bench {
    let slot: Arc<OnceLock<std::sync::Weak<TasksAudited<u64, u64>>>> = Arc::default();
    let told = Arc::new(AtomicU64::new(0));
    let (there, tells) = (Arc::clone(&slot), Arc::clone(&told));
    let cache = Arc::new(tasks_audited(
        Cache::builder()
            .record_stats(true)
            .removal_listener(move |removed: cortado::Removed<u64, u64>| {
                if *removed.key() != KEY
                    && let Some(cache) = there.get().and_then(std::sync::Weak::upgrade)
                {
                    cache.sync().insert(KEY, 1000 + tells.fetch_add(1, SeqCst));
                }
            })
            .build(),
    ));
    slot.set(Arc::downgrade(&cache)).unwrap();
    Bench { cache, told }
}

impl Bench {
    /// Something leaves, within the future of a load or a computation.
    async fn replace_another(&self) {
        self.cache.insert(2, 1).await;
        self.cache.insert(2, 2).await;
        self.cache.remove(&2).await;
    }

    fn told(&self) -> u64 {
        self.told.load(SeqCst)
    }
}

/// A listener that counts, and that must be told when nobody holds this any more.
fn told_without(
    held: &Arc<()>,
) -> (impl Fn(cortado::Removed<u64, u64>) + Send + Sync + use<>, Arc<AtomicU64>) {
    let (held, told) = (Arc::downgrade(held), Arc::new(AtomicU64::new(0)));
    let tells = Arc::clone(&told);
    let listener = move |_: cortado::Removed<u64, u64>| {
        assert_eq!(held.strong_count(), 0, "the future is still there");
        tells.fetch_add(1, SeqCst);
    };
    (listener, told)
}

#[test]
fn they_wait_for_the_end_of_a_computation() {
    must_end(|| {
        for polls in 0..3 {
            let bench = bench();
            let mut task = Task::new(bench.cache.entry(KEY).and_compute_with(|_| async {
                bench.replace_another().await;
                pends(polls).await;
                bench.replace_another().await;
                Op::Put(5)
            }));
            for _ in 0..polls {
                assert!(!task.poll());
                assert_eq!(bench.told(), 0);
            }
            assert!(task.poll());
            assert_eq!((bench.told(), at_once(bench.cache.get(&KEY))), (4, Some(1003)));
            assert_eq!(bench.cache.stats().listener_panics, 0);
        }
    });
}

/// What that future holds until it is dropped may be what the listener waits for.
#[test]
fn the_future_of_a_computation_is_dropped_before_its_removal_is_told() {
    must_end(|| {
        let held = Arc::new(());
        let (listener, told) = told_without(&held);
        let cache = tasks_audited(Cache::builder().removal_listener(listener).build());
        at_once(cache.insert(KEY, 1));
        let computation = cache.entry(KEY).and_compute_with(|_| {
            poll_fn(move |_| {
                let _held = &held;
                Poll::Ready(Op::Put(2))
            })
        });
        assert_eq!(*at_once(computation).unwrap(), 2);
        assert_eq!((told.load(SeqCst), cache.stats().listener_panics), (1, 0));
    });
}

/// So do those that its polls have left; of one that is cancelled, the next operation tells.
#[test]
fn what_a_computation_has_left_is_told_when_its_future_is_gone() {
    must_end(|| {
        for (fails, cancelled) in [(false, false), (true, false), (false, true)] {
            let held = Arc::new(());
            let (listener, told) = told_without(&held);
            let cache = tasks_audited(Cache::builder().removal_listener(listener).build());
            let inner = (*cache).clone();
            let computation = cache.entry(KEY).and_try_compute_with(|_| {
                poll_fn(move |_| {
                    let _held = &held;
                    (0..2).for_each(|value| inner.sync().insert(KEY + 1, value));
                    let op = if fails { Err(()) } else { Ok(Op::Put(2)) };
                    if cancelled { Poll::Pending } else { Poll::Ready(op) }
                })
            });
            if cancelled {
                drop(Task::waiting(computation));
                assert_eq!(told.load(SeqCst), 0);
                assert_eq!(at_once(cache.get(&9)), None);
            } else {
                assert_eq!(at_once(computation).is_err(), fails);
            }
            assert_eq!((told.load(SeqCst), cache.stats().listener_panics), (1, 0));
        }
    });
}

/// The same for loads of one key and of many that are cancelled: what a future holds across an
/// await may be what the listener waits for. So the next operation tells.
#[test]
fn what_a_cancelled_load_has_left_is_told_when_its_future_is_gone() {
    must_end(|| {
        for is_many in [false, true] {
            let held = Arc::new(());
            let (listener, told) = told_without(&held);
            let slot = Arc::new(Mutex::new(Some(held)));
            let there: Arc<OnceLock<Cache<u64, u64>>> = Arc::default();
            let inner = Arc::clone(&there);
            let holds = move || {
                let (held, cache) = (slot.lock().unwrap().take(), inner.get().unwrap().clone());
                async move {
                    let _held = held;
                    (0..2).for_each(|value| cache.sync().insert(KEY + 1, value));
                    std::future::pending::<()>().await;
                }
            };
            let cache = tasks_audited(Cache::builder().removal_listener(listener).build());
            assert!(there.set(Cache::clone(&cache)).is_ok());
            if is_many {
                drop(Task::waiting(cache.get_many_with([KEY], |_| async {
                    (holds().await, Vec::<(u64, u64)>::new()).1
                })));
            } else {
                drop(Task::waiting(cache.get_with(KEY, async { (holds().await, 1).1 })));
            }
            assert_eq!(told.load(SeqCst), 0, "{is_many}");
            at_once(cache.run_pending_tasks());
            assert_eq!((told.load(SeqCst), cache.stats().listener_panics), (1, 0), "{is_many}");
        }
    });
}

#[test]
fn they_wait_for_the_end_of_a_load() {
    must_end(|| {
        for is_loaded in [true, false] {
            let bench = bench();
            let mut task = Task::new(bench.cache.optionally_get_with(KEY, async {
                bench.replace_another().await;
                pends(1).await;
                is_loaded.then_some(5)
            }));
            assert!(!task.poll());
            assert_eq!(bench.told(), 0);
            assert!(task.poll());
            assert_eq!(bench.told(), 2);
            assert_eq!(task.result(), is_loaded.then_some(5));
        }
    });
}

/// However the flight ends: with the end of the operation, or by the next one.
#[test]
fn they_come_after_a_computation_that_is_dropped_or_fails() {
    must_end(|| {
        for end in 0..4 {
            let bench = bench();
            let mut task = Task::new(bench.cache.entry(KEY).and_try_compute_with(|_| {
                if end == 3 {
                    bench.cache.sync().insert(2, 1);
                    bench.cache.sync().remove(&2);
                    panic!("the closure");
                }
                async {
                    bench.replace_another().await;
                    match end {
                        0 => pends(1).await,
                        1 => return Err(()),
                        _ => panic!("the future"),
                    }
                    Ok(Op::Put(5))
                }
            }));
            match end {
                0 => assert!(!task.poll()),
                1 => assert!(task.poll()),
                2 => assert_eq!(panic_of(|| task.poll()), "the future"),
                _ => assert_eq!(panic_of(|| task.poll()), "the closure"),
            }
            drop(task);
            assert_eq!(bench.told(), if end == 1 { 2 } else { 0 }, "{end}");
            assert_eq!(at_once(bench.cache.get(&9)), None);
            let expected = if end == 3 { 1 } else { 2 };
            assert_eq!(bench.told(), expected, "{end}");
            assert!(at_once(bench.cache.get(&KEY)).is_some());
        }
    });
}

/// Others deliver meanwhile, if they come.
#[test]
fn another_operation_delivers_what_a_pending_future_has_caused() {
    must_end(|| {
        let bench = bench();
        let load = bench.cache.get_with(KEY, async {
            bench.replace_another().await;
            pends(1).await;
            5
        });
        let task = Task::waiting(load);
        assert_eq!(bench.told(), 0);
        at_once(bench.cache.insert(3, 3));
        assert_eq!(bench.told(), 2);
        assert_eq!(task.end(), 1001);
    });
}

/// Each ends its own part of the thread's stack of user code.
#[test]
fn loads_and_computations_may_be_nested() {
    must_end(|| {
        let bench = bench();
        let cache = &bench.cache;
        let inner = async { cache.get_with(4, async { (pends(1).await, 4).1 }).await };
        let middle = async { *cache.entry(3).and_upsert_with(|_| inner).await };
        let outer = cache.get_with(KEY, async {
            bench.replace_another().await;
            let loaded = middle.await;
            assert_eq!(bench.told(), 0);
            loaded
        });
        let mut task = Task::waiting(outer);
        assert!(task.poll());
        // The listener's values came later.
        assert_eq!((task.result(), bench.told()), (4, 2));
        assert_eq!(at_once(cache.get(&KEY)), Some(1001));
    });
}

/// What a load causes in another cache is left to the next operation there.
#[test]
fn those_of_another_cache_wait_for_its_next_operation() {
    must_end(|| {
        for ends in [true, false] {
            let (bench, other) = (bench(), tasks_audited(Cache::new(100)));
            let mut load = Task::new(async {
                let load = other.get_with(7, async {
                    bench.replace_another().await;
                    pends(1).await;
                    7
                });
                load.await
            });
            std::thread::scope(|scope| {
                let polls = || {
                    assert!(!load.poll());
                    assert_eq!(bench.told(), 0);
                };
                scope.spawn(polls).join().unwrap();
            });
            if ends {
                assert_eq!(load.end(), 7);
            } else {
                drop(load);
            }
            assert_eq!(bench.told(), 0, "{ends}");
            assert_eq!(at_once(bench.cache.get(&9)), None);
            assert_eq!(bench.told(), 2, "{ends}");
        }
    });
}
