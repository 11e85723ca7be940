//! What a future leaves behind that is dropped before it is ready: nothing, and nobody who waits
//! for ever.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::must_end;
use crate::hand::{Gate, Task, at_once, pends};
use cortado::future::Cache;
use cortado::{Op, RemovalCause};
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn cache() -> TasksAudited<u64, u64> {
    tasks_audited(Cache::builder().max_capacity(100).record_stats(true).build())
}

#[test]
fn whoever_is_polled_first_takes_over_a_dropped_load() {
    must_end(|| {
        let cache = cache();
        let leader = Task::waiting(cache.get_with(1, pending()));
        let load = |value| cache.get_with(1, async move { (pends(1).await, value).1 });
        let (mut first, mut second, mut third) =
            (Task::waiting(load(1)), Task::waiting(load(2)), Task::waiting(load(3)));
        drop(leader);
        assert!(first.is_woken() && second.is_woken() && third.is_woken());
        // The third leads now, and the others wait for it.
        assert!(!third.poll() && !first.poll() && !second.poll());
        assert!(third.is_woken() && !first.is_woken() && !second.is_woken());
        drop(third);
        assert!(!second.poll() && !first.poll());
        second.run();
        assert_eq!((second.result(), first.end()), (2, 2));
        let stats = cache.stats();
        assert_eq!((stats.loads, stats.load_failures), (1, 2));
    });
}

/// Who is woken is not chosen to be the next one: all may try.
#[test]
fn a_waiter_that_is_not_polled_again_delays_nobody() {
    must_end(|| {
        let cache = cache();
        let leader = Task::waiting(cache.get_with(1, pending()));
        let idle: Vec<_> =
            (0..3).map(|_| Task::waiting(cache.get_with(1, pending::<u64>()))).collect();
        let mut idle_write = Task::waiting(async {
            let computation = |_| pending::<Op<u64>>();
            cache.entry(1).and_compute_with(computation).await;
        });
        drop(leader);
        assert!(idle.iter().all(Task::is_woken) && idle_write.is_woken());
        assert_eq!(at_once(cache.get_with(1, async { 7 })), 7);

        // The same behind a computation.
        assert!(!idle_write.poll());
        let mut idle: Vec<_> = (0..3).map(|_| Task::waiting(cache.insert(1, 8))).collect();
        drop(idle_write);
        assert!(idle.iter().all(Task::is_woken));
        assert_eq!(at_once(cache.remove(&1)), Some(7));
        assert!(idle.pop().unwrap().poll());
        assert_eq!(at_once(cache.get(&1)), Some(8));
    });
}

#[test]
fn a_waiter_leaves_no_waker_behind() {
    must_end(|| {
        let cache = cache();
        let gate = Gate::default();
        let leader = Task::waiting(cache.get_with(1, async { (gate.passed().await, 1).1 }));
        let mut waiter = Task::waiting(cache.get_with(1, pending()));
        assert_eq!(waiter.wakers(), 1);
        // A second poll replaces the waker.
        assert!(!waiter.poll());
        assert_eq!(waiter.wakers(), 1);
        drop(waiter);
        let kept = Task::waiting(cache.get_with(1, pending()));
        gate.open();
        assert_eq!(leader.end(), 1);
        assert_eq!((kept.is_woken(), kept.wakers()), (true, 0));
        assert_eq!(kept.end(), 1);
    });
}

/// Wakers of dropped waiters are not called, and do not stay until the flight ends.
#[test]
fn a_dropped_waiter_is_not_woken() {
    must_end(|| {
        let cache = cache();
        let gate = Gate::default();
        let computation = |_| async { (gate.passed().await, Op::Put(1)).1 };
        let leader = Task::waiting(cache.entry(1).and_compute_with(computation));
        let waker = {
            let insert = Task::waiting(cache.insert(1, 2));
            let wakes = insert.wakes();
            Arc::downgrade(&wakes)
        };
        assert!(waker.upgrade().is_none(), "the flight keeps the waker");
        gate.open();
        leader.end();
        assert_eq!(at_once(cache.get(&1)), Some(1));
    });
}

#[test]
fn a_dropped_computation_leaves_the_entry_as_it_was() {
    must_end(|| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let cache = tasks_audited(
            Cache::builder()
                .removal_listener(move |removed: cortado::Removed<u64, u64>| {
                    log.lock().unwrap().push((*removed.value(), removed.cause()));
                })
                .build(),
        );
        at_once(cache.insert_with_ttl(1, 10, Duration::from_secs(600)));
        let before = cache.sync().peek(&1).unwrap();
        for polls in 1..3 {
            // The closure has run, and the future has the entry.
            let mut task = Task::new(cache.entry(1).and_compute_with(|entry| async move {
                pends(2).await;
                Op::Put(*entry.unwrap() + 1)
            }));
            (0..polls).for_each(|_| assert!(!task.poll()));
            drop(task);
            let after = cache.sync().peek(&1).unwrap();
            assert!(std::ptr::eq(before.value(), after.value()), "another node");
        }
        cache.sync().run_pending_tasks();
        assert_eq!(*told.lock().unwrap(), []);
        at_once(cache.remove(&1));
        assert_eq!(*told.lock().unwrap(), [(10, RemovalCause::Explicit)]);
    });
}

/// Of many keys, the ones before the wait are written and the ones after it are not.
#[test]
fn an_operation_on_many_keys_stops_between_two_of_them() {
    must_end(|| {
        let cache = cache();
        at_once(cache.insert_many((0..8).map(|key| (key, 0))));
        let owner = Task::waiting(cache.entry(4).and_compute_with(|_| pending()));
        let insert = Task::waiting(cache.insert_many((0..8).map(|key| (key, 1))));
        drop(insert);
        let values: Vec<_> = (0..8).map(|key| *cache.sync().peek(&key).unwrap()).collect();
        assert_eq!(values, [1, 1, 1, 1, 0, 0, 0, 0]);
        drop(Task::waiting(cache.invalidate_many(&[0, 1, 4, 5])));
        let left: Vec<_> = (0..8).filter(|key| cache.contains_key(key)).collect();
        assert_eq!(left, [2, 3, 4, 5, 6, 7]);
        drop(owner);
        at_once(cache.insert(4, 9));
    });
}

#[test]
fn a_dropped_retain_has_removed_some_and_owns_nothing() {
    must_end(|| {
        let cache = cache();
        at_once(cache.insert_many((0..90).map(|key| (key, key))));
        let owner = Task::waiting(cache.entry(33).and_compute_with(|_| pending()));
        let retain = Task::waiting(cache.retain(|key, _| key % 2 == 0));
        assert!(cache.contains_key(&33));
        drop(retain);
        for key in 0..90 {
            assert!(cache.contains_key(&key) || key % 2 == 1, "{key} is gone");
            if key != 33 {
                at_once(cache.insert(key, key));
            }
        }
        // One that is not dropped goes on when the computation has ended.
        let mut retain = Task::waiting(cache.retain(|key, _| key % 2 == 0));
        drop(owner);
        retain.run();
        let left: Vec<_> = cache.sync().keys().map(|key| key % 2).collect();
        assert_eq!(left, [0; 45]);
    });
}

/// Runs something when it is dropped.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Its own thread does not wait for the flight, which ends when the future is gone.
#[test]
fn what_a_dropped_future_owns_may_use_the_key() {
    must_end(|| {
        let cache = cache();
        let values = AtomicU64::new(100);
        let next = || {
            let value = values.fetch_add(1, SeqCst);
            cache.sync().insert(1, value);
            cache.sync().get_with(2, || value);
            cache.sync().invalidate(&2);
        };
        for polls in 0..3 {
            for key in [1, 2] {
                let owned = AtEnd(next);
                let mut load = Task::new(cache.get_with(key, async move {
                    let _owned = &owned;
                    (pends(3).await, 1).1
                }));
                (0..polls).for_each(|_| _ = load.poll());
                drop(load);
                let owned = AtEnd(next);
                let mut computation = Task::new(cache.entry(key).and_compute_with(|entry| {
                    let kept = (owned, entry);
                    async move {
                        let _kept = &kept;
                        (pends(3).await, Op::Put(1)).1
                    }
                }));
                (0..polls).for_each(|_| _ = computation.poll());
                drop(computation);
            }
            assert!(cache.sync().peek(&1).is_some_and(|value| *value >= 100));
        }
    });
}
