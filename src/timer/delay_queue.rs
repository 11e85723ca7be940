//! The queue of delayed items for tasks on a tokio runtime. With the features `timer` and `tokio`.
//!
//! The names are those of tokio-util's `time::delay_queue`, so moving over is a change of `use`
//! lines and of the type of the key:
//!
//! | tokio-util | here |
//! |---|---|
//! | `tokio_util::time::DelayQueue` | `cortado::timer::delay_queue::DelayQueue` |
//! | `tokio_util::time::delay_queue::{Expired, Key}` | `cortado::timer::delay_queue::{Expired, Key}` |
//! | a key may name another item once its own has left | a key never names another item |
//! | a timeout of more than two years panics | any timeout, up to 584 years |
//! | `remove`, `reset` and `deadline` panic if the item has left | the same; `try_remove`, `try_reset` and `try_deadline` do not |
//! | `deadline` is rounded up to a millisecond | `deadline` is exact; the item comes at the same time |
//! | `compact` moves items, and keeps a map of their keys from then on; `shrink_to_fit` moves none | both are one: items stay where they are. Memory between items stays, too; memory without items is given back without a call, but for 1,024 places |
//! | `reset` may wake the task though nothing is due, for the wheel to move on | `reset` to a later deadline wakes nobody; the task wakes at the old one, once for any number of resets, and sleeps on |
//! | a task that takes due items in a loop keeps its thread | it yields after 128 items, and after 1,024 that it has looked at |
//!
//! Of the 35 tests of tokio-util 0.7.19, 34 pass here with the path renamed. The other one,
//! `reset_later_after_slot_starts`, expects the wake-up that the row about `reset` describes. It is
//! not made here, since it would have the task look at the queue for nothing.

use super::id::TimerId;
use super::queue::{self, Polled, TICK};
use crate::waiters::Streak;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The name of an item in the queue.
pub type Key = TimerId;

/// So many items are looked at in one poll. Then other tasks have their turn.
const BUDGET: u32 = 1024;

/// A queue's time begins this long before its creation, because the queue may move to a runtime
/// whose time is behind.
const BEFORE: Duration = Duration::from_secs(86_400);

/// Items that wait for a deadline each, by the clock of a tokio runtime. See the
/// [module](super::delay_queue) for what differs from tokio-util's.
///
/// It is a stream of due items: [`next`](Self::next) and [`poll_expired`](Self::poll_expired); with
/// the feature `stream` also a `futures_core::Stream`. It sleeps by the runtime's timer, so paused
/// time works. All of it happens in the task that polls it; no other task and no thread is needed.
/// If the runtime ends, another one may go on with the queue. A runtime that has not ended may
/// stand still, because nobody runs it. To leave such a one, poll the queue by another task: as
/// long as the waker is the same, the queue sleeps by the first runtime's timer.
///
/// An item is handed out at its deadline, rounded up to a whole millisecond since the creation of
/// the queue, and never early. It comes with a `tokio::time::sleep_until` of that instant, which
/// the runtime's timer may end another millisecond later. The promises of
/// [`timer::DelayQueue`](super::DelayQueue) hold.
///
/// ```
/// use cortado::timer::delay_queue::DelayQueue;
/// use std::time::Duration;
///
/// #[tokio::main(flavor = "current_thread", start_paused = true)]
/// async fn main() {
///     let mut sessions = DelayQueue::new();
///     let ann = sessions.insert("ann", Duration::from_secs(30));
///     sessions.insert("bob", Duration::from_secs(60));
///     sessions.reset(&ann, Duration::from_secs(90));
///
///     assert_eq!(sessions.next().await.unwrap().into_inner(), "bob");
///     assert_eq!(sessions.next().await.unwrap().into_inner(), "ann");
///     assert!(sessions.next().await.is_none());
/// }
/// ```
pub struct DelayQueue<T> {
    queue: queue::DelayQueue<T>,
    /// The origin of the queue's time.
    start: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
    /// The deadline that the task sleeps for; `None` if it waits for an insertion.
    awaited: Option<Duration>,
    /// The task that waits.
    waker: Option<Waker>,
    streak: Streak,
}

/// An item that has left a queue, with what the queue knew of it.
pub type Expired<T> = queue::Expired<T, Instant>;

impl<T> DelayQueue<T> {
    /// Creates an empty queue, whose time begins now.
    ///
    /// It needs the runtime only when it has to sleep: [`poll_expired`](Self::poll_expired) panics
    /// outside of a runtime with time enabled.
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::now();
        let mut new = Self {
            queue: queue::DelayQueue::new(),
            start: now.checked_sub(BEFORE).unwrap_or(now),
            sleep: None,
            awaited: None,
            waker: None,
            streak: Streak::default(),
        };
        // Brings the wheel to the present. Otherwise all items would wait in its coarse levels.
        let _ = new.queue.poll(new.now(), &mut 1);
        new
    }

    /// Creates an empty queue with memory for so many items.
    ///
    /// # Panics
    ///
    /// Panics if these are more than 2,147,482,624.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut queue = Self::new();
        queue.reserve(capacity);
        queue
    }

    /// Inserts an item that is due after `timeout`. Wakes the task that polls the queue, if the
    /// item is due sooner than all others.
    ///
    /// # Panics
    ///
    /// Panics if there are 2,147,482,624 items.
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        self.insert_after(value, self.now().saturating_add(timeout))
    }

    /// Inserts an item that is due at `when`; at the next poll if that has passed by two
    /// milliseconds or more.
    ///
    /// # Panics
    ///
    /// Panics if there are 2,147,482,624 items.
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        self.insert_after(value, self.since_start(when))
    }

    fn insert_after(&mut self, value: T, deadline: Duration) -> Key {
        let key = self.queue.insert_at(value, deadline);
        self.wake_before(deadline);
        key
    }

    /// Takes an item out before its time. Wakes the task that polls the queue, if it was the last
    /// one.
    ///
    /// # Panics
    ///
    /// Panics if the item has left; [`try_remove`](Self::try_remove) does not.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        self.try_remove(key).expect("the item has left the queue")
    }

    /// Takes an item out before its time. `None` if it has left. Wakes the task that polls the
    /// queue, if it was the last one.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let removed = self.queue.try_remove(key)?;
        self.wake_if_empty();
        Some(self.expired(removed))
    }

    /// Gives an item a new timeout, from now on.
    ///
    /// # Panics
    ///
    /// Panics if the item has left; [`try_reset`](Self::try_reset) does not.
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        assert!(self.try_reset(key, timeout), "the item has left the queue");
    }

    /// Gives an item a new deadline.
    ///
    /// # Panics
    ///
    /// Panics if the item has left.
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        let deadline = self.since_start(when);
        assert!(self.reset_after(key, deadline), "the item has left the queue");
    }

    /// Gives an item a new timeout, from now on. False if it has left.
    pub fn try_reset(&mut self, key: &Key, timeout: Duration) -> bool {
        let deadline = self.now().saturating_add(timeout);
        self.reset_after(key, deadline)
    }

    fn reset_after(&mut self, key: &Key, deadline: Duration) -> bool {
        let is_there = self.queue.try_reset_at(key, deadline);
        if is_there {
            self.wake_before(deadline);
        }
        is_there
    }

    /// The deadline of an item.
    ///
    /// # Panics
    ///
    /// Panics if the item has left; [`try_deadline`](Self::try_deadline) does not.
    #[track_caller]
    #[must_use]
    pub fn deadline(&self, key: &Key) -> Instant {
        self.try_deadline(key).expect("the item has left the queue")
    }

    /// The deadline of an item; `None` if it has left. If an `Instant` cannot hold the deadline,
    /// this returns the instant in 30 years.
    #[must_use]
    pub fn try_deadline(&self, key: &Key) -> Option<Instant> {
        self.queue.try_deadline(key).map(|deadline| self.instant(deadline))
    }

    /// The key of an item that is due first; `None` if the queue is empty.
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.queue.soonest().next().map(|(key, _, _)| key)
    }

    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops all items. Keys stay invalid. Wakes the task that polls the queue, if there were any.
    pub fn clear(&mut self) {
        let had_items = !self.is_empty();
        // The task is woken also if a destructor of an item panics.
        let items = self.queue.drain();
        if had_items {
            self.wake_if_empty();
        }
        drop(items);
    }

    /// The number of items for which there is memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    /// Makes room for `additional` items, as
    /// [`timer::DelayQueue::reserve`](super::DelayQueue::reserve) does.
    ///
    /// # Panics
    ///
    /// Panics if there would be more than 2,147,482,624 items.
    pub fn reserve(&mut self, additional: usize) {
        self.queue.reserve(additional);
    }

    /// Gives memory back that holds no item, as
    /// [`timer::DelayQueue::shrink_to_fit`](super::DelayQueue::shrink_to_fit) does. Keys stay
    /// valid.
    pub fn shrink_to_fit(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// The same as [`shrink_to_fit`](Self::shrink_to_fit). (In tokio-util, this one moves items,
    /// and the other does not.)
    pub fn compact(&mut self) {
        self.shrink_to_fit();
    }

    /// The queue under this one. Use it to iterate, and to look at the item of a key. Its deadlines
    /// are durations since the creation of this queue.
    #[must_use]
    pub fn get_ref(&self) -> &queue::DelayQueue<T> {
        &self.queue
    }

    /// Awaits the next item that is due. `None` if the queue is empty; it may be filled again.
    ///
    /// *Cancellation*: dropping the future loses no item.
    pub async fn next(&mut self) -> Option<Expired<T>> {
        poll_fn(|context| self.poll_expired(context)).await
    }

    /// Polls for the next item that is due. `Ready(None)` means that the queue is empty now;
    /// `Pending`, that nothing is due. After both, the task of the last poll is woken when the next
    /// poll would have another result.
    ///
    /// Other tasks run in between, however many items are due: a poll returns `Pending` and wakes
    /// the task at once
    ///
    /// * after it has looked at 1,024 items;
    /// * after 128 items in turn.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, and in a runtime whose time is not enabled.
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        if self.streak.must_yield(context) {
            return Poll::Pending;
        }
        let poll = self.poll_due(context);
        self.streak.note(poll)
    }

    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        // The time of another runtime, which was paused, may have been ahead of this one's.
        let now = self.now();
        self.queue.rewind(now);
        // The runtime's timer is late by up to a tick. So what is due since then comes by a sleep.
        let mut reached = now.saturating_sub(TICK);
        let mut budget = BUDGET;
        loop {
            match self.queue.poll(reached, &mut budget) {
                Polled::Due(expired) => return Poll::Ready(Some(self.expired(expired))),
                Polled::Exhausted => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Polled::Idle => {}
            }
            self.awaited = self.queue.next_deadline();
            if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                self.waker = Some(context.waker().clone());
                // The old one may belong to a runtime that stands still.
                self.sleep = None;
            }
            let Some(until) = self.awaited else { return Poll::Ready(None) };
            if self.poll_sleep(until, context).is_pending() {
                return Poll::Pending;
            }
            let now = self.now();
            reached = now.saturating_sub(TICK).max(until.min(now));
        }
    }

    fn poll_sleep(&mut self, until: Duration, context: &mut Context<'_>) -> Poll<()> {
        let until = self.instant(until);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        // A new one belongs to the present runtime. The old one may belong to another, which stands
        // still, or has ended: its end has elapsed all its sleeps, and a poll would panic.
        if sleep.deadline() != until || sleep.is_elapsed() {
            sleep.set(sleep_until(until));
        }
        sleep.as_mut().poll(context)
    }

    /// Wakes the task that waits, unless it will be awake by then.
    fn wake_before(&mut self, deadline: Duration) {
        if self.awaited.is_none_or(|awaited| deadline < awaited)
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    /// An empty queue is the end of the stream, and not only at the deadline of what was in it.
    fn wake_if_empty(&mut self) {
        if self.is_empty()
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    fn expired(&self, expired: queue::Expired<T>) -> Expired<T> {
        let queue::Expired { key, deadline, value } = expired;
        Expired { key, deadline: self.instant(deadline), value }
    }

    fn now(&self) -> Duration {
        self.since_start(Instant::now())
    }

    fn since_start(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.start)
    }

    fn instant(&self, deadline: Duration) -> Instant {
        /// tokio itself sleeps no longer than two years at a time.
        const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);
        self.start.checked_add(deadline).unwrap_or_else(|| Instant::now() + FAR)
    }
}

/// Items are never pinned: they move when they are handed out.
impl<T> Unpin for DelayQueue<T> {}

#[cfg(feature = "stream")]
impl<T> futures_core::Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_expired(context)
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}
