//! Listeners that await.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::{kept as common_kept, must_end};
use crate::hand::{Boxed, Gate, Task, at_once, pends};
use cortado::future::{Cache, FutureExt};
use cortado::{Op, Overflow, RemovalCause};
use pollster::block_on;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll};

pub type Shared = Arc<TasksAudited<u64, u64>>;

/// What listeners were told, in order: keys, values, causes.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(u64, u64, RemovalCause)>>>);

impl Log {
    pub fn note(&self, key: u64, value: u64, cause: RemovalCause) {
        self.0.lock().unwrap().push((key, value, cause));
    }

    pub fn values(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|told| told.1).collect()
    }
}

/// A cache with listeners that await. Each begins by what it is given.
pub fn cache(
    listeners: usize,
    begin: impl Fn(u64, u64, RemovalCause) -> Boxed<'static, ()> + Clone + Send + Sync + 'static,
) -> Shared {
    let mut builder = Cache::builder().max_capacity(1000).record_stats(true);
    for _ in 0..listeners {
        let begin = begin.clone();
        builder =
            builder.async_eviction_listener(move |key, value, cause| begin(*key, value, cause));
    }
    Arc::new(tasks_audited(builder.build()))
}

/// One whose listener gets the cache, too.
pub fn cache_of_user(
    begin: impl Fn(Shared, u64, u64, RemovalCause) -> Boxed<'static, ()> + Clone + Send + Sync + 'static,
) -> Shared {
    let slot: Arc<OnceLock<Weak<TasksAudited<u64, u64>>>> = Arc::default();
    let there = Arc::clone(&slot);
    let cache = cache(1, move |key, value, cause| {
        begin(there.get().unwrap().upgrade().unwrap(), key, value, cause)
    });
    slot.set(Arc::downgrade(&cache)).unwrap();
    cache
}

/// One that notes what it is told after some polls.
pub fn noting(log: &Log, polls: u32) -> Shared {
    let log = log.clone();
    cache(1, move |key, value, cause| {
        let log = log.clone();
        async move {
            pends(polls).await;
            log.note(key, value, cause);
        }
        .boxed()
    })
}

#[test]
fn an_operation_ends_after_its_listener() {
    must_end(|| {
        let log = Log::default();
        let cache = noting(&log, 2);
        at_once(cache.insert(1, 1));
        let mut insert = Task::waiting(cache.insert(1, 2));
        // The write itself has happened.
        assert_eq!(cache.sync().peek(&1).map(|value| *value), Some(2));
        assert_eq!(log.values(), []);
        assert!(!insert.poll() && insert.poll());
        block_on(cache.remove(&1));
        let told = log.0.lock().unwrap().clone();
        assert_eq!(told, [(1, 1, RemovalCause::Replaced), (1, 2, RemovalCause::Explicit)]);
    });
}

/// Many tasks at once; per key in order, one at a time.
#[test]
fn removals_of_a_key_are_told_in_their_order_and_one_at_a_time() {
    must_end(|| {
        let log = Log::default();
        let inside = Arc::new(AtomicUsize::new(0));
        let cache = {
            let log = log.clone();
            cache(1, move |key, value, cause| {
                let (log, inside) = (log.clone(), Arc::clone(&inside));
                async move {
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two at a time");
                    tokio::task::yield_now().await;
                    log.note(key, value, cause);
                    inside.fetch_sub(1, SeqCst);
                }
                .boxed()
            })
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        runtime.block_on(async {
            let writers = (0..4).map(|key| {
                let cache = Arc::clone(&cache);
                tokio::spawn(async move {
                    for value in 0..500 {
                        cache.insert(key, value).await;
                        if value % 5 == 0 {
                            cache.invalidate(&key).await;
                        }
                    }
                })
            });
            for writer in writers.collect::<Vec<_>>() {
                writer.await.unwrap();
            }
            cache.run_pending_tasks().await;
        });
        let mut next = HashMap::new();
        for &(key, value, _) in log.0.lock().unwrap().iter() {
            assert_eq!(std::mem::replace(next.entry(key).or_insert(0), value + 1), value);
        }
        // The last ones are still there.
        assert_eq!(next, (0..4).map(|key| (key, 499)).collect());
        assert_eq!(cache.stats().listener_panics, 0);
    });
}

#[test]
fn the_next_operation_resumes_the_notice_of_one_that_was_dropped() {
    must_end(|| {
        let log = Log::default();
        let cache = noting(&log, 3);
        at_once(cache.insert_many([(1, 1), (2, 2), (3, 3)]));
        let mut remove = Task::waiting(cache.remove(&1));
        assert!(!remove.poll());
        // While one is at it, others leave their removals to it.
        at_once(cache.invalidate(&2));
        drop(remove);
        // Two of the four polls were made; the notice is not begun again.
        let mut get = Task::waiting(cache.get(&3));
        assert!(get.poll());
        assert_eq!(log.values(), [1]);
        drop(Task::waiting(cache.touch(&3)));
        block_on(cache.touch(&3));
        assert_eq!(log.values(), [1, 2]);
    });
}

#[test]
fn a_driver_that_is_dropped_leaves_its_count_of_panics() {
    must_end(|| {
        let cache = cache(1, |_, value, _| {
            assert_ne!(value, 1);
            pends(3).boxed()
        });
        cache.sync().insert_many((1..=3).map(|value| (1, value)));
        drop(Task::waiting(cache.get(&1)));
        block_on(cache.get(&1));
        assert_eq!(cache.stats().listener_panics, 1);
    });
}

#[test]
fn run_pending_tasks_tells_what_threads_have_left() {
    must_end(|| {
        let log = Log::default();
        let cache = noting(&log, 1);
        let sync = cache.sync();
        (0..300).for_each(|n| sync.insert(n % 3, n));
        sync.invalidate_all();
        sync.run_pending_tasks();
        assert_eq!(log.values(), []);
        block_on(cache.run_pending_tasks());
        assert_eq!(log.values().len(), 300);
        block_on(cache.insert(1, 1));
        block_on(cache.close());
        assert_eq!(log.values().last(), Some(&1));
    });
}

/// A listener may wait for what that future holds. One of a hit tells one notice.
#[test]
fn a_hit_drops_the_future_that_it_does_not_need_before_it_tells() {
    must_end(|| {
        let (held, told) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let (of_listener, tells) = (Arc::downgrade(&held), Arc::clone(&told));
        let cache = cache(1, move |_, _, _| {
            assert_eq!(of_listener.strong_count(), 1, "the future is still there");
            tells.fetch_add(1, SeqCst);
            Box::pin(async {})
        });
        (0..3).for_each(|value| cache.sync().insert(1, value));
        let load = |held: Arc<()>| async move {
            drop(held);
            5
        };
        assert_eq!(block_on(cache.get_with(1, load(Arc::clone(&held)))), 2);
        assert_eq!(told.load(SeqCst), 1);
        let entry = block_on(cache.entry(1).or_insert_with(load(Arc::clone(&held))));
        assert_eq!((*entry, told.load(SeqCst), cache.stats().listener_panics), (2, 2, 0));
    });
}

/// The future of a listener that panics when it is dropped.
struct FailsAtEnd;

impl Future for FailsAtEnd {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Drop for FailsAtEnd {
    fn drop(&mut self) {
        panic!("when it is dropped");
    }
}

/// Each way in which a listener may fail is counted, and the next removal is told.
#[test]
fn panics_are_caught_and_counted() {
    must_end(|| {
        let log = Log::default();
        let noted = log.clone();
        let cache = cache(1, move |key, value, cause| {
            assert_ne!(value % 10, 1, "when it is called");
            if value % 10 == 4 {
                return Box::pin(FailsAtEnd);
            }
            let log = noted.clone();
            async move {
                assert_ne!(value % 10, 2, "at the first poll");
                pends(1).await;
                assert_ne!(value % 10, 3, "at the second poll");
                log.note(key, value, cause);
            }
            .boxed()
        });
        for value in 1..=30 {
            block_on(cache.insert(1, value));
        }
        block_on(cache.remove(&1));
        let kept: Vec<_> = (1..=30).filter(|value| ![1, 2, 3, 4].contains(&(value % 10))).collect();
        assert_eq!(log.values(), kept);
        assert_eq!(cache.stats().listener_panics, 12);
    });
}

#[test]
fn a_listener_may_use_the_cache() {
    must_end(|| {
        let log = Log::default();
        let noted = log.clone();
        let cache = cache_of_user(move |cache, key, value, cause| {
            let log = noted.clone();
            async move {
                log.note(key, value, cause);
                cache.get(&key).await;
                if value > 0 {
                    // These cause further removals, which this listener is told next.
                    cache.insert(100 + key, value - 1).await;
                    cache.remove(&(100 + key)).await;
                    cache.entry(key).and_upsert_with(|_| async move { value + 50 }).await;
                    cache.run_pending_tasks().await;
                }
                cache.get_with(key, async { 7 }).await;
            }
            .boxed()
        });
        block_on(cache.insert(1, 3));
        block_on(cache.remove(&1));
        assert_eq!(log.values(), [3, 2, 1, 0]);
        let values: HashMap<_, _> = cache.iter().map(|(key, value)| (*key, value)).collect();
        assert_eq!(values, [(1, 53), (101, 52), (201, 51), (301, 7)].into());
        assert_eq!(cache.stats().listener_panics, 0);
    });
}

/// A listener may write any key. So an operation within a load or a computation, which owns its
/// key, leaves what waits to the operation around it.
#[test]
fn an_operation_inside_a_computation_awaits_no_listener() {
    must_end(|| {
        for is_load in [true, false] {
            let told = Arc::new(AtomicUsize::new(0));
            let tells = Arc::clone(&told);
            let cache = cache_of_user(move |cache, key, _, _| {
                let told = Arc::clone(&tells);
                async move {
                    if key != 1 {
                        cache.entry(1).and_upsert_with(|_| async { 1000 }).await;
                        told.fetch_add(1, SeqCst);
                    }
                }
                .boxed()
            });
            block_on(cache.insert_many([(2, 2), (3, 3)]));
            // Somebody else leaves something to tell.
            cache.sync().invalidate(&2);
            let inside = async {
                cache.get(&3).await;
                pends(1).await;
                cache.remove(&3).await;
                cache.get(&3).await;
                assert_eq!(told.load(SeqCst), 0);
                5
            };
            if is_load {
                assert_eq!(block_on(cache.get_with(1, inside)), 5);
            } else {
                let put = |_| async { Op::Put(inside.await) };
                block_on(cache.entry(1).and_compute_with(put));
            }
            assert_eq!((told.load(SeqCst), at_once(cache.get(&1))), (2, Some(1000)));
            assert_eq!(cache.stats().listener_panics, 0);
        }
    });
}

/// Each listener is told everything, beside others of both kinds.
#[test]
fn several_listeners_are_told() {
    must_end(|| {
        let logs: [Log; 3] = Default::default();
        let mut builder = Cache::builder().max_capacity(100).record_stats(true);
        for (at, log) in logs.iter().enumerate() {
            let log = log.clone();
            builder = match at {
                1 => builder.removal_listener(move |removed: cortado::Removed<u64, u64>| {
                    log.note(*removed.key(), *removed.value(), removed.cause());
                }),
                _ => builder.async_eviction_listener(move |key, value, cause| {
                    let log = log.clone();
                    let polls = at as u32;
                    async move {
                        pends(polls).await;
                        assert_ne!((at, value), (0, 3));
                        log.note(*key, value, cause);
                    }
                    .boxed()
                }),
            };
        }
        let cache = tasks_audited(builder.build());
        (0..6).for_each(|value| block_on(cache.insert(1, value)));
        assert_eq!(logs[0].values(), [0, 1, 2, 4]);
        assert_eq!(logs[1].values(), [0, 1, 2, 3, 4]);
        assert_eq!(logs[2].values(), [0, 1, 2, 3, 4]);
        assert_eq!(cache.stats().listener_panics, 1);
    });
}

/// The writes of a listener that awaits are not held back, though another thread is in a further
/// listener and notices wait.
#[test]
fn a_write_of_a_listener_is_not_held_back() {
    must_end(|| {
        let slot = Arc::new(OnceLock::<Cache<u64, u64>>::new());
        let ((begun, beginning), (go, going)) = (channel(), channel::<()>());
        let (inner, going) = (Arc::clone(&slot), Mutex::new(going));
        let builder = Cache::builder().notification_limit(0, Overflow::Wait);
        let builder = builder.async_eviction_listener(move |key: Arc<u64>, _: u64, _| {
            let inner = Arc::clone(&inner);
            let writes = async move {
                if *key == 0 {
                    inner.get().unwrap().insert(9, 1).await;
                }
            };
            writes.boxed()
        });
        // It comes second: the first one has been told by then.
        let builder = builder.removal_listener(move |_| {
            begun.send(()).unwrap();
            let _ = going.lock().unwrap().recv();
        });
        let cache = tasks_audited(builder.build());
        slot.set(cache.clone()).unwrap();
        cache.sync().insert_many([(0, 0), (9, 0)]);
        let removes = cache.sync().clone();
        let thread = std::thread::spawn(move || removes.invalidate(&0));
        beginning.recv().unwrap();
        // It polls the listener, whose write leaves a notice behind the one that is being told.
        at_once(cache.get(&5));
        assert_eq!(cache.sync().peek(&9).map(|value| *value), Some(1));
        drop(go);
        thread.join().unwrap();
        common_kept(cache.clone());
    });
}

/// Each listener awaits a write of the other's cache, while tasks that write are held back.
#[test]
fn listeners_of_two_caches_may_write_to_each_other() {
    must_end(|| {
        type Other = Arc<OnceLock<Weak<TasksAudited<u64, u64>>>>;
        let gate = Gate::default();
        let make = |other: &Other| {
            let (other, gate) = (Arc::clone(other), gate.clone());
            let listener = move |key: Arc<u64>, _, _| {
                let (other, gate) = (Arc::clone(&other), gate.clone());
                Box::pin(async move {
                    if *key == 0 {
                        gate.passed().await;
                        let other = other.get().unwrap().upgrade().unwrap();
                        other.insert(9, 1).await;
                    }
                }) as Pin<Box<dyn Future<Output = ()> + Send>>
            };
            let builder = Cache::builder().notification_limit(0, Overflow::Wait);
            Arc::new(tasks_audited(builder.async_eviction_listener(listener).build()))
        };
        let (of_a, of_b) = (Other::default(), Other::default());
        let (a, b) = (make(&of_b), make(&of_a));
        of_a.set(Arc::downgrade(&a)).unwrap();
        of_b.set(Arc::downgrade(&b)).unwrap();
        for cache in [&a, &b] {
            cache.sync().insert_many([(0, 0), (9, 0)]);
        }
        let tasks = [Task::waiting(a.insert(0, 1)), Task::waiting(b.insert(0, 1))];
        gate.open();
        tasks.into_iter().for_each(Task::end);
    });
}
