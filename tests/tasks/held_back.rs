//! Tasks that wait for deliveries: for the limit of waiting notifications, and for the end of a
//! delivery by a thread. They wait by their wakers.

use crate::common::audited::{TasksAudited, tasks_audited, tasks_loading_audited};
use crate::common::must_end;
use crate::common::noted::eventually;
use crate::hand::{Gate, Task, at_once, pends};
use cortado::future::Cache;
use cortado::{Loaded, Overflow};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

const LIMIT: usize = 4;
const KEYS: u64 = 12;
/// The key whose removal the listener does not get done with.
const SLOW: u64 = 100;

type Shared = Arc<TasksAudited<u64, u64>>;

/// A cache on which a thread delivers, which is in the listener until it is told to go on.
struct Bench {
    cache: Shared,
    told: Arc<AtomicUsize>,
    go: Sender<()>,
    thread: JoinHandle<()>,
}

fn bench() -> Bench {
    let ((begun, beginning), (go, going)) = (channel(), channel());
    let going = Mutex::new(going);
    let told = Arc::new(AtomicUsize::new(0));
    let tells = Arc::clone(&told);
    let listener = move |removed: cortado::Removed<u64, u64>| {
        if *removed.key() == SLOW {
            begun.send(()).unwrap();
            going.lock().unwrap().recv().unwrap();
        }
        tells.fetch_add(1, SeqCst);
    };
    let builder = Cache::builder().record_stats(true).removal_listener(listener);
    let builder = builder.notification_limit(LIMIT, Overflow::Wait);
    let cache = Arc::new(tasks_audited(builder.build()));
    at_once(cache.insert(SLOW, 0));
    at_once(cache.insert_many((0..KEYS).map(|key| (key, key))));
    let delivers = Arc::clone(&cache);
    let thread = thread::spawn(move || delivers.sync().invalidate(&SLOW));
    beginning.recv().unwrap();
    Bench { cache, told, go, thread }
}

impl Bench {
    /// The thread goes on, and the task has to be woken.
    fn release(self, held: &mut Task<'_, ()>) -> usize {
        self.go.send(()).unwrap();
        while !held.is_ready() {
            eventually("the thread wakes the task", || held.is_woken());
            held.poll();
        }
        self.thread.join().unwrap();
        self.told.load(SeqCst)
    }

    /// As many removals as may wait.
    fn fill(&self) {
        let mut keys = 0..KEYS;
        while self.cache.stats().pending_notifications < LIMIT as u64 {
            at_once(self.cache.invalidate(&keys.next().unwrap()));
        }
    }
}

#[test]
fn a_write_beyond_the_limit_waits_when_it_has_happened() {
    must_end(|| {
        let bench = bench();
        let cache = Arc::clone(&bench.cache);
        bench.fill();
        at_once(cache.insert(1, 1));
        let mut held = Task::waiting(async { cache.invalidate(&1).await });
        assert!(!cache.contains_key(&1));
        // Each of them waits, and may be dropped.
        drop(Task::waiting(cache.insert(2, 2)));
        drop(Task::waiting(cache.remove(&2)));
        drop(Task::waiting(cache.insert(3, 3)));
        let mut other = Task::waiting(async { cache.insert(3, 4).await });
        // Who reads waits for nobody.
        assert_eq!((at_once(cache.get(&2)), at_once(cache.get(&3))), (None, Some(4)));
        bench.release(&mut held);
        other.run();
        assert_eq!(cache.stats().pending_notifications, 0);
    });
}

#[test]
fn inside_a_computation_nothing_is_held_back() {
    must_end(|| {
        let bench = bench();
        let cache = Arc::clone(&bench.cache);
        bench.fill();
        let mut task = Task::new(async {
            let update = cache.entry(1).and_upsert_with(|_| async {
                cache.insert(2, 2).await;
                cache.invalidate(&2).await;
                cache.insert(2, 3).await;
                pends(1).await;
                7
            });
            assert_eq!(*update.await, 7);
        });
        assert!(!task.poll() && task.is_woken());
        // Now the computation is at its end, and the task is held back.
        assert!(!task.poll());
        assert_eq!(at_once(cache.get(&1)), Some(7));
        bench.release(&mut task);
    });
}

#[test]
fn maintenance_on_request_waits_for_another_threads_delivery() {
    must_end(|| {
        for is_close in [false, true] {
            let bench = bench();
            let cache = Arc::clone(&bench.cache);
            bench.fill();
            let ask = async {
                if is_close {
                    cache.close().await;
                } else {
                    cache.run_pending_tasks().await;
                }
            };
            drop(Task::waiting(cache.run_pending_tasks()));
            let mut asks = Task::waiting(ask);
            assert!(!asks.is_woken());
            let removed = cache.stats().removed(cortado::RemovalCause::Explicit) as usize;
            assert_eq!(bench.release(&mut asks), removed);
        }
    });
}

/// What a listener that awaits has not heard of counts towards the limit: further notices are
/// discarded, and counted.
#[test]
fn notices_for_a_listener_that_awaits_are_discarded_at_the_limit() {
    let gate = Gate::default();
    let (told, hearing) = (Arc::new(Mutex::new(Vec::new())), gate.clone());
    let notes = Arc::clone(&told);
    let cache = tasks_audited(
        Cache::<u64, u64>::builder()
            .async_eviction_listener(move |_, value, _| {
                let (gate, notes) = (hearing.clone(), Arc::clone(&notes));
                Box::pin(async move {
                    gate.passed().await;
                    notes.lock().unwrap().push(value);
                })
            })
            .notification_limit(5, Overflow::Discard)
            .build(),
    );
    cache.sync().insert(1, 0);
    // The first removal is being told. Five more wait, and others are discarded.
    let driver = Task::waiting(cache.insert(1, 1));
    (2..20).for_each(|value| cache.sync().insert(1, value));
    let stats = cache.stats();
    assert_eq!((stats.pending_notifications, stats.discarded_notifications), (5, 13));
    gate.open();
    driver.end();
    assert_eq!(*told.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(cache.stats().pending_notifications, 0);
    // There is room again.
    at_once(cache.insert(1, 20));
    assert_eq!(told.lock().unwrap().last(), Some(&19));
}

/// A cache whose listener awaits the gate, holds what it was told, and writes another key.
fn gated(gate: &Gate) -> (Shared, Arc<Mutex<Vec<u64>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (notes, gate) = (Arc::clone(&told), gate.clone());
    let cache = Arc::new_cyclic(|weak: &std::sync::Weak<TasksAudited<u64, u64>>| {
        let weak = weak.clone();
        let listener = move |key: Arc<u64>, value, _| {
            let (gate, notes, weak) = (gate.clone(), Arc::clone(&notes), weak.clone());
            Box::pin(async move {
                gate.passed().await;
                notes.lock().unwrap().push(value);
                if let Some(cache) = weak.upgrade()
                    && *key < 100
                {
                    // Each write of its own makes one more removal, and waits for nobody.
                    cache.insert(*key + 100, 0).await;
                    cache.invalidate(&(*key + 100)).await;
                }
            })
        };
        let builder = Cache::builder().record_stats(true);
        let builder = builder.async_eviction_listener(listener);
        tasks_audited(builder.notification_limit(LIMIT, Overflow::Wait).build())
    });
    (cache, told)
}

#[test]
fn tasks_wait_while_too_many_notices_wait_for_a_listener_that_awaits() {
    must_end(|| {
        let gate = Gate::default();
        let (cache, told) = gated(&gate);
        at_once(cache.insert_many((0..KEYS).map(|key| (key, key))));
        // One is being told, and so many as the limit says may wait.
        let mut driver = Task::waiting(cache.invalidate(&0));
        (1..=LIMIT as u64).for_each(|key| at_once(cache.invalidate(&key)));
        let mut held = Task::waiting(cache.invalidate(&(KEYS - 1)));
        let mut dropped = Task::waiting(cache.insert(KEYS - 2, 0));
        assert!(!held.poll() && !held.is_woken() && !dropped.poll());
        drop(dropped);
        assert!(!cache.contains_key(&(KEYS - 1)), "the write has happened");
        // Who reads waits for nobody, nor does a thread.
        assert_eq!(at_once(cache.get(&5)), Some(5));
        cache.sync().insert(5, 6);
        gate.open();
        assert!(driver.is_woken());
        driver.run();
        held.run();
        let stats = cache.stats();
        assert_eq!((stats.pending_notifications, stats.discarded_notifications), (0, 0));
        // Those of the listener's own writes follow.
        let told: Vec<u64> = told.lock().unwrap().iter().copied().filter(|it| *it != 0).collect();
        assert_eq!(told, [1, 2, 3, 4, KEYS - 1, KEYS - 2, 5]);
    });
}

#[test]
fn a_task_that_waits_for_a_driver_takes_over_when_that_is_dropped() {
    must_end(|| {
        let gate = Gate::default();
        let (cache, told) = gated(&gate);
        at_once(cache.insert_many((0..KEYS).map(|key| (key, key))));
        let driver = Task::waiting(cache.invalidate(&0));
        (1..=LIMIT as u64).for_each(|key| at_once(cache.invalidate(&key)));
        let mut held = Task::waiting(cache.invalidate(&6));
        let mut other = Task::waiting(cache.invalidate(&7));
        drop(driver);
        // One of them tells from now on, and the other one waits for it.
        assert!(held.is_woken() && other.is_woken());
        assert!(!held.poll() && !other.poll());
        gate.open();
        assert!(held.is_woken());
        held.run();
        other.run();
        assert_eq!(told.lock().unwrap().len(), 7 + 7);
        assert_eq!(cache.stats().pending_notifications, 0);
    });
}

/// A load that finds the value writes nothing. So it does not wait for a receiver, who may be the
/// caller.
#[test]
fn a_load_that_hits_is_not_held_back() {
    let builder = Cache::builder().removals(true).notification_limit(0, Overflow::Wait);
    let cache = tasks_audited(builder.build());
    (0..3).for_each(|value| at_once(cache.insert(1, value)));
    let _removals = cache.removals().unwrap();
    assert_eq!(at_once(cache.get_with(1, async { 9 })), 2);
    assert_eq!(at_once(cache.try_get_with(1, async { Err::<u64, _>("unused") })), Ok(2));
    assert_eq!(*at_once(cache.entry(1).or_insert(9)), 2);
    drop(Task::waiting(cache.get_with(2, async { 9 })));
}

/// All keys are there, so nothing is written.
#[test]
fn a_bulk_load_that_finds_all_values_is_not_held_back() {
    let builder = Cache::builder().removals(true).notification_limit(0, Overflow::Wait);
    let cache = tasks_audited(builder.build());
    (0..3).for_each(|value| at_once(cache.insert(1_u64, value)));
    let _removals = cache.removals().unwrap();
    let none = |_: &[&u64]| std::future::ready(Vec::<(u64, u64)>::new());
    assert_eq!(at_once(cache.get_many_with([1], none)), [Some(2)]);
    let none = |_: &[&u64]| std::future::ready(Ok::<_, ()>(Vec::<(u64, u64)>::new()));
    assert_eq!(at_once(cache.try_get_many_with([1], none)), Ok(vec![Some(2)]));
}

#[test]
fn a_loop_that_receives_may_read_many() {
    let builder = Cache::builder().removals(true).notification_limit(1, Overflow::Wait);
    let load = |n: u64| async move { Ok::<_, ()>(Loaded::new(n)) };
    let builder = builder.executor(|job: cortado::Job| job());
    let cache = tasks_loading_audited(builder.build_with_loader(load));
    let mut removals = cache.cache().removals().unwrap();
    for value in 0..5 {
        // Writers that wait, and are dropped: the writes have happened.
        Task::new(cache.insert(1, value)).poll();
    }
    let mut receives = Task::new(async {
        for _ in 0..3 {
            removals.recv().await.unwrap();
            assert_eq!(cache.get_many(&[1]).await, Ok(vec![Some(4)]));
        }
    });
    receives.run();
}

#[test]
fn a_writer_beyond_the_limit_lets_other_tasks_run() {
    let told = Arc::new(AtomicUsize::new(0));
    let tells = Arc::clone(&told);
    let builder = Cache::builder().notification_limit(LIMIT, Overflow::Wait);
    let builder = builder.removal_listener(move |_| _ = tells.fetch_add(1, SeqCst));
    let cache = tasks_audited(builder.build());
    let mut task = Task::new(async {
        let many = async {
            for n in 0..20_000 {
                cache.insert(1, n).await;
            }
            0
        };
        cache.get_with(0, many).await
    });
    let (mut most, mut before) = (0, 0);
    while !task.poll() {
        let now = told.load(SeqCst);
        (most, before) = (most.max(now - before), now);
    }
    assert!(told.load(SeqCst) > 19_000, "{} were told", told.load(SeqCst));
    assert!((1..1000).contains(&most), "{most} calls of the listener in one poll");
}

/// It has only waited for another call's load, which is held back.
#[test]
fn a_load_that_joins_another_is_not_held_back() {
    let builder = Cache::builder().removals(true).notification_limit(0, Overflow::Wait);
    let cache = tasks_audited(builder.build());
    (0..3).for_each(|value| cache.sync().insert(1_u64, value));
    let _removals = cache.removals().unwrap();
    let gate = Gate::default();
    let load = async |value: u64| {
        gate.passed().await;
        value
    };
    let mut leads = Task::waiting(cache.get_with(5, load(7)));
    let joins = Task::waiting(cache.get_with(5, load(8)));
    let joins_by_key = Task::waiting(async { *cache.entry(5).or_insert_with(load(9)).await });
    gate.open();
    assert!(!leads.poll(), "a writer beyond the limit");
    assert_eq!((joins.end(), joins_by_key.end()), (7, 7));
}
