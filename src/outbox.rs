//! Notifications on their way out: an unbounded queue with one deliverer at a time.
//!
//! Anyone pushes, at any time and under any lock: a push takes no lock and runs nobody's code. Items
//! are delivered later, by whoever calls [`deliver`](Outbox::deliver) with no lock held, in the order
//! of the queue, and one after the other.
//!
//! # Rules
//!
//! 1. Who pushes sees to it that [`deliver`](Outbox::deliver) is called afterwards.
//! 2. Only who raised `delivering` pops. A caller that finds it raised, by another thread or because
//!    the callback re-enters, returns at once: its items are delivered by the one who raised it.
//! 3. Therefore who lowers `delivering` looks at the queue again, and goes on if it is not empty.
//!    After its limit it says `more` instead, and the caller must arrange for another call.
//! 4. When the callback panics, `delivering` is lowered and the panic goes on to the caller of
//!    `deliver`. The item is gone; the others stay, and who catches the panic owes another call.
//!
//! Then **no item is stranded**. A caller that returned at once swapped `true` for `true`; that came
//! before the deliverer's swap for `false`, which therefore sees the item (release and acquire).
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, the deliverer | both | crossbeam's | the items |
//! | `delivering` | each caller: swap `true`; the deliverer: swap `false` | the next of these, and `is_idle` | AcqRel with AcqRel and Acquire | pushed items to the deliverer that lowers it; what one callback did to the next deliverer's and to whoever finds the outbox idle |
//!
//! # Alternatives that lost
//!
//! * A mutex held while the callback runs: a callback that re-enters deadlocks.
//! * Lowering by a store: needs a `SeqCst` fence on both sides before the second look is worth anything.

use crate::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};
use crate::sync::queue::SegQueue;
use crate::sync::seeded;

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
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Outbox<T> {
    /// Empty.
    pub fn new() -> Self {
        Self { queue: SegQueue::new(), delivering: AtomicBool::new(false) }
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
            }
            drop(delivering);
            if seeded("outbox_no_second_look") {
                break;
            }
        }
        Delivered { count, more: false }
    }

    /// Becomes the deliverer, unless there is one.
    fn raise(&self) -> Option<Delivering<'_>> {
        let raised = self.delivering.swap(true, AcqRel);
        (!raised || seeded("outbox_two_deliverers")).then(|| Delivering(&self.delivering))
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
struct Delivering<'a>(&'a AtomicBool);

impl Drop for Delivering<'_> {
    fn drop(&mut self) {
        self.0.swap(false, AcqRel);
    }
}
