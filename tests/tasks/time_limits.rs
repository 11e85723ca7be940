//! Every wait has a form with a time limit: for tasks, dropping the future; for threads,
//! `Cache::within`. A limit that ends leaves nothing behind, and an operation that is in time
//! happens.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::{must_end, panic_of};
use crate::hand::{Boxed, Gate, Task, at_once};
use cortado::future::Cache;
use cortado::{Expiration, Op, TimedOut};
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_millis(2);
/// Only a failure takes so long.
const LONG: Duration = Duration::from_secs(60);

type Tasks = Cache<u64, u64>;
type Shared = Arc<TasksAudited<u64, u64>>;
/// An operation on key 1, whose entry has the value 1.
type Operation = fn(&Tasks) -> Boxed<'_, ()>;

fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> Boxed<'a, ()> {
    Box::pin(async move { drop(future.await) })
}

/// The operations that wait for a computation of their key.
const WRITES: [(&str, Operation); 13] = [
    ("insert", |cache| boxed(cache.insert(1, 2))),
    ("insert_with_ttl", |cache| boxed(cache.insert_with_ttl(1, 2, LONG))),
    ("insert_until", |cache| boxed(cache.insert_until(1, 2, Instant::now() + LONG))),
    ("insert_many", |cache| boxed(cache.insert_many([(1, 2)]))),
    ("replace", |cache| boxed(cache.replace(1, 2))),
    ("remove", |cache| boxed(cache.remove(&1))),
    ("remove_if", |cache| boxed(cache.remove_if(&1, |_, _| true))),
    ("invalidate", |cache| boxed(cache.invalidate(&1))),
    ("invalidate_many", |cache| boxed(cache.invalidate_many([&1]))),
    ("retain", |cache| boxed(cache.retain(|_, _| false))),
    ("set_ttl", |cache| boxed(cache.set_ttl(&1, LONG))),
    ("set_expires_at", |cache| boxed(cache.set_expires_at(&1, Instant::now() + LONG))),
    ("persist", |cache| boxed(cache.persist(&1))),
];

/// The operations that wait for a load or computation of their key.
const FLIGHTS: [(&str, Operation); 6] = [
    ("get_with", |cache| boxed(cache.get_with(1, async { 2 }))),
    ("get_with_by_ref", |cache| boxed(cache.get_with_by_ref(&1, async { 2 }))),
    ("optionally_get_with", |cache| boxed(cache.optionally_get_with(1, async { Some(2) }))),
    ("try_get_with", |cache| boxed(cache.try_get_with(1, async { Ok::<_, ()>(2) }))),
    ("and_upsert_with", |cache| boxed(cache.entry(1).and_upsert_with(async |_| 2))),
    ("and_compute_with", |cache| boxed(cache.entry(1).and_compute_with(async |_| Op::Put(2)))),
];

fn cache() -> Shared {
    Arc::new(tasks_audited(Cache::builder().max_capacity(100).build()))
}

/// Keeps the key of a cache taken until the gate opens.
fn taken<'a>(cache: &'a Tasks, gate: &'a Gate, by_load: bool) -> Task<'a, ()> {
    if by_load {
        Task::waiting(boxed(cache.get_with(1, async { (gate.passed().await, 1).1 })))
    } else {
        at_once(cache.insert(1, 1));
        Task::waiting(boxed(cache.entry(1).and_compute_with(async |_| {
            gate.passed().await;
            Op::<u64>::Nop
        })))
    }
}

fn cases() -> impl Iterator<Item = (bool, (&'static str, Operation))> {
    let by_computation = WRITES.into_iter().chain(FLIGHTS).map(|operation| (false, operation));
    // The readers among the operations find an entry; so a load of an absent key.
    by_computation
        .filter(|(_, (name, _))| !name.contains("get_with"))
        .chain(FLIGHTS.into_iter().map(|operation| (true, operation)))
}

#[test]
fn a_limit_ends_every_wait_of_a_thread() {
    must_end(|| {
        for (by_load, (name, operation)) in cases() {
            for limit in [NOW, SOON] {
                let cache = cache();
                let gate = Gate::default();
                let mut owner = taken(&cache, &gate, by_load);
                let waited = cache.sync().within(limit, async |cache| operation(cache).await);
                assert_eq!(waited, Err(TimedOut), "{name}");
                let value = cache.sync().peek(&1).map(|entry| *entry);
                assert_eq!(value, (!by_load).then_some(1), "{name} has happened");
                assert_eq!(cache.sync().expires_in(&1) == Expiration::Never, !by_load, "{name}");
                gate.open();
                owner.run();
                drop(owner);
                let done = cache.sync().within(limit, async |cache| operation(cache).await);
                assert_eq!(done, Ok(()), "{name} has nothing to wait for");
            }
        }
    });
}

#[test]
fn a_wait_that_ends_in_time_is_no_error() {
    must_end(|| {
        for (by_load, (name, operation)) in cases() {
            for limit in [LONG, Duration::MAX] {
                let cache = cache();
                let gate = Gate::default();
                let mut owner = taken(&cache, &gate, by_load);
                std::thread::scope(|scope| {
                    let waits = scope
                        .spawn(|| cache.sync().within(limit, async |cache| operation(cache).await));
                    std::thread::yield_now();
                    gate.open();
                    owner.run();
                    assert_eq!(waits.join().unwrap(), Ok(()), "{name}");
                });
                drop(owner);
            }
        }
    });
}

/// What `tokio::time::timeout` does at the limit, on no runtime.
#[test]
fn dropping_the_future_is_the_limit_of_a_task() {
    for (by_load, (name, operation)) in cases() {
        let cache = cache();
        let gate = Gate::default();
        let mut owner = taken(&cache, &gate, by_load);
        let task = Task::waiting(operation(&cache));
        let wakes = task.wakes();
        assert_eq!(task.wakers(), 2, "{name} waits, and this test has the other count");
        drop(task);
        assert_eq!(Arc::strong_count(&wakes), 1, "{name} leaves its waker behind");
        let value = cache.sync().peek(&1).map(|entry| *entry);
        assert_eq!(value, (!by_load).then_some(1), "{name} has happened");
        gate.open();
        owner.run();
    }
}

#[test]
fn bulk_loads_and_guards_have_limits() {
    must_end(|| {
        let cache = cache();
        let gate = Gate::default();
        let mut owner = taken(&cache, &gate, true);
        let threads = cache.sync();
        for limit in [NOW, SOON] {
            let load = |keys: &[&u64]| keys.iter().map(|&&key| (key, key)).collect::<Vec<_>>();
            let many = threads.within(limit, async |cache| {
                cache.get_many_with([1, 2], |keys: &[&u64]| std::future::ready(load(keys))).await
            });
            assert_eq!(many, Err(TimedOut));
            assert_eq!(threads.get(&2), Some(2), "the own loads have ended");
            let guard =
                threads.within(limit, async |cache| cache.get_value_or_guard(&1).await.map(drop));
            assert!(matches!(guard, Err(TimedOut)));
        }
        gate.open();
        owner.run();
        let unasked = |_: &[&u64]| -> Vec<(u64, u64)> { unreachable!("both are there") };
        assert_eq!(threads.get_many_with([1, 2], unasked), [Some(1), Some(2)]);
        drop(owner);
    });
}

/// A load that a limit has ended is given up, and another call leads.
#[test]
fn a_load_that_is_out_of_time_hands_over() {
    let cache = cache();
    let waited = cache.sync().within(SOON, async |cache| cache.get_with(1, pending()).await);
    assert_eq!(waited, Err(TimedOut));
    assert_eq!(cache.sync().within(NOW, async |cache| cache.get_with(1, async { 7 }).await), Ok(7));
}

/// A closure that blocks is not interrupted, and its result counts.
#[test]
fn a_limit_interrupts_no_code() {
    let cache = cache();
    let slow = async { (std::thread::sleep(2 * SOON), 7).1 };
    assert_eq!(cache.sync().within(SOON, async |cache| cache.get_with(1, slow).await), Ok(7));
}

#[test]
fn a_wait_for_oneself_panics_whatever_the_limit() {
    let cache = cache();
    let message = panic_of(|| {
        cache.sync().get_with(1, || {
            let own = cache.sync().within(LONG, async |cache| cache.get_with(1, async { 0 }).await);
            own.unwrap_or(1)
        })
    });
    assert!(message.contains("waits for its own key"), "{message}");
}

#[test]
fn invalidate_all_waits_for_nothing() {
    for by_load in [false, true] {
        let cache = cache();
        let gate = Gate::default();
        let mut owner = taken(&cache, &gate, by_load);
        cache.invalidate_all();
        cache.sync().invalidate_all();
        assert!(!cache.contains_key(&1));
        gate.open();
        owner.run();
        assert!(!cache.contains_key(&1), "what was there before has come back");
        drop(owner);
    }
}

/// Operations that wake themselves in each poll are waiting all the same.
#[test]
fn a_limit_ends_operations_that_always_wake_themselves() {
    must_end(|| {
        let cache = tasks_audited::<u64, u64, _>(Cache::new(10));
        let polls = std::cell::Cell::new(0);
        let waited = cache.sync().within(SOON, async |cache| {
            while cache.get(&1).await.is_none() {
                polls.set(polls.get() + 1);
                let mut is_second = false;
                std::future::poll_fn(|context| {
                    if std::mem::replace(&mut is_second, true) {
                        return std::task::Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    std::task::Poll::Pending
                })
                .await;
            }
        });
        assert_eq!(waited, Err(TimedOut));
        assert!(polls.get() > 0);
    });
}
