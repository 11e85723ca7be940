//! The read buffer: striped, lossy, carries the ids of nodes that were touched.
//!
//! A reader pushes an id into the stripe of its thread and never waits. When the stripe is full the
//! record is dropped: that costs a little hit rate, never correctness, and happens when reads are
//! so frequent that the records that do get through tell enough.
//!
//! # Rules
//!
//! 1. Anyone may [`push`](ReadBuffer::push) at any time.
//! 2. Only the holder of the maintenance lock calls [`drain`](ReadBuffer::drain).
//! 3. An id may be stale when it is drained. Who drains must be able to bear that.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, drainer | both | crossbeam's | the ids |
//! | `Stripe::waiting` | pushers, drainer | both | Relaxed | an estimate of the length, for the hint only |
//!
//! `waiting` is raised by a load and a store rather than by a read-modify-write: the stripe belongs
//! to about one thread, whose line it shares with the queue's read-only fields. Threads that do
//! share a stripe may lose counts, or undo the drainer's reset; then the hint comes late or not at
//! all, and [`Push::Full`] takes its place.
//!
//! # Alternatives that lost
//!
//! * Asking the queue for its length at each push reads the drainer's line as well.
//! * A hint only when full (Caffeine) loses the records between the hint and the drain.

use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::sync::queue::ArrayQueue;
use crate::sync::seeded;

use super::stripes::Stripes;

/// Ids that a stripe holds.
#[cfg(not(cortado_loom))]
const STRIPE_CAPACITY: usize = 64;
#[cfg(cortado_loom)]
const STRIPE_CAPACITY: usize = 2;

/// Fill at which a pusher hears [`Push::HalfFull`].
const HALF: u32 = (STRIPE_CAPACITY / 2) as u32;

/// What became of a pushed id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Push {
    /// Stored.
    Stored,
    /// Stored, and now is a good time to start a drain.
    HalfFull,
    /// Dropped; the buffer wants a drain.
    Full,
}

#[derive(Debug)]
struct Stripe {
    queue: ArrayQueue<u32>,
    waiting: AtomicU32,
}

/// See the [module](self).
#[derive(Debug)]
pub struct ReadBuffer {
    stripes: Stripes<Stripe>,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadBuffer {
    /// Empty.
    pub fn new() -> Self {
        let stripe =
            || Stripe { queue: ArrayQueue::new(STRIPE_CAPACITY), waiting: AtomicU32::new(0) };
        Self { stripes: Stripes::new(stripe) }
    }

    /// Records that `id` was touched, unless the stripe is full.
    #[inline]
    pub fn push(&self, id: u32) -> Push {
        let stripe = self.stripes.mine();
        if stripe.queue.push(id).is_err() && !seeded("read_push_hides_a_drop") {
            return Push::Full;
        }
        let waiting = stripe.waiting.load(Relaxed).wrapping_add(1);
        stripe.waiting.store(waiting, Relaxed);
        if waiting == HALF { Push::HalfFull } else { Push::Stored }
    }

    /// Hands at most `limit` ids to `each` and returns how many. A stripe that is pushed into
    /// meanwhile gives no more than it can hold at once.
    pub fn drain(&self, limit: usize, mut each: impl FnMut(u32)) -> usize {
        let mut drained = 0;
        for stripe in self.stripes.rotate() {
            let quota = (limit - drained).min(STRIPE_CAPACITY);
            drained += stripe.drain(quota, &mut each);
        }
        drained
    }

    /// Whether no id waits.
    pub fn is_empty(&self) -> bool {
        self.stripes.iter().all(|stripe| stripe.queue.is_empty())
    }

    /// How many ids fit in all stripes together.
    pub fn capacity(&self) -> usize {
        self.stripes.len() * STRIPE_CAPACITY
    }
}

impl Stripe {
    fn drain(&self, quota: usize, each: &mut impl FnMut(u32)) -> usize {
        let mut taken = 0;
        while taken < quota {
            let Some(id) = self.queue.pop() else {
                self.waiting.store(0, Relaxed);
                return taken;
            };
            taken += 1;
            each(id);
        }
        let left = self.waiting.load(Relaxed).saturating_sub(taken as u32);
        self.waiting.store(left, Relaxed);
        taken
    }
}
