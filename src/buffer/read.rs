//! The read buffer: a striped, lossy buffer of the ids of nodes that were read.
//!
//! A reader pushes an id into the stripe of its thread and never waits. When the stripe is full,
//! the record is dropped. A dropped record costs a little hit rate, never correctness. Stripes fill
//! up only when reads are so frequent that the stored records are representative.
//!
//! # Rules
//!
//! 1. Any thread may [`push`](ReadBuffer::push) at any time.
//! 2. Only the holder of the maintenance lock calls [`drain`](ReadBuffer::drain).
//! 3. An id may be stale when it is drained. The drainer must tolerate stale ids.
//!
//! A stripe is a [`ring`](super::ring) whose events have weight 0. The account of the ring tells
//! the pusher how full the stripe is.
//!
//! # Alternatives that lost
//!
//! * crossbeam's `ArrayQueue`: its `pop` waits for a thread that was preempted in the middle of a
//!   `push`. The reader that runs the pass would wait, too.
//! * A hint only when the stripe is full (Caffeine): the records between the hint and the drain are
//!   lost.

use super::ring::{Stripes, stripe_count};
use crate::links::NodeId;
use crate::primitives::{Patience, seeded};

/// A stripe holds this many ids.
const STRIPE_CAPACITY: usize = if cfg!(cortado_loom) { 2 } else { 64 };

/// At this count of pending ids, a push returns [`Push::HalfFull`].
const HALF: u64 = (STRIPE_CAPACITY / 2) as u64;

/// The result of [`ReadBuffer::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Push {
    /// The id was stored.
    Stored,
    /// The id was stored, and the stripe is half full: a good time to start a drain.
    HalfFull,
    /// The id was dropped, because the stripe is full: the buffer needs a drain.
    Full,
}

/// See the [module](self).
pub struct ReadBuffer {
    pub(super) stripes: Stripes<1>,
}

impl ReadBuffer {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self { stripes: Stripes::new(stripe_count(), STRIPE_CAPACITY) }
    }

    /// Records that the node `id` was read, unless the stripe is full.
    #[inline]
    pub fn push(&self, id: NodeId) -> Push {
        match self.stripes.mine().push(u64::from(id.raw()), 0) {
            None if seeded("read-push-hides-a-drop") => Push::Stored,
            None => Push::Full,
            Some((_, now)) if now.count() == HALF => Push::HalfFull,
            Some(_) => Push::Stored,
        }
    }

    /// Appends at most `limit` ids to `words`, from which [`id_of`](Self::id_of) gets them. A
    /// stripe yields at most its capacity, even if readers push into it meanwhile. It yields
    /// nothing while a reader is still storing the id that is next in line.
    pub fn drain(&self, limit: usize, words: &mut Vec<u64>) {
        let end = words.len().saturating_add(limit);
        for stripe in self.stripes.rotate() {
            let quota = (end - words.len()).min(STRIPE_CAPACITY);
            let taken = stripe.take_batch(quota, Patience::Skip, words);
            stripe.release(taken);
        }
    }

    /// The id that a drained word stands for.
    #[inline(always)]
    pub fn id_of(word: u64) -> NodeId {
        NodeId::from_raw(word as u32)
    }

    /// The memory of the stripes.
    pub fn bytes(&self) -> usize {
        self.stripes.bytes()
    }

    /// How many ids all stripes can hold together.
    pub fn capacity(&self) -> usize {
        self.stripes.capacity()
    }
}
