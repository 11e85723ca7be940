//! The queue on a tokio runtime whose time stands still until it is moved.

use cortado::timer::delay_queue::{DelayQueue, Key};
use futures_util::StreamExt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{Instant, advance};

const MS: Duration = Duration::from_millis(1);

fn paused_runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.unwrap()
}

pub fn on_a_runtime(test: impl Future<Output = ()>) {
    paused_runtime().block_on(test);
}

/// Counts how often it is woken.
#[derive(Default)]
pub struct Woken(pub AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

pub fn poll<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> Poll<Option<T>> {
    queue.poll_expired(&mut Context::from_waker(waker)).map(|it| it.map(|it| it.into_inner()))
}

#[test]
fn items_come_when_the_runtimes_time_has_come() {
    on_a_runtime(async {
        let start = Instant::now();
        let mut queue = DelayQueue::new();
        for ms in [5, 700, 30, 5, 90_000] {
            queue.insert(ms, MS * ms);
        }
        let mut told = Vec::new();
        while let Some(expired) = queue.next().await {
            assert_eq!(start.elapsed(), MS * *expired.get_ref(), "on time");
            assert_eq!(expired.deadline(), start + MS * *expired.get_ref());
            told.push(expired.into_inner());
        }
        assert_eq!(told, [5, 5, 30, 700, 90_000]);
    });
}

#[test]
fn it_is_a_stream() {
    on_a_runtime(async {
        let mut queue = DelayQueue::with_capacity(10);
        assert!(queue.capacity() >= 10);
        (1..=9).for_each(|n| _ = queue.insert(n, MS * (10 - n)));
        let told: Vec<u32> = StreamExt::map(queue, |expired| expired.into_inner()).collect().await;
        assert_eq!(told, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    });
}

/// Of items of any type: futures, too, which must not move once they have been polled.
#[test]
fn it_is_a_stream_of_what_cannot_be_unpinned() {
    on_a_runtime(async {
        let mut queue = DelayQueue::new();
        queue.insert(async { 7 }, MS);
        let expired = StreamExt::next(&mut queue).await.unwrap();
        assert_eq!(expired.into_inner().await, 7);
    });
}

#[test]
fn an_earlier_item_wakes_the_task_and_a_later_one_does_not() {
    on_a_runtime(async {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut queue = DelayQueue::new();
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(None), "empty");
        let first = queue.insert(1, MS * 100);
        assert_eq!(woken.0.load(SeqCst), 1, "it is not empty any more");
        assert_eq!(poll(&mut queue, &waker), Poll::Pending);
        queue.insert(2, MS * 200);
        queue.reset(&first, MS * 150);
        assert_eq!(woken.0.load(SeqCst), 1, "nothing is due sooner");
        queue.insert(3, MS * 50);
        assert_eq!(woken.0.load(SeqCst), 2);
        assert_eq!(poll(&mut queue, &waker), Poll::Pending);
        advance(MS * 50).await;
        assert_eq!(woken.0.load(SeqCst), 3, "the runtime's timer");
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some(3)));
        assert_eq!(poll(&mut queue, &waker), Poll::Pending);
        queue.reset(&first, MS);
        assert_eq!(woken.0.load(SeqCst), 4);
    });
}

/// An empty queue is an end of the stream: whoever waits hears of it at once.
#[test]
fn a_queue_that_becomes_empty_wakes_the_task() {
    on_a_runtime(async {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut queue = DelayQueue::new();
        let keys = [1, 2].map(|n| queue.insert(n, MS * 100 * n));
        assert_eq!(poll(&mut queue, &waker), Poll::Pending);
        queue.remove(&keys[1]);
        assert!(queue.try_remove(&keys[1]).is_none());
        assert_eq!(woken.0.load(SeqCst), 0, "an item is left");
        assert!(queue.try_remove(&keys[0]).is_some());
        assert_eq!(woken.0.load(SeqCst), 1);
        assert_eq!(poll(&mut queue, &waker), Poll::Ready(None));
        queue.clear();
        assert_eq!(woken.0.load(SeqCst), 1, "it was empty");

        queue.insert(3, MS * 100);
        assert_eq!((woken.0.load(SeqCst), poll(&mut queue, &waker)), (2, Poll::Pending));
        queue.clear();
        assert_eq!((woken.0.load(SeqCst), poll(&mut queue, &waker)), (3, Poll::Ready(None)));
    });
}

#[test]
fn keys_are_those_of_items_that_are_there() {
    on_a_runtime(async {
        let mut queue = DelayQueue::new();
        let key: Key = queue.insert("a", MS * 10);
        assert_eq!(queue.deadline(&key), Instant::now() + MS * 10);
        queue.reset_at(&key, Instant::now() + MS * 20);
        assert_eq!(queue.deadline(&key), Instant::now() + MS * 20);
        assert_eq!(queue.peek(), Some(key));
        let removed = queue.remove(&key);
        assert_eq!((removed.key(), *removed.get_ref()), (key, "a"));
        assert!(queue.is_empty() && queue.peek().is_none());
        assert!(queue.try_remove(&key).is_none() && queue.try_deadline(&key).is_none());
        assert!(!queue.try_reset(&key, MS));
        let far = queue.insert("far", Duration::MAX);
        assert!(queue.deadline(&far) > Instant::now() + Duration::from_secs(1 << 28));
        queue.insert_at("past", Instant::now() - MS);
        assert_eq!(queue.next().await.unwrap().into_inner(), "past");
        queue.clear();
        assert_eq!(queue.len(), 0);
    });
}

/// A burst does not keep the other tasks of the runtime waiting.
#[test]
fn a_poll_is_bounded() {
    on_a_runtime(async {
        let mut queue = DelayQueue::new();
        // They cascade, all at once, before the first of them is due.
        (0..5000).for_each(|n| _ = queue.insert(n, MS * 70));
        queue.insert(5000, MS * 100);
        advance(MS * 70).await;
        let mut pending = 0;
        let first = poll_fn(|context| match queue.poll_expired(context) {
            Poll::Pending => {
                pending += 1;
                Poll::Pending
            }
            ready => ready,
        });
        assert!(first.await.is_some());
        assert!(pending >= 4, "{pending} turns for 5,000 items");
    });
}

#[test]
fn a_cancelled_next_loses_nothing() {
    on_a_runtime(async {
        let mut queue = DelayQueue::new();
        queue.insert(1, MS * 10);
        let timeout = tokio::time::timeout(MS * 5, queue.next()).await;
        assert!(timeout.is_err());
        assert_eq!(queue.next().await.unwrap().into_inner(), 1);
    });
}

/// A loop over many due items leaves the runtime to others after each 128, and is woken then.
#[test]
fn a_loop_over_due_items_yields() {
    on_a_runtime(async {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut queue = DelayQueue::new();
        (0..1000).for_each(|n| _ = queue.insert(n, MS));
        queue.insert(1000, MS * 50);
        advance(MS).await;
        let (mut told, mut in_turn, mut yields) = (Vec::new(), 0, 0);
        while told.len() < 1000 {
            match poll(&mut queue, &waker) {
                Poll::Ready(item) => {
                    told.extend(item);
                    in_turn += 1;
                    assert!(in_turn <= 128, "no yield in {in_turn} items");
                }
                Poll::Pending => {
                    (in_turn, yields) = (0, yields + 1);
                    assert_eq!(woken.0.load(SeqCst), yields, "it is woken at once");
                }
            }
        }
        told.sort_unstable();
        assert!(told.into_iter().eq(0..1000));
        assert_eq!(yields, 1000 / 128);
        // Nothing is due: this wait is no yield.
        assert_eq!(poll(&mut queue, &waker), Poll::Pending);
        assert_eq!(woken.0.load(SeqCst), yields);
    });
}

/// A queue outlives the runtime in which it has waited.
#[test]
fn a_queue_goes_on_in_another_runtime() {
    let mut queue = DelayQueue::new();
    queue.insert(1, MS * 20);
    on_a_runtime(async {
        assert!(poll(&mut queue, Waker::noop()).is_pending());
    });
    on_a_runtime(async { assert_eq!(queue.next().await.unwrap().into_inner(), 1) });
    // One whose deadline has changed since does not wait in a runtime that stands still.
    let first = paused_runtime();
    let key = queue.insert(2, Duration::from_secs(3600));
    first.block_on(async { assert!(poll(&mut queue, Waker::noop()).is_pending()) });
    on_a_runtime(async {
        queue.reset(&key, MS);
        let next = tokio::time::timeout(MS * 1000, queue.next()).await;
        assert_eq!(next.unwrap().unwrap().into_inner(), 2);
    });
    drop(first);
}

/// The time of a paused runtime runs ahead. In another one an item is not due sooner for that.
#[test]
fn a_queue_follows_a_runtime_whose_time_is_behind() {
    let (first, mut queue) = (paused_runtime(), DelayQueue::new());
    first.block_on(async {
        queue.insert(1, Duration::from_secs(3600));
        assert_eq!(queue.next().await.unwrap().into_inner(), 1);
        queue.insert(2, Duration::from_secs(3600));
    });
    drop(first);
    on_a_runtime(async {
        let due = Instant::now() + Duration::from_secs(60);
        queue.insert_at(3, due);
        assert_eq!(queue.next().await.unwrap().into_inner(), 3);
        assert!(Instant::now() >= due, "{:?} early", due - Instant::now());
        assert_eq!(queue.next().await.unwrap().into_inner(), 2);
    });
    // Also one that was created there.
    let mut queue = paused_runtime().block_on(async {
        advance(Duration::from_secs(3600)).await;
        DelayQueue::new()
    });
    on_a_runtime(async {
        let due = Instant::now() + Duration::from_secs(60);
        queue.insert(2, Duration::from_secs(61));
        queue.insert_at(1, due);
        assert_eq!(queue.next().await.unwrap().into_inner(), 1);
        assert!(Instant::now() >= due && Instant::now() < due + MS * 2);
        assert_eq!(queue.next().await.unwrap().into_inner(), 2);
        assert!(Instant::now() < due + MS * 1002);
    });
}

/// Nor does one whose deadline has not changed wait in a runtime that stands still.
#[test]
fn a_queue_waits_in_the_runtime_that_polls_it() {
    let (first, mut queue) = (paused_runtime(), DelayQueue::new());
    queue.insert(1, MS * 20);
    first.block_on(async { assert!(poll(&mut queue, Waker::noop()).is_pending()) });
    on_a_runtime(async {
        let start = Instant::now();
        let next = tokio::time::timeout(MS * 1000, queue.next()).await;
        assert_eq!(next.unwrap().unwrap().into_inner(), 1);
        assert!(start.elapsed() < MS * 1000, "only the limit has polled it");
    });
    drop(first);
}

/// Everything of `timer` may be imported beside the crate `tokio`.
mod beside_tokio {
    use cortado::timer::*;

    #[test]
    fn a_glob_import_hides_no_crate() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut queue = runtime.block_on(async { delay_queue::DelayQueue::new() });
        let key: TimerId = queue.insert(7, super::MS);
        assert_eq!(queue.remove(&key).into_inner(), 7);
    }
}
