//! Loads of many keys by one future.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::{must_end, watched};
use crate::hand::{Boxed, Gate, Task, at_once, pends};
use cortado::future::Cache;
use cortado::{Op, TimedOut};
use std::cell::Cell;
use std::future::{Future, Ready, pending, ready};
use std::hash::{Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

type Shared = Arc<TasksAudited<u64, u64>>;

fn shared() -> Shared {
    Arc::new(tasks_audited(Cache::builder().record_stats(true).build()))
}

/// Notes what the loader was asked for, and waits for the gate.
#[derive(Clone, Default)]
struct Squares {
    gate: Gate,
    asked: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Squares {
    fn load(&self, keys: &[&u64]) -> impl Future<Output = Vec<(u64, u64)>> + Send + use<> {
        let keys: Vec<u64> = keys.iter().map(|key| **key).collect();
        self.asked.lock().unwrap().push(keys.clone());
        let gate = self.gate.clone();
        async move {
            gate.passed().await;
            keys.into_iter().map(|key| (key, key * key)).collect()
        }
    }

    fn asked(&self) -> Vec<Vec<u64>> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

#[test]
fn the_loader_is_asked_once_for_all_that_is_missing() {
    must_end(|| {
        let (cache, squares) = (shared(), Squares::default());
        at_once(cache.insert(3, 90));
        let mut task = Task::waiting(cache.get_many_with([1, 3, 2, 1], |keys| {
            let load = squares.load(keys);
            async {
                let mut made = load.await;
                made.push((7, 49)); // not asked for, and kept
                made
            }
        }));
        assert!(!task.poll(), "it waits for its loader");
        squares.gate.open();
        assert_eq!(task.end(), [Some(1), Some(90), Some(4), Some(1)]);
        assert_eq!(squares.asked(), [[1, 2]]);
        assert_eq!(cache.get_many_with_threads(), [Some(1), Some(4), Some(49)]);
        let stats = cache.stats();
        assert_eq!((stats.loads, stats.load_failures), (1, 0));
        let none = cache.get_many_with([1, 2], |_| -> Ready<[(u64, u64); 0]> { unreachable!() });
        assert_eq!(at_once(none), [Some(1), Some(4)]);
    });
}

trait Threads {
    fn get_many_with_threads(&self) -> Vec<Option<u64>>;
}

impl Threads for TasksAudited<u64, u64> {
    /// The squares as a thread reads them.
    fn get_many_with_threads(&self) -> Vec<Option<u64>> {
        self.sync().get_many(&[1, 2, 7])
    }
}

/// Two calls, each of which has begun with a key that the other one wants. Neither waits before its
/// own loads have ended.
#[test]
fn calls_whose_keys_cross_do_not_wait_for_each_other() {
    must_end(|| {
        let (cache, first, second) = (shared(), Squares::default(), Squares::default());
        let mut one = Task::waiting(cache.get_many_with([1, 2], |keys| first.load(keys)));
        let mut two = Task::waiting(cache.get_many_with([3, 2, 1], |keys| second.load(keys)));
        second.gate.open();
        assert!(two.is_woken() && !two.poll(), "it waits for the load of the other one");
        assert_eq!(cache.sync().get(&3), Some(9));
        // A single load and a thread's read join it.
        let mut single = Task::waiting(cache.get_with(2, async { unreachable!() }));
        first.gate.open();
        one.run();
        two.run();
        single.run();
        assert_eq!(one.result(), [Some(1), Some(4)]);
        assert_eq!(two.result(), [Some(9), Some(4), Some(1)]);
        assert_eq!((first.asked(), second.asked()), (vec![vec![1, 2]], vec![vec![3]]));
    });
}

#[test]
fn who_waits_for_a_call_that_is_dropped_loads_the_keys_itself() {
    must_end(|| {
        let (cache, first, second) = (shared(), Squares::default(), Squares::default());
        let dropped = Task::waiting(cache.get_many_with([1, 2, 4], |keys| first.load(keys)));
        let mut many = Task::waiting(cache.get_many_with([2, 1], |keys| second.load(keys)));
        let mut single = Task::waiting(cache.get_with(4, async { 17 }));
        drop(dropped);
        assert!(many.is_woken() && single.is_woken());
        single.run();
        assert!(!many.poll());
        second.gate.open();
        many.run();
        assert_eq!((many.result(), single.result()), (vec![Some(4), Some(1)], 17));
        let asked: Vec<u64> = second.asked().into_iter().flatten().collect();
        assert_eq!(asked, [2, 1], "in one call or two");
    });
}

#[test]
fn neither_an_error_nor_an_absent_key_is_shared() {
    must_end(|| {
        let (cache, gate) = (shared(), Gate::default());
        let fails = |_: &[&u64]| async {
            gate.passed().await;
            Err::<[(u64, u64); 0], _>("refused")
        };
        let mut one = Task::waiting(cache.try_get_many_with([1, 2], fails));
        let mut joins = Task::waiting(cache.try_get_with(2, async { Err("its own") }));
        gate.open();
        one.run();
        joins.run();
        assert_eq!(*one.result().unwrap_err(), "refused");
        assert_eq!(*joins.result().unwrap_err(), "its own");
        let some = cache.get_many_with([1, 2, 3], |_| ready([(2, 20)]));
        assert_eq!(at_once(some), [None, Some(20), None]);
        assert_eq!(cache.stats().load_failures, 2);
    });
}

thread_local! {
    /// Comparisons of [`Compared`] on this thread.
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

/// A key that counts its comparisons.
#[derive(Clone, Copy, Debug, Eq)]
struct Compared(u64);

impl PartialEq for Compared {
    fn eq(&self, other: &Self) -> bool {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0 == other.0
    }
}

impl Hash for Compared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// In whatever order the other loads end, and though the call runs after each of these ends.
#[test]
fn who_waits_for_many_loads_looks_at_each_key_a_few_times() {
    const KEYS: u64 = 300;
    must_end(|| {
        for is_last_first in [false, true] {
            let cache = tasks_audited(Cache::builder().build());
            let gates: Vec<Gate> = (0..KEYS).map(|_| Gate::default()).collect();
            let load = |key: u64| {
                let gate = &gates[key as usize];
                Task::waiting(cache.get_with(Compared(key), async move {
                    gate.passed().await;
                    key
                }))
            };
            let mut loads: Vec<_> = (0..KEYS).map(load).collect();
            let keys = (0..KEYS).map(Compared);
            let mut many =
                Task::waiting(cache.get_many_with(keys, |_| -> Ready<[(Compared, u64); 0]> {
                    unreachable!("all are loaded")
                }));
            let (mut order, mut compared): (Vec<u64>, u64) = ((0..KEYS).collect(), 0);
            if is_last_first {
                order.reverse();
            }
            for key in order {
                gates[key as usize].open();
                loads[key as usize].run();
                let before = COMPARISONS.get();
                if many.is_woken() {
                    many.poll();
                }
                compared += COMPARISONS.get() - before;
            }
            assert!(many.result().into_iter().eq((0..KEYS).map(Some)));
            assert!(compared <= 4 * KEYS, "{compared} comparisons");
        }
    });
}

/// The calls that loaded the keys end together. The loader is asked for all of these at once.
#[test]
fn keys_whose_loads_come_to_nothing_are_loaded_together() {
    const KEYS: u64 = 300;
    must_end(|| {
        for ends_first in [0, KEYS / 2, KEYS - 1] {
            let (cache, squares) = (shared(), Squares::default());
            let load = |key| Task::waiting(cache.get_with(key, pending()));
            let mut loads: Vec<_> = (0..KEYS).map(load).collect();
            // Each key twice.
            let keys = (0..KEYS).chain(0..KEYS);
            let mut many = Task::waiting(cache.get_many_with(keys, |keys| squares.load(keys)));
            drop(loads.remove(ends_first as usize));
            drop(loads);
            squares.gate.open();
            many.run();
            let values = (0..KEYS).chain(0..KEYS).map(|key| Some(key * key));
            assert!(many.result().into_iter().eq(values));
            assert_eq!(squares.asked(), [(0..KEYS).collect::<Vec<_>>()]);
        }
    });
}

/// A wait for one's own load would have no end.
#[test]
fn a_loader_that_waits_for_its_own_keys_panics() {
    must_end(|| {
        let cache = shared();
        let in_future = cache.get_many_with([1, 2], |_| async {
            pends(1).await;
            [(1, cache.get_with(2, async { 0 }).await)]
        });
        let in_call = cache.get_many_with([1, 2], |_| ready([(1, cache.sync().get_with(2, || 0))]));
        let futures: [Boxed<'_, Vec<Option<u64>>>; 2] = [Box::pin(in_future), Box::pin(in_call)];
        for future in futures {
            let panics = AssertUnwindSafe(|| Task::new(future).end());
            assert!(std::panic::catch_unwind(panics).is_err());
        }
        // All flights have ended.
        assert_eq!(cache.sync().get_with(1, || 10) + cache.sync().get_with(2, || 20), 30);
    });
}

/// What a cancelled future drops may use the keys: its thread does not wait for the loads.
#[test]
fn what_a_cancelled_future_owns_may_use_the_keys() {
    struct Uses(Shared);
    impl Drop for Uses {
        fn drop(&mut self) {
            self.0.sync().get_with(2, || 20);
        }
    }
    must_end(|| {
        let cache = shared();
        let task = Task::waiting(cache.get_many_with([1, 2], |_| {
            let uses = Uses(Arc::clone(&cache));
            async move {
                let _uses = &uses;
                pends(1).await;
                [(1, 1)]
            }
        }));
        drop(task);
        assert_eq!(cache.sync().get_many(&[1, 2]), [None, Some(20)]);
    });
}

#[test]
fn threads_have_a_time_limit_for_it() {
    use cortado::TimedOut;
    use std::time::Duration;
    must_end(|| {
        let (cache, gate) = (shared(), Gate::default());
        let mut loads = Task::waiting(cache.get_with(2, async {
            gate.passed().await;
            20
        }));
        let load =
            |keys: &[&u64]| ready(Ok::<_, u8>(keys.iter().map(|&&n| (n, n)).collect::<Vec<_>>()));
        let limited = async |cache: &Cache<u64, u64>| cache.try_get_many_with([1, 2], load).await;
        assert_eq!(cache.sync().within(Duration::ZERO, limited), Err(TimedOut));
        assert_eq!(cache.sync().get(&1), Some(1), "its own load has ended");
        gate.open();
        loads.run();
        let values = cache.sync().within(Duration::ZERO, limited);
        assert_eq!(values, Ok(Ok(vec![Some(1), Some(20)])));
    });
}

/// The loader brings a pair that nobody asked for. Another task of this thread computes its key, so
/// a wait that blocked the thread would never end.
#[test]
fn an_unasked_pair_awaits_a_computation_of_its_key() {
    watched(|watch| {
        watch.begin("a task awaits a computation".to_owned());
        let (cache, gate) = (shared(), Gate::default());
        let (open, brings) = (gate.clone(), |_: &[&u64]| ready([(1, 1), (7, 49)]));
        let compute = async move |_| {
            open.passed().await;
            Op::Put(1)
        };
        let computation = Task::waiting(cache.entry(7).and_compute_with(compute));
        let waiting = Task::waiting(cache.get_many_with([1], brings));
        // What was asked for is there already, also if the caller gives up.
        drop(Task::waiting(cache.get_many_with([2], |_| ready([(2, 4), (7, 50)]))));
        assert_eq!(cache.get_many_with_threads(), [Some(1), Some(4), None]);
        gate.open();
        computation.end();
        assert_eq!(cache.get_many_with_threads(), [Some(1), Some(4), Some(1)]);
        assert_eq!(waiting.end(), [Some(1)]);
        assert_eq!(cache.get_many_with_threads(), [Some(1), Some(4), Some(49)]);
    });
}

#[test]
fn a_time_limit_drops_an_unasked_pair_that_still_waits() {
    watched(|watch| {
        watch.begin("limits end the wait for a computation".to_owned());
        let (cache, gate) = (shared(), Gate::default());
        let open = gate.clone();
        let compute = async move |_| {
            open.passed().await;
            Op::Put(1)
        };
        let computation = Task::waiting(cache.entry(7).and_compute_with(compute));
        let loads = async |cache: &Cache<u64, u64>| {
            cache.get_many_with([2], |_| ready([(2, 4), (7, 49)])).await
        };
        assert_eq!(cache.sync().within(Duration::ZERO, loads), Err(TimedOut));
        let loads = async |cache: &Cache<u64, u64>| {
            cache.get_many_with([1], |_| ready([(1, 1), (7, 50)])).await
        };
        assert_eq!(cache.sync().within(Duration::ZERO, loads), Err(TimedOut));
        gate.open();
        computation.end();
        assert_eq!(cache.get_many_with_threads(), [Some(1), Some(4), Some(1)]);
    });
}

/// A pair that has to wait for a computation does not keep the others.
#[test]
fn a_cancelled_call_drops_the_pair_that_waits_and_no_other() {
    must_end(|| {
        let cache = shared();
        let computing = Task::waiting(cache.entry(0).and_compute_with(|_| pending::<Op<u64>>()));
        let made = |_: &[&u64]| ready((0..500).map(|n| (n, n)).collect::<Vec<_>>());
        drop(Task::waiting(cache.get_many_with([1], made)));
        assert_eq!((1..500).filter(|key| !cache.sync().contains_key(key)).count(), 0);
        drop(computing);
        assert!(!cache.sync().contains_key(&0));
    });
}

/// A task that polls itself inside its waker's calls.
struct PollsAtOnce(Mutex<Option<Boxed<'static, ()>>>);

impl PollsAtOnce {
    fn poll(self: &Arc<Self>) {
        let future = self.0.lock().unwrap().take();
        let Some(mut future) = future else { return };
        let waker = Waker::from(Arc::clone(self));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.0.lock().unwrap() = Some(future);
        }
    }
}

impl Wake for PollsAtOnce {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

/// Tasks that a cancelled call wakes, and that are polled within that, may wait for a load of
/// another key: also if it is where one of the ended loads was in memory.
#[test]
fn who_is_polled_when_a_call_is_dropped_may_wait_for_another_key() {
    must_end(|| {
        for keys in [vec![2], vec![1, 2], vec![5, 1, 2]] {
            let cache = shared();
            let call = Task::waiting(cache.get_many_with(keys, |_| pending::<Vec<(u64, u64)>>()));
            // Two tasks wait for each of four later loads. Some of these loads may get the memory
            // of a load that has ended.
            let waiters: Vec<_> = (0..8)
                .map(|waiter| {
                    let cache = Arc::clone(&cache);
                    let future: Boxed<'static, ()> = Box::pin(async move {
                        cache.optionally_get_with(2, async { None }).await;
                        cache.get_with(7 + waiter / 2, pending()).await;
                    });
                    Arc::new(PollsAtOnce(Mutex::new(Some(future))))
                })
                .collect();
            waiters.iter().for_each(PollsAtOnce::poll);
            drop(call);
            let still_wait = |waiter: &Arc<PollsAtOnce>| waiter.0.lock().unwrap().is_some();
            assert!(waiters.iter().all(still_wait), "a waiter has panicked");
            let futures = waiters.iter().map(|waiter| waiter.0.lock().unwrap().take());
            drop(futures.collect::<Vec<_>>());
        }
    });
}
