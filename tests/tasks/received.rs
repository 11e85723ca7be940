//! Removals that are received: order, exactly once, bounds, the end, and receivers that are
//! dropped.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::effort::share;
use crate::common::must_end;
use crate::common::noted::eventually;
use crate::hand::{Task, at_once};
use cortado::future::Cache;
use cortado::{Clock, Op, Overflow, RemovalCause, Removals, Removed};
use pollster::block_on;
use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc::channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

type Shared = Arc<TasksAudited<u64, u64>>;
type Builder = cortado::future::CacheBuilder<u64, u64>;
type Bound = fn(Builder) -> Builder;

pub fn shared(builder: Builder) -> (Shared, Removals<u64, u64>) {
    let cache = Arc::new(tasks_audited(builder.removals(true).record_stats(true).build()));
    let removals = cache.removals().unwrap();
    assert!(cache.removals().is_none() && cache.sync().removals().is_none(), "there is one");
    (cache, removals)
}

pub fn told(removed: &Removed<u64, u64>) -> (u64, u64, RemovalCause) {
    (*removed.key(), *removed.value(), removed.cause())
}

#[test]
fn a_removal_of_each_cause_is_received() {
    let (clock, hand) = Clock::manual();
    let (cache, mut removals) = shared(Cache::builder().max_capacity(2).clock(clock));
    let next = Task::waiting(removals.recv());
    at_once(cache.insert(1, 10));
    assert!(!next.is_woken(), "nothing has left");
    at_once(cache.insert(1, 11));
    assert!(next.is_woken());
    assert_eq!(next.end().as_ref().map(told), Some((1, 10, RemovalCause::Replaced)));
    at_once(cache.remove(&1));
    at_once(cache.insert_with_ttl(2, 20, MINUTE));
    hand.advance(2 * MINUTE);
    cache.sync().run_pending_tasks();
    (3..6).for_each(|key| cache.sync().insert(key, key));
    cache.sync().run_pending_tasks();
    assert_eq!(removals.waiting(), 3);
    assert_eq!(removals.try_recv().as_ref().map(told), Some((1, 11, RemovalCause::Explicit)));
    let expired = removals.try_recv().unwrap();
    assert_eq!(told(&expired), (2, 20, RemovalCause::Expired));
    assert_eq!((expired.age(), expired.late_by()), (2 * MINUTE, Some(MINUTE)));
    assert_eq!(removals.try_recv().unwrap().cause(), RemovalCause::Size);
    assert!(removals.try_recv().is_none() && removals.waiting() == 0);
}

/// A loop over many removals leaves the runtime to others after each 128, and is woken then.
#[test]
fn a_loop_that_receives_yields() {
    let (cache, mut removals) = shared(Cache::builder());
    (0..=1000).for_each(|value| cache.sync().insert(1, value));
    let (mut received, mut in_turn, mut yields) = (0, 0, 0);
    while received < 1000 {
        let mut next = Task::new(removals.recv());
        if next.poll() {
            assert_eq!(next.end().as_ref().map(told), Some((1, received, RemovalCause::Replaced)));
            (received, in_turn) = (received + 1, in_turn + 1);
            assert!(in_turn <= 128, "no yield in {in_turn} removals");
        } else {
            assert!(next.is_woken(), "it is woken at once");
            (in_turn, yields) = (0, yields + 1);
        }
    }
    assert_eq!(yields, 1000 / 128);
    // Nothing waits: this is no yield.
    assert!(!Task::waiting(removals.recv()).is_woken());
}

/// With threads and tasks that write at once, each value is received once or counted as discarded,
/// and the values of each key come in their order.
#[test]
fn each_removal_is_received_once_or_counted() {
    const KEYS: u64 = 32;
    let writes = share(20_000).max(4_000);
    let bounds: [(Bound, bool); 4] = [
        (|builder| builder, false),
        (|builder| builder.scheduler(true), false),
        (|builder| builder.notification_limit(16, Overflow::Wait), false),
        (|builder| builder.notification_limit(16, Overflow::Discard), true),
    ];
    for (bound, discards) in bounds {
        must_end(move || {
            let (cache, mut removals) = shared(bound(Cache::builder().max_capacity(KEYS / 2)));
            let receiver = thread::spawn(move || {
                let (mut last, mut count) = (HashMap::new(), 0);
                block_on(async {
                    while let Some(removed) = removals.recv().await {
                        let (key, value, _) = told(&removed);
                        let before = last.insert(key, value);
                        assert!(before.is_none_or(|before| before < value), "out of order");
                        count += 1;
                    }
                });
                count
            });
            // Each key has one writer, whose values grow.
            let writers = [0, 1].map(|parity| {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    for value in 1..=writes {
                        let key = 2 * (value * 7 % (KEYS / 2)) + parity;
                        if parity == 0 {
                            cache.sync().insert(key, value);
                        } else {
                            block_on(cache.insert(key, value));
                        }
                    }
                })
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            block_on(cache.close());
            let received: u64 = receiver.join().unwrap();
            let stats = cache.stats();
            assert_eq!(received + stats.discarded_notifications, 2 * writes);
            assert_eq!(stats.pending_notifications, 0);
            assert!(discards || stats.discarded_notifications == 0);
        });
    }
}

#[test]
fn the_limit_discards_and_counts() {
    let (cache, mut removals) = shared(Cache::builder().notification_limit(3, Overflow::Discard));
    (0..10).for_each(|value| cache.sync().insert(1, value));
    assert_eq!((removals.waiting(), cache.stats().discarded_notifications), (3, 6));
    assert_eq!(*removals.try_recv().unwrap().value(), 0);
    at_once(cache.insert(1, 10));
    assert_eq!((removals.waiting(), cache.stats().discarded_notifications), (3, 6));
}

#[test]
fn writers_wait_until_there_is_room() {
    must_end(|| {
        let limit = || Cache::builder().notification_limit(3, Overflow::Wait);
        let (cache, mut removals) = shared(limit());
        (0..4).for_each(|value| cache.sync().insert(1, value));
        let mut task = Task::waiting(cache.insert(1, 4));
        assert_eq!(cache.sync().get(&1), Some(4), "it has happened, and the task is held back");
        let (begun, beginning) = channel();
        let writer = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                begun.send(()).unwrap();
                cache.sync().insert(1, 5);
            })
        };
        beginning.recv().unwrap();
        eventually("the thread writes", || cache.sync().get(&1) == Some(5));
        assert!(!writer.is_finished(), "the thread goes on");
        for value in 0..2 {
            assert_eq!(*removals.try_recv().unwrap().value(), value);
        }
        writer.join().unwrap();
        assert!(task.is_woken());
        task.run();
        // A receiver that goes away holds nobody back.
        let held = Task::waiting(cache.insert(1, 6));
        drop(removals);
        held.end();
        (7..20).for_each(|value| cache.sync().insert(1, value));
        assert_eq!(cache.stats().pending_notifications, 0);
        drop(task);

        // Nor does one that nobody has taken.
        let builder = limit().removals(true);
        let cache = tasks_audited(builder.build());
        (0..20).for_each(|value| cache.sync().insert(1, value));
        let mut removals = cache.removals().unwrap();
        assert_eq!(removals.waiting(), 19);
        while removals.try_recv().is_some() {}
    });
}

#[test]
fn the_stream_ends_after_the_last_removal() {
    let (cache, mut removals) = shared(Cache::builder());
    (0..3).for_each(|key| cache.sync().insert(key, key));
    at_once(cache.close());
    let mut received = Vec::new();
    while let Some(removed) = at_once(removals.recv()) {
        received.push(told(&removed));
    }
    received.sort_unstable_by_key(|&(key, ..)| key);
    assert_eq!(received, [0, 1, 2].map(|key| (key, key, RemovalCause::Explicit)));
    at_once(cache.insert(4, 4));
    assert!(at_once(removals.recv()).is_none(), "there is nothing after the end");
    assert_eq!(cache.stats().refused_after_close, 1);

    // A cache that is dropped announces what has left, and nothing else.
    let builder: Builder = Cache::builder().removals(true);
    let cache = tasks_audited(builder.build());
    let mut removals = cache.removals().unwrap();
    let mut next = Task::waiting(async { removals.recv().await.map(|removed| told(&removed)) });
    at_once(cache.insert(1, 1));
    at_once(cache.insert(2, 2));
    at_once(cache.remove(&1));
    next.run();
    assert_eq!(next.result(), Some((1, 1, RemovalCause::Explicit)));
    at_once(cache.remove(&2));
    at_once(cache.insert(3, 3));
    drop(cache);
    let last = at_once(removals.recv()).unwrap();
    assert_eq!(told(&last), (2, 2, RemovalCause::Explicit));
    assert!(at_once(removals.recv()).is_none());
    drop(last);
}

/// The end wakes a receiver that waits.
#[test]
fn the_end_wakes_the_receiver() {
    for closes in [false, true] {
        let builder: Builder = Cache::builder().removals(true);
        let cache = tasks_audited(builder.build());
        let mut removals = cache.removals().unwrap();
        let next = Task::waiting(removals.recv());
        if closes {
            at_once(cache.close());
        }
        drop(cache);
        assert!(next.is_woken());
        assert!(next.end().is_none());
    }
}

/// A dropped future of `recv` leaves the removal to the next call.
#[test]
fn a_cancelled_recv_loses_nothing() {
    let (cache, mut removals) = shared(Cache::builder());
    at_once(cache.insert(1, 0));
    for value in 0..100 {
        let waiting = Task::waiting(removals.recv());
        at_once(cache.insert(1, value + 1));
        assert!(waiting.is_woken());
        drop(waiting);
        assert_eq!(at_once(removals.recv()).as_ref().map(told).unwrap().1, value);
    }
}

/// The waker of the last poll is the one that counts, and it is called once.
#[test]
fn the_last_waker_is_called_once() {
    let (cache, mut removals) = shared(Cache::builder());
    at_once(cache.insert(1, 0));
    let first = Task::waiting(removals.recv());
    drop(first);
    let mut second = Task::waiting(removals.recv());
    (1..10).for_each(|value| cache.sync().insert(1, value));
    assert!(second.is_woken());
    assert_eq!(second.wakers(), 0, "the waker is kept although it was called");
    second.run();
}

/// Writers that wait for room are not woken before there is some.
#[test]
fn an_item_that_leaves_no_room_wakes_no_writer() {
    must_end(|| {
        let (cache, mut removals) = shared(Cache::builder().notification_limit(2, Overflow::Wait));
        at_once(cache.insert_many((0..10).map(|key| (key, 0))));
        (0..2).for_each(|key| at_once(cache.invalidate(&key)));
        let keys: Vec<u64> = (2..10).collect();
        let waiting: Vec<_> = keys.iter().map(|key| Task::waiting(cache.invalidate(key))).collect();
        while removals.waiting() > 3 {
            removals.try_recv().unwrap();
            assert!(!waiting.iter().any(Task::is_woken), "{} wait", removals.waiting());
        }
        removals.try_recv().unwrap();
        waiting.into_iter().for_each(Task::end);
        drop(removals);
    });
}

#[test]
fn a_receiver_and_a_listener_exclude_each_other() {
    let builder = Cache::<u64, u64>::builder().removals(true).removal_listener(drop);
    assert_eq!(builder.try_build().unwrap_err().setting(), "removals");
    let cache = tasks_audited(Cache::<u64, u64>::builder().build());
    assert!(cache.removals().is_none());
}

/// Wakes a thread, and notes the names of those on which it is called.
struct Callers {
    sleeper: thread::Thread,
    names: Mutex<Vec<String>>,
}

impl Wake for Callers {
    fn wake(self: Arc<Self>) {
        let caller = thread::current();
        self.names.lock().unwrap().push(caller.name().unwrap_or_default().to_owned());
        self.sleeper.unpark();
    }
}

/// With a scheduler, an idle cache wakes its receiver when something expires; never on the
/// scheduler's thread, for a waker is user code.
#[test]
fn an_idle_cache_wakes_its_receiver() {
    must_end(|| {
        let builder = Cache::builder().scheduler(true).time_to_live(Duration::from_millis(20));
        let builder = builder.expiry_resolution(Duration::from_millis(1));
        let (cache, mut removals) = shared(builder);
        let callers =
            Arc::new(Callers { sleeper: thread::current(), names: Mutex::new(Vec::new()) });
        let waker = Waker::from(Arc::clone(&callers));
        for key in 1..=20 {
            at_once(cache.insert(key, key));
            let removed = loop {
                match removals.poll_recv(&mut Context::from_waker(&waker)) {
                    Poll::Ready(removed) => break removed.unwrap(),
                    Poll::Pending => thread::park(),
                }
            };
            assert_eq!(told(&removed), (key, key, RemovalCause::Expired));
        }
        let names = callers.names.lock().unwrap();
        assert!(!names.is_empty(), "nobody has called the waker");
        assert!(names.iter().all(|name| name == "cortado-worker"), "{names:?}");
    });
}

/// A poll within a load finds what waits, and a waker is called when the load has ended.
#[test]
fn a_receiver_is_woken_outside_of_loads() {
    let (cache, mut removals) = shared(Cache::builder());
    at_once(cache.insert(2, 0));
    let next = Task::waiting(removals.recv());
    let loaded = cache.sync().get_with(1, || {
        cache.sync().insert(2, 1);
        u64::from(next.is_woken())
    });
    assert_eq!(loaded, 0, "the waker was called inside the load");
    assert!(next.is_woken());
    assert_eq!(next.end().as_ref().map(told), Some((2, 0, RemovalCause::Replaced)));
}

#[test]
fn polling_is_what_recv_does() {
    let (cache, mut removals) = shared(Cache::builder());
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(removals.poll_recv(&mut context).is_pending());
    at_once(cache.insert(1, 1));
    at_once(cache.invalidate(&1));
    let Poll::Ready(Some(removed)) = removals.poll_recv(&mut context) else { panic!("it waits") };
    assert_eq!(told(&removed), (1, 1, RemovalCause::Explicit));
}

#[cfg(feature = "stream")]
#[test]
fn it_is_a_stream() {
    use futures_util::StreamExt;
    let (cache, removals) = shared(Cache::builder());
    (0..3).for_each(|value| cache.sync().insert(1, value));
    at_once(cache.close());
    let values: Vec<u64> = at_once(removals.map(|removed| *removed.value()).collect());
    assert_eq!(values, [0, 1, 2]);
}

const WAITS: Bound = |builder| builder.notification_limit(1, Overflow::Wait);

/// What a receiver calls itself does not wait for it.
#[test]
fn clearing_closing_and_maintenance_do_not_wait_for_the_receiver() {
    must_end(|| {
        for ending in 0..4 {
            let (clock, hand) = Clock::manual();
            let (cache, mut removals) = shared(WAITS(Cache::builder()).clock(clock));
            (0..10).for_each(|n| at_once(cache.insert_with_ttl(n, n, MINUTE)));
            match ending {
                0 => cache.sync().close(),
                1 => at_once(cache.close()),
                2 => cache.invalidate_all(),
                _ => {
                    hand.advance(2 * MINUTE);
                    at_once(cache.run_pending_tasks());
                }
            }
            at_once(cache.run_pending_tasks());
            let received = std::iter::from_fn(|| removals.try_recv()).count();
            assert_eq!(received, 10, "ending {ending}");
        }
    });
}

/// A job has nothing to do for a receiver that is slow. So it ends, also where an executor runs
/// jobs at once.
#[test]
fn no_job_runs_on_for_a_slow_receiver() {
    must_end(|| {
        let jobs = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&jobs);
        let executor = move |job: cortado::Job| {
            counter.fetch_add(1, SeqCst);
            job();
        };
        let (cache, mut removals) = shared(WAITS(Cache::builder()).executor(executor));
        (0..3).for_each(|n| at_once(cache.insert(n, n)));
        let before = jobs.load(SeqCst);
        cache.invalidate_all();
        cache.sync().run_pending_tasks_up_to(1_000);
        assert!(jobs.load(SeqCst) - before < 10, "{} jobs", jobs.load(SeqCst) - before);
        let write = Task::waiting(cache.insert(9, 9));
        assert_eq!(
            removals.try_recv().map(|removed| removed.cause()),
            Some(RemovalCause::Explicit)
        );
        while removals.try_recv().is_some() {}
        assert!(write.is_woken());
        write.end();
    });
}

/// It waits for the computation of an entry after it has removed others, or is dropped there.
#[test]
fn a_retain_that_waits_wakes_the_receiver() {
    must_end(|| {
        for computed in 0..10 {
            let (cache, mut removals) = shared(Cache::builder());
            cache.sync().insert_many((0..10).map(|n| (n, n)));
            let computing = cache.entry(computed).and_compute_with(|_| pending::<Op<u64>>());
            let computing = Task::waiting(computing);
            let receiving = Task::waiting(removals.recv());
            let retaining = Task::waiting(cache.retain(|_, _| false));
            let is_woken = receiving.is_woken();
            drop((receiving, retaining));
            assert!(is_woken || removals.waiting() == 0, "{computed}: it sleeps");
            drop(computing);
        }
    });
}
