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
//! A stripe is a [`ring`](super::ring) of events without weight, whose account tells a pusher how
//! full it is.
//!
//! # Alternatives that lost
//!
//! * crossbeam's `ArrayQueue`: its `pop` waits for a thread that lost its core in the middle of a
//!   `push`, and so would the reader that runs the pass.
//! * A hint only when full (Caffeine) loses the records between the hint and the drain.

use super::ring::Ring;
use super::stripes::Stripes;
use crate::sync::{Patience, seeded};

/// Ids that a stripe holds.
#[cfg(not(cortado_loom))]
const STRIPE_CAPACITY: usize = 64;
#[cfg(cortado_loom)]
const STRIPE_CAPACITY: usize = 2;

/// Fill at which a pusher hears [`Push::HalfFull`].
const HALF: u64 = (STRIPE_CAPACITY / 2) as u64;

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

/// See the [module](self).
#[derive(Debug)]
pub struct ReadBuffer {
    stripes: Stripes<Ring>,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadBuffer {
    /// Empty.
    pub fn new() -> Self {
        Self { stripes: Stripes::new(|| Ring::new(STRIPE_CAPACITY)) }
    }

    /// Records that `id` was touched, unless the stripe is full.
    #[inline]
    pub fn push(&self, id: u32) -> Push {
        match self.stripes.mine().push(u64::from(id), 0) {
            None if seeded("read_push_hides_a_drop") => Push::Stored,
            None => Push::Full,
            Some((_, now)) if now.count() == HALF => Push::HalfFull,
            Some(_) => Push::Stored,
        }
    }

    /// Appends at most `limit` ids to `ids`. A stripe that is pushed into meanwhile gives no more
    /// than it can hold at once; one whose next place a reader is just filling gives nothing.
    pub fn drain(&self, limit: usize, ids: &mut Vec<u64>) {
        let end = ids.len().saturating_add(limit);
        for stripe in self.stripes.rotate() {
            let quota = (end - ids.len()).min(STRIPE_CAPACITY);
            let _ = stripe.take(quota, Patience::Skip, ids).settle();
        }
    }

    /// Whether no id waits.
    pub fn is_empty(&self) -> bool {
        self.stripes.iter().all(|stripe| stripe.account().count() == 0)
    }

    /// How many ids fit in all stripes together.
    pub fn capacity(&self) -> usize {
        self.stripes.len() * STRIPE_CAPACITY
    }
}
