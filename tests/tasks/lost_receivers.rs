//! Receivers that are dropped: what happens to removals then, and to writers that wait for room.

use crate::common::audited::tasks_audited;
use crate::common::must_end;
use crate::common::noted::eventually;
use crate::hand::{Task, at_once};
use crate::received::{shared, told};
use cortado::future::Cache;
use cortado::{Overflow, RemovalCause, Removals};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

/// What nobody receives is dropped, with the receiver or after it.
#[test]
fn what_is_not_received_is_dropped() {
    struct Counted(Arc<AtomicU64>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let drops = Arc::new(AtomicU64::new(0));
    let cache = tasks_audited(Cache::builder().removals(true).build());
    let removals = cache.removals().unwrap();
    let discarded = || cache.stats().discarded_notifications;
    for _ in 0..10 {
        at_once(cache.insert(1, Counted(Arc::clone(&drops))));
    }
    cache.sync().run_pending_tasks();
    assert_eq!(drops.load(SeqCst), 0, "they wait for the receiver");
    // Guards of other tests may keep what was removed for a while.
    let dropped = || {
        cache.sync().run_pending_tasks();
        drops.load(SeqCst)
    };
    assert_eq!(discarded(), 0);
    drop(removals);
    assert_eq!(discarded(), 9);
    eventually("what was removed is dropped", || dropped() == 9);
    at_once(cache.insert(1, Counted(Arc::clone(&drops))));
    eventually("what was removed is dropped", || dropped() == 10);
    assert_eq!(discarded(), 10);
}

/// A task that receives may fail. Another one takes its place.
#[test]
fn a_receiver_may_be_taken_again_when_the_first_is_dropped() {
    must_end(|| {
        let (cache, removals) = shared(Cache::builder().notification_limit(1, Overflow::Wait));
        at_once(cache.insert(1, 0));
        at_once(cache.insert(1, 1));
        let waiting = Task::waiting(cache.insert(1, 2));
        drop(removals);
        waiting.end();
        (3..6).for_each(|value| at_once(cache.insert(1, value)));
        let mut removals = cache.removals().unwrap();
        assert!(cache.removals().is_none());
        let mut next = Task::waiting(removals.recv());
        at_once(cache.insert(1, 6));
        assert!(next.is_woken() && next.poll());
        assert_eq!(next.result().as_ref().map(told), Some((1, 5, RemovalCause::Replaced)));
        assert_eq!(cache.stats().discarded_notifications, 5);
        // The limit holds again.
        at_once(cache.insert(1, 7));
        let waiting = Task::waiting(cache.insert(1, 8));
        assert_eq!((removals.waiting(), removals.try_recv().map(|it| *it.value())), (2, Some(6)));
        waiting.end();
        drop(removals);
    });
}

/// Takes the next receiver when it is woken.
struct Takes(cortado::Cache<u64, u64>, Mutex<Option<Removals<u64, u64>>>);

impl Wake for Takes {
    fn wake(self: Arc<Self>) {
        *self.1.lock().unwrap() = self.0.removals();
    }
}

/// While the end of one receiver drops what waits, another one is taken: by a writer that has got
/// room. What is left by then is the next one's.
#[test]
fn the_end_of_a_receiver_leaves_the_next_one_the_rest() {
    must_end(|| {
        let (cache, first) = shared(Cache::builder().notification_limit(5, Overflow::Wait));
        (0..6).for_each(|value| at_once(cache.insert(1, value)));
        let waiting: Vec<_> = (6..10).map(|value| Task::waiting(cache.insert(1, value))).collect();
        let takes = Arc::new(Takes(cache.sync().clone(), Mutex::new(None)));
        let waker = Waker::from(Arc::clone(&takes));
        let mut last = pin!(cache.insert(1, 10));
        assert!(last.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(first);
        let mut second = takes.1.lock().unwrap().take().expect("the writer has got room");
        assert_eq!((second.waiting(), cache.stats().discarded_notifications), (5, 5));
        assert_eq!(second.try_recv().map(|removed| *removed.value()), Some(5));
        waiting.into_iter().for_each(Task::end);
        assert!(last.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        drop(second);
    });
}

/// A destructor may take its time while the end of the first receiver drops what waits.
#[test]
fn the_end_of_a_receiver_is_not_the_end_of_the_removals() {
    struct Slow(u64, Sender<()>, Arc<Mutex<Receiver<()>>>);
    impl Drop for Slow {
        fn drop(&mut self) {
            if self.0 == 0 {
                self.1.send(()).unwrap();
                self.2.lock().unwrap().recv().unwrap();
            }
        }
    }
    must_end(|| {
        let ((begin, begun), (end, ended)) = (channel(), channel());
        let ended = Arc::new(Mutex::new(ended));
        let cache = tasks_audited(Cache::builder().removals(true).build());
        let first = cache.removals().unwrap();
        for value in 0..3 {
            at_once(cache.insert(1, Slow(value, begin.clone(), Arc::clone(&ended))));
        }
        cache.sync().close();
        // No reader of another cache holds up the drop then: the notices have the last counts.
        while cache.sync().run_pending_tasks_up_to(64).reclamations > 0 {
            thread::yield_now();
        }
        thread::scope(|scope| {
            let dropping = scope.spawn(|| drop(first));
            begun.recv().unwrap();
            let mut second = cache.removals().unwrap();
            let mut waiting = Task::new(second.recv());
            assert!(!waiting.poll(), "one is being dropped, and others wait");
            end.send(()).unwrap();
            dropping.join().unwrap();
            assert!(waiting.is_woken());
            assert_eq!(waiting.end().map(|removed| removed.value().0), Some(1));
            drop(second);
        });
    });
}

/// A removal beside the end may be queued when the receiver has seen the end, and is kept. Writers
/// do not wait for it, and those who wait already go on.
#[test]
fn after_the_end_no_writer_waits_for_the_receiver() {
    must_end(|| {
        let (cache, removals) = shared(Cache::builder().notification_limit(1, Overflow::Wait));
        (0..3).for_each(|key| at_once(cache.insert(key, 0)));
        at_once(cache.insert(0, 1));
        let task = Task::waiting(cache.insert(0, 2));
        let writer = cache.sync().clone();
        let writes = thread::spawn(move || writer.insert(1, 1));
        assert!(!task.is_woken());
        cache.sync().close();
        task.end();
        writes.join().unwrap();
        cache.sync().insert(3, 0);
        at_once(cache.invalidate(&4));
        assert!(removals.waiting() > 1, "more wait than the limit allows");
    });
}
