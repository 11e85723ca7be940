//! The outbox: an unbounded queue of notifications, with one deliverer at a time.
//!
//! Any thread may push, at any time and under any lock: a push takes no lock and runs no user code.
//! Items are delivered later, by a thread that calls [`deliver`](Outbox::deliver) with no lock
//! held. They are delivered in the order of the queue, one after the other.
//!
//! # Rules
//!
//! 1. A thread that pushes must ensure that [`deliver`](Outbox::deliver) is called afterwards.
//! 2. Only the thread that raised `delivering` pops. A caller may find it raised, by another thread
//!    or because the callback re-enters. Such a caller returns at once: the thread that raised it
//!    delivers the caller's items.
//! 3. Therefore the thread that lowers `delivering` looks at the queue again, and goes on if it is
//!    not empty. After its limit it returns `more` instead, and the caller must arrange for another
//!    call.
//! 4. When the callback panics, `delivering` is lowered and the panic goes on to the caller of
//!    `deliver`. The item is gone, and the others stay. The code that catches the panic must
//!    arrange for another call.
//! 5. A thread that [waits](Outbox::wait_until) for progress sleeps, and so does a task
//!    ([`ProgressWait`]). It is woken after each item, and whenever `delivering` is lowered. Wakers
//!    are called with no lock held.
//!
//! Then **no item is stranded**. A caller that returned at once swapped `true` for `true`. That
//! swap came before the deliverer's swap for `false`, so the deliverer sees the item (release and
//! acquire).
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, the deliverer | both | crossbeam's | the items |
//! | `delivering` | each caller: swap `true`; the deliverer: swap `false` | the next of these, `is_delivering` and `is_idle` | AcqRel with AcqRel and Acquire | pushed items, to the deliverer that lowers it; the effects of one callback, to the next deliverer and to a thread that finds the outbox idle |
//! | `waiting` | waiting threads and tasks | the deliverer | Relaxed, between fences | that one of them must be woken |
//!
//! # Alternatives that lost
//!
//! * A mutex that is held while the callback runs: a callback that re-enters deadlocks.
//! * Lowering `delivering` by a store: this needs a `SeqCst` fence on both sides, or the second
//!   look proves nothing.

use crate::primitives::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};
use crate::primitives::queue::SegQueue;
use crate::primitives::{Condvar, Mutex, catch_user_panic, seeded};
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The result of [`Outbox::deliver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Delivered {
    /// How many items went through the callback.
    pub count: usize,
    /// Whether the limit was reached and items are left that no other thread will deliver.
    pub more: bool,
}

/// The wakers of waiting tasks, by ticket.
#[derive(Debug, Default)]
struct Sleepers {
    next_ticket: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Outbox<T> {
    queue: SegQueue<T>,
    delivering: AtomicBool,
    waiting: AtomicUsize,
    gate: Mutex<Sleepers>,
    progress: Condvar,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Outbox<T> {
    /// Creates an empty outbox.
    pub fn new() -> Self {
        Self {
            queue: SegQueue::new(),
            delivering: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(Sleepers::default()),
            progress: Condvar::new(),
        }
    }

    /// Adds an item at the end. Takes no lock.
    #[inline]
    pub fn push(&self, item: T) {
        self.queue.push(item);
    }

    /// Hands at most `limit` items to `callback`, in order, unless another call is delivering.
    pub fn deliver(&self, limit: usize, mut callback: impl FnMut(T)) -> Delivered {
        let mut count = 0;
        while !self.queue.is_empty() {
            if count == limit {
                return Delivered { count, more: true };
            }
            let Some(delivering) = self.raise() else {
                return Delivered { count, more: false };
            };
            while count < limit
                && let Some(item) = self.queue.pop()
            {
                count += 1;
                callback(item);
                self.tell_waiting();
            }
            drop(delivering);
            if seeded("outbox-no-second-look") {
                break;
            }
        }
        Delivered { count, more: false }
    }

    /// Makes the caller the deliverer, unless there is one already.
    fn raise(&self) -> Option<Delivering<'_, T>> {
        let raised = self.delivering.swap(true, AcqRel);
        (!raised || seeded("outbox-two-deliverers")).then(|| Delivering(self))
    }

    /// Sleeps until `done` returns true, or for about `limit`; `Duration::MAX` stands for no limit.
    /// `done` is called again whenever an item has been delivered or a deliverer has stopped. Its
    /// answer must not depend on anything else that changes.
    pub fn wait_until(&self, limit: Duration, done: impl Fn(&Self) -> bool) {
        self.waiting.fetch_add(1, Relaxed);
        let mut gate = self.gate.lock();
        // Partner: the fence in `tell_waiting`.
        fence(SeqCst);
        while !done(self) {
            if limit == Duration::MAX {
                gate = self.progress.wait(gate);
            } else {
                gate = self.progress.wait_timeout(gate, limit);
                break;
            }
        }
        drop(gate);
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Wakes the threads that wait for progress. A waiting thread raises `waiting`, passes a fence
    /// and then looks for progress. A deliverer makes progress, passes the fence in here and then
    /// looks at `waiting`. So at least one of the two sees the other.
    fn tell_waiting(&self) {
        fence(SeqCst);
        if self.waiting.load(Relaxed) > 0 && !seeded("outbox-progress-in-silence") {
            let wakers = std::mem::take(&mut self.gate.lock().wakers);
            self.progress.notify_all();
            for waker in wakers.into_values() {
                let _ = catch_user_panic(|| waker.wake());
            }
        }
    }

    /// A task's wait for progress.
    pub fn progress(&self) -> ProgressWait<'_, T> {
        self.waiting.fetch_add(1, Relaxed);
        ProgressWait { outbox: self, ticket: None }
    }

    /// Whether a thread is delivering. The answer may be outdated when this returns.
    pub fn is_delivering(&self) -> bool {
        self.delivering.load(Acquire)
    }

    /// Whether no item is pending and none is being delivered.
    pub fn is_idle(&self) -> bool {
        // The queue comes first: an item leaves it only while the flag is raised.
        self.queue.is_empty() && !self.delivering.load(Acquire)
    }

    /// How many items are pending.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no item is pending.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// A task that waits for progress, as [`Outbox::wait_until`] does for threads. It counts as waiting
/// from its making until it is dropped.
#[derive(Debug)]
pub struct ProgressWait<'a, T> {
    outbox: &'a Outbox<T>,
    ticket: Option<u64>,
}

impl<T> ProgressWait<'_, T> {
    /// Ready if `done` returns true. Otherwise the task is woken when an item has been delivered or
    /// a deliverer has stopped. The answer of `done` must not depend on anything else that changes.
    pub fn poll(&mut self, context: &Context<'_>, done: impl Fn() -> bool) -> Poll<()> {
        let waker = context.waker().clone();
        let mut gate = self.outbox.gate.lock();
        let ticket = *self.ticket.get_or_insert_with(|| {
            gate.next_ticket += 1;
            gate.next_ticket
        });
        let replaced = gate.wakers.insert(ticket, waker);
        // Partner: the fence in `tell_waiting`.
        fence(SeqCst);
        let is_done = done();
        drop(gate);
        drop(replaced);
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<T> Drop for ProgressWait<'_, T> {
    fn drop(&mut self) {
        self.outbox.waiting.fetch_sub(1, Relaxed);
        let Some(ticket) = self.ticket else { return };
        let waker = self.outbox.gate.lock().wakers.remove(&ticket);
        drop(waker);
    }
}

/// Lowers the flag when it is dropped, even by a panic of the callback.
struct Delivering<'a, T>(&'a Outbox<T>);

impl<T> Drop for Delivering<'_, T> {
    fn drop(&mut self) {
        self.0.delivering.swap(false, AcqRel);
        self.0.tell_waiting();
    }
}
