//! Threads and tasks that wait for each other on one flight, and wakers of every kind.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::noted::eventually;
use crate::common::{must_end, panic_of};
use crate::hand::{Boxed, Gate, Task, at_once, pends};
use cortado::Op;
use cortado::future::Cache;
use futures_util::join;
use pollster::block_on;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

type Shared = Arc<TasksAudited<u64, u64>>;

const OWN_KEY: &str = "a load or computation waits for its own key";

fn cache() -> Shared {
    Arc::new(tasks_audited(Cache::builder().max_capacity(100).record_stats(true).build()))
}

/// Waits until the entry of the key is in use, by a thread that has come to wait for it.
fn on_a_thread<T: Send + 'static>(
    cache: &Shared,
    call: impl FnOnce(&cortado::Cache<u64, u64>) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let (cache, (begun, beginning)) = (Arc::clone(cache), channel());
    let thread = thread::spawn(move || {
        begun.send(()).unwrap();
        call(cache.sync())
    });
    beginning.recv().unwrap();
    // It may have come to its wait by now, or come to it later.
    (0..100).for_each(|_| thread::yield_now());
    thread
}

#[test]
fn threads_wait_for_a_tasks_load() {
    must_end(|| {
        let cache = cache();
        let gate = Gate::default();
        let leader = Task::waiting(cache.get_with(1, async { (gate.passed().await, 7).1 }));
        let gets = [0; 3].map(|_| on_a_thread(&cache, |cache| cache.get_with(1, || 8)));
        let update = on_a_thread(&cache, |cache| {
            *cache.entry(1).and_upsert_with(|entry| entry.map_or(0, |value| *value + 100))
        });
        gate.open();
        assert_eq!(leader.end(), 7);
        for get in gets {
            assert!([7, 107].contains(&get.join().unwrap()));
        }
        assert_eq!(update.join().unwrap(), 107);
    });
}

#[test]
fn a_thread_takes_over_a_tasks_load() {
    must_end(|| {
        let cache = cache();
        let leader = Task::waiting(cache.get_with(1, pending()));
        let get = on_a_thread(&cache, |cache| cache.get_with(1, || 8));
        drop(leader);
        assert_eq!(get.join().unwrap(), 8);
    });
}

/// A thread that loads or computes until it is told to go on.
fn held(
    cache: &Shared,
    call: fn(&cortado::Cache<u64, u64>, &dyn Fn()),
) -> (impl FnOnce() + use<>, thread::JoinHandle<()>) {
    let ((begun, beginning), (go, going)) = (channel(), channel());
    let cache = Arc::clone(cache);
    let thread = thread::spawn(move || {
        call(cache.sync(), &|| {
            begun.send(()).unwrap();
            going.recv().unwrap();
        });
    });
    beginning.recv().unwrap();
    (move || go.send(()).unwrap(), thread)
}

#[test]
fn tasks_wait_for_a_threads_load() {
    must_end(|| {
        let cache = cache();
        let (go, thread) = held(&cache, |cache, hold| {
            cache.get_with(1, || {
                hold();
                7
            });
        });
        let waiters: Vec<_> =
            (0..3).map(|_| Task::waiting(cache.get_with(1, async { 8 }))).collect();
        go();
        for waiter in waiters {
            eventually("the thread wakes the task", || waiter.is_woken());
            assert_eq!(waiter.end(), 7);
        }
        thread.join().unwrap();
    });
}

#[test]
fn tasks_take_over_a_threads_load_that_panics() {
    must_end(|| {
        let cache = cache();
        let (go, thread) = held(&cache, |cache, hold| {
            panic_of(|| {
                cache.get_with(1, || {
                    hold();
                    panic!("a load fails")
                })
            });
        });
        let waiter = Task::waiting(cache.get_with(1, async { 8 }));
        go();
        eventually("the thread wakes the task", || waiter.is_woken());
        assert_eq!(waiter.end(), 8);
        thread.join().unwrap();
    });
}

#[test]
fn threads_write_after_a_tasks_computation() {
    must_end(|| {
        let cache = cache();
        let gate = Gate::default();
        let computation = |_| async { (gate.passed().await, Op::Put(1)).1 };
        let owner = Task::waiting(cache.entry(1).and_compute_with(computation));
        let insert = on_a_thread(&cache, |cache| cache.insert(1, 2));
        assert!(!insert.is_finished() && !cache.contains_key(&1));
        gate.open();
        assert_eq!(*owner.end().unwrap(), 1);
        insert.join().unwrap();
        assert_eq!(at_once(cache.get(&1)), Some(2));
    });
}

#[test]
fn tasks_write_after_a_threads_computation() {
    must_end(|| {
        let cache = cache();
        let (go, thread) = held(&cache, |cache, hold| {
            cache.entry(1).and_upsert_with(|_| {
                hold();
                1
            });
        });
        let mut insert = Task::waiting(cache.insert(1, 2));
        let add = |entry: Option<cortado::Entry<u64, u64>>| async move { *entry.unwrap() + 10 };
        let update = Task::waiting(cache.entry(1).and_upsert_with(add));
        go();
        eventually("the thread wakes the tasks", || insert.is_woken() && update.is_woken());
        insert.run();
        assert_eq!(*update.end(), 12);
        thread.join().unwrap();
    });
}

/// Without an entry there is nothing to change, and so nothing to wait for. With one there may be.
#[test]
fn a_change_of_a_lifetime_awaits_a_computation_of_an_entry() {
    use std::time::{Duration, Instant};
    for has_entry in [false, true] {
        let cache = cache();
        if has_entry {
            at_once(cache.insert(1, 1));
        }
        let gate = Gate::default();
        let compute = |_| async { (gate.passed().await, Op::Put(7)).1 };
        let computation = Task::waiting(cache.entry(1).and_compute_with(compute));
        let minute = Duration::from_secs(60);
        let changes: [Boxed<'_, bool>; 3] = [
            Box::pin(cache.set_ttl(&1, minute)),
            Box::pin(cache.set_expires_at(&1, Instant::now() + minute)),
            Box::pin(cache.persist(&1)),
        ];
        if has_entry {
            let changes = changes.map(Task::waiting);
            gate.open();
            computation.end();
            assert_eq!(changes.map(Task::end), [true; 3]);
        } else {
            assert_eq!(changes.map(at_once), [false; 3]);
            gate.open();
            computation.end();
        }
    }
}

#[test]
fn two_gets_of_one_key_in_one_task_share_a_load() {
    must_end(|| {
        let cache = cache();
        let loads = AtomicU64::new(0);
        let load = || async { (pends(2).await, loads.fetch_add(1, SeqCst)).1 };
        let both = async { join!(cache.get_with(1, load()), cache.get_with(1, load())) };
        assert_eq!(block_on(both), (0, 0));
        assert_eq!(loads.load(SeqCst), 1);
        let add = |entry: Option<cortado::Entry<u64, u64>>| async move {
            pends(2).await;
            entry.map_or(0, |value| *value) + 1
        };
        let both = async {
            join!(cache.entry(2).and_upsert_with(add), cache.entry(2).and_upsert_with(add))
        };
        let (first, second) = block_on(both);
        assert_eq!((*first, *second), (1, 2));
        // A read, a write and a computation of one key.
        let all =
            async { join!(cache.entry(2).and_upsert_with(add), cache.get(&2), cache.insert(2, 9)) };
        let (third, read, ()) = block_on(all);
        assert_eq!((*third, read, at_once(cache.get(&2))), (3, Some(2), Some(9)));
    });
}

/// The message of the panic of a task that waits for itself. It is polled to its end.
fn refused<T>(future: impl Future<Output = T> + Send) {
    assert_eq!(panic_of(|| Task::new(future).end()), OWN_KEY);
}

#[test]
fn a_future_that_asks_for_its_own_key_panics() {
    must_end(|| {
        let cache = cache();
        for polls in 0..3 {
            let c = &**cache;
            refused(
                c.get_with(1, async { (pends(polls).await, c.get_with(1, async { 1 }).await).1 }),
            );
            refused(c.get_with(1, async { (pends(polls).await, c.sync().get_with(1, || 1)).1 }));
            refused(c.get_with(1, async {
                pends(polls).await;
                *c.entry(1).and_upsert_with(|_| async { 1 }).await
            }));
            refused(c.entry(1).and_upsert_with(|_| async {
                pends(polls).await;
                c.insert(1, 1).await;
                1
            }));
            refused(c.entry(1).and_upsert_with(|_| async {
                pends(polls).await;
                c.sync().insert(1, 1);
                1
            }));
            refused(c.entry(1).and_upsert_with(|_| async {
                pends(polls).await;
                c.remove(&1).await.unwrap_or(1)
            }));
            // In the closure itself.
            refused(c.entry(1).and_upsert_with(|_| {
                c.sync().insert(1, 1);
                async { 1 }
            }));
            // By way of another key.
            refused(c.get_with(1, c.get_with(2, c.get_with(1, async { 1 }))));
            at_once(c.insert(1, 5));
            assert_eq!(at_once(c.remove(&1)), Some(5));
            at_once(c.get_with(2, async { 1 }));
            at_once(c.invalidate(&2));
        }
        // A load's own key may be written.
        let load = cache.get_with(1, async { (cache.insert(1, 3).await, 4).1 });
        assert_eq!(at_once(load), 3);
    });
}

/// Those who waited for a future that panics go on.
#[test]
fn a_future_that_panics_hands_over() {
    must_end(|| {
        let cache = cache();
        let mut leader = Task::waiting(cache.get_with(1, async {
            pends(1).await;
            panic!("a load fails")
        }));
        let waiter = Task::waiting(cache.get_with(1, async { 2 }));
        assert_eq!(panic_of(|| leader.poll()), "a load fails");
        assert_eq!(waiter.end(), 2);
        let mut owner = Task::waiting(cache.entry(1).and_upsert_with(|_| async {
            pends(1).await;
            panic!("a computation fails")
        }));
        let waiter = Task::waiting(cache.insert(1, 3));
        assert_eq!(panic_of(|| owner.poll()), "a computation fails");
        waiter.end();
        assert_eq!(at_once(cache.get(&1)), Some(3));
    });
}

/// A waker that does something of the test's.
struct Does<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn poll_with(
    future: &mut (impl Future<Output = u64> + Unpin),
    wakes: impl Fn() + Send + Sync + 'static,
) -> Poll<u64> {
    let waker = Waker::from(Arc::new(Does(wakes)));
    std::pin::Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// No lock is held, and the flight is off the board.
#[test]
fn a_waker_may_use_the_cache() {
    must_end(|| {
        for is_dropped in [false, true] {
            let cache = cache();
            let gate = Gate::default();
            let mut leader = Task::waiting(cache.get_with(1, async { (gate.passed().await, 1).1 }));
            let used = Arc::new(AtomicU64::new(0));
            let mut waiter = pin!(cache.get_with(1, pending()));
            let (other, uses) = (Arc::clone(&cache), Arc::clone(&used));
            let poll = poll_with(&mut waiter, move || {
                let cache = other.sync();
                assert_eq!(cache.get_with(1, || 2), if is_dropped { 2 } else { 1 });
                cache.insert(1, 3);
                cache.entry(1).and_upsert_with(|_| 4);
                cache.run_pending_tasks();
                cache.invalidate_all();
                cache.audit();
                uses.fetch_add(1, SeqCst);
            });
            assert!(poll.is_pending());
            if is_dropped {
                drop(leader);
            } else {
                gate.open();
                leader.run();
            }
            assert_eq!(used.load(SeqCst), 1, "the waker panicked");
        }
    });
}

/// A task that is polled within `wake`.
struct Inline(Mutex<Option<Boxed<'static, ()>>>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let Some(mut future) = self.0.lock().unwrap().take() else { return };
        let waker = Waker::from(Arc::clone(&self));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.0.lock().unwrap() = Some(future);
        }
    }
}

#[test]
fn an_executor_may_poll_within_wake() {
    must_end(|| {
        for is_load in [true, false] {
            let (cache, gate) = (cache(), Gate::default());
            let passed = gate.passed();
            let leader = Task::waiting(async {
                if is_load {
                    cache.get_with(1, async { (passed.await, 1).1 }).await;
                } else {
                    cache.entry(1).and_upsert_with(|_| async { (passed.await, 1).1 }).await;
                }
            });
            let results = Arc::new(Mutex::new(Vec::new()));
            for waiter in 0..3 {
                let (cache, results) = (Arc::clone(&cache), Arc::clone(&results));
                let waits = async move {
                    let seen = cache.get_with(1, async { 2 }).await;
                    cache.entry(1).and_upsert_with(|_| async { seen + 1 }).await;
                    results.lock().unwrap().push((waiter, seen));
                };
                Arc::new(Inline(Mutex::new(Some(Box::pin(waits))))).wake();
            }
            gate.open();
            leader.end();
            let mut results = results.lock().unwrap().clone();
            results.sort_unstable();
            let waiters: Vec<_> = results.iter().map(|result| result.0).collect();
            assert_eq!(waiters, [0, 1, 2], "{is_load}");
            assert!(results.iter().all(|result| result.1 < 5));
        }
    });
}

#[test]
fn a_waker_that_panics_harms_nobody() {
    must_end(|| {
        for is_dropped in [false, true] {
            let (cache, gate) = (cache(), Gate::default());
            let mut leader = Task::waiting(cache.get_with(1, async { (gate.passed().await, 1).1 }));
            let first = Task::waiting(cache.get_with(1, async { 2 }));
            let mut damaged = pin!(cache.get_with(1, pending()));
            assert!(poll_with(&mut damaged, || panic!("a waker fails")).is_pending());
            let last = Task::waiting(cache.get_with(1, async { 2 }));
            if is_dropped {
                drop(leader);
            } else {
                gate.open();
                assert!(leader.poll());
            }
            assert!(first.is_woken() && last.is_woken());
            let value = if is_dropped { 2 } else { 1 };
            assert_eq!((first.end(), last.end()), (value, value));
            // It was woken in vain, but may be polled.
            assert_eq!(poll_with(&mut damaged, || {}), Poll::Ready(value));
        }
    });
}

/// Frames of user code end in the order of a stack: a debug assertion checks that.
#[test]
fn a_load_within_a_load_lands() {
    let cache = cache();
    let inner = |cache: &Shared| {
        let cache = Arc::clone(cache);
        async move { cache.get_with(2, async { 20 }).await }
    };
    let outer = async { inner(&cache).await + 1 };
    assert_eq!(block_on(cache.get_with(1, outer)), 21);
    let computed = cache.entry(3).and_upsert_with(|_| async { inner(&cache).await + 10 });
    assert_eq!(*block_on(computed), 30);
    cache.sync().invalidate(&2);
    let computed = cache.entry(4).and_upsert_with(|_| async { inner(&cache).await + 20 });
    assert_eq!(*block_on(computed), 40);
}
