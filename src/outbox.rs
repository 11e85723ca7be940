//! Notifications on their way out: an unbounded queue with one deliverer at a time.
//!
//! Anyone pushes, at any time and under any lock: a push takes no lock and runs nobody's code.
//! Items are delivered later, by whoever calls [`deliver`](Outbox::deliver) with no lock held, in
//! the order of the queue, and one after the other.
//!
//! # Rules
//!
//! 1. Who pushes sees to it that [`deliver`](Outbox::deliver) is called afterwards.
//! 2. Only who raised `delivering` pops. A caller that finds it raised, by another thread or
//!    because the callback re-enters, returns at once: its items are delivered by the one who
//!    raised it.
//! 3. Therefore who lowers `delivering` looks at the queue again, and goes on if it is not empty.
//!    After its limit it says `more` instead, and the caller must arrange for another call.
//! 4. When the callback panics, `delivering` is lowered and the panic goes on to the caller of
//!    `deliver`. The item is gone; the others stay, and who catches the panic owes another call.
//!
//! 5. Who [waits](Outbox::wait_until) for progress sleeps, and is woken after each item and by
//!    whoever lowers `delivering`.
//!
//! Then **no item is stranded**. A caller that returned at once swapped `true` for `true`; that
//! came before the deliverer's swap for `false`, which therefore sees the item (release and
//! acquire).
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, the deliverer | both | crossbeam's | the items |
//! | `delivering` | each caller: swap `true`; the deliverer: swap `false` | the next of these, and `is_idle` | AcqRel with AcqRel and Acquire | pushed items to the deliverer that lowers it; what one callback did to the next deliverer's and to whoever finds the outbox idle |
//!
//! | `waiting` | those who wait | the deliverer | Relaxed, between fences | that somebody is to be woken |
//!
//! # Alternatives that lost
//!
//! * A mutex held while the callback runs: a callback that re-enters deadlocks.
//! * Lowering by a store: needs a `SeqCst` fence on both sides before the second look is worth
//!   anything.

use crate::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};
use crate::sync::queue::SegQueue;
use crate::sync::{Condvar, Mutex, seeded};
use std::time::Duration;

/// What a call of [`Outbox::deliver`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Delivered {
    /// How many items went through the callback.
    pub count: usize,
    /// The limit was reached and items are left for which nobody else cares.
    pub more: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Outbox<T> {
    queue: SegQueue<T>,
    delivering: AtomicBool,
    waiting: AtomicUsize,
    gate: Mutex<()>,
    progress: Condvar,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Outbox<T> {
    /// Empty.
    pub fn new() -> Self {
        Self {
            queue: SegQueue::new(),
            delivering: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            progress: Condvar::new(),
        }
    }

    /// Adds an item at the end. Takes no lock.
    #[inline]
    pub fn push(&self, item: T) {
        self.queue.push(item);
    }

    /// Hands at most `limit` items to `callback`, in order, unless somebody is at it.
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
            if seeded("outbox_no_second_look") {
                break;
            }
        }
        Delivered { count, more: false }
    }

    /// Becomes the deliverer, unless there is one.
    fn raise(&self) -> Option<Delivering<'_, T>> {
        let raised = self.delivering.swap(true, AcqRel);
        (!raised || seeded("outbox_two_deliverers")).then(|| Delivering(self))
    }

    /// Sleeps until `done` says so, or for about so long; `Duration::MAX` is for ever. It is asked
    /// again whenever an item has been delivered or a deliverer has stopped; what it looks at
    /// must not change otherwise.
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

    /// Wakes those who wait for progress. Who waits has raised `waiting` and looked after a fence;
    /// this has made the progress and looks after a fence: one of the two sees the other.
    fn tell_waiting(&self) {
        fence(SeqCst);
        if self.waiting.load(Relaxed) > 0 && !seeded("outbox_progress_in_silence") {
            drop(self.gate.lock());
            self.progress.notify_all();
        }
    }

    /// Whether somebody is delivering, as it was a moment ago.
    pub fn is_delivering(&self) -> bool {
        self.delivering.load(Acquire)
    }

    /// Whether no item waits and none is being delivered.
    pub fn is_idle(&self) -> bool {
        // In this order: what was taken from the queue was taken under the flag.
        self.queue.is_empty() && !self.delivering.load(Acquire)
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Lowers the flag at the end, also of a callback that panics.
struct Delivering<'a, T>(&'a Outbox<T>);

impl<T> Drop for Delivering<'_, T> {
    fn drop(&mut self) {
        self.0.delivering.swap(false, AcqRel);
        self.0.tell_waiting();
    }
}
