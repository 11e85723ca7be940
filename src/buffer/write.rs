//! The write buffer: striped, bounded, lossless; carries events that must be applied exactly once.
//!
//! A writer pushes an event into the stripe of its thread. A stripe never drops and never makes
//! anyone spin: when it is full, [`push`](WriteBuffer::push) refuses and the writer applies events
//! itself. Events of one stripe are drained in the order in which they were pushed; between stripes
//! there is no order, so events that concern one node may be drained in any order.
//!
//! # Rules
//!
//! 1. Anyone may push at any time, and then does what the answer says ([`Pressure`]). Whom the
//!    buffer refuses does as if the answer had been [`Pressure::Urgent`], and pushes again.
//! 2. Only the holder of the maintenance lock calls [`drain`](WriteBuffer::drain). If the answer
//!    has `more`, the pass must leave itself marked as required.
//!
//! With these two rules **no event is forgotten**: as long as a stripe's `pending` is not zero, a
//! pass is required, running, or about to be asked for. `pending` leaves zero only by a push, which
//! learns it from the value it replaced ([`Pressure::First`]); and a drain learns from the value
//! that *it* replaced whether it brought the stripe to zero. All of it is one word, so there is one
//! order of these steps, and none of them needs a fence.
//!
//! # Bounds
//!
//! At any time at most [`capacity`](WriteBuffer::capacity) events wait, and per stripe at most the
//! weight limit plus one event for each thread that pushes at that moment. Add the batch that a
//! drain has taken out and is applying.
//!
//! # Layout
//!
//! `pending` is `count << 48 | weight`: events in the stripe and the sum of their weights, in the
//! line that holds the queue's read-only fields. A writer reserves before it pushes and takes the
//! reservation back if refused, so that `pending` is never below what the queue holds. Neither half
//! can overflow: the count is at most the stripe's capacity of 512 plus one for each thread that is
//! being refused, and 2^16 weights of 32 bits fit in 48.
//!
//! The weight travels with the event in the queue, so that what is subtracted is what was added.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, drainer | both | crossbeam's | the events |
//! | `Stripe::pending` | pushers, drainer, by read-modify-write only | both | Relaxed | numbers only; whoever acts on them synchronises through the word that asks for the pass |
//!
//! # Alternatives that lost
//!
//! * Asking for a pass at each push: one shared word written by all writers.
//! * Skipping that by a load of the shared word: needs a `SeqCst` fence on both sides, or an event is
//!   forgotten when the load is stale.
//! * The drainer looks the weight up again: it can have changed.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::queue::ArrayQueue;
use crate::sync::seeded;

use super::stripes::Stripes;

/// Largest drain threshold.
pub const MAX_BATCH: usize = 256;

/// A stripe holds this many batches: one that is due, one that arrives until somebody drains.
const BATCHES: usize = 2;

const COUNT_SHIFT: u32 = 48;
const ONE: u64 = 1 << COUNT_SHIFT;
const WEIGHT: u64 = ONE - 1;

/// What a writer owes after its event was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Pressure {
    /// Nothing: others have asked for a pass, or are about to.
    Low,
    /// The stripe was empty: ask for a pass. It need not run now.
    First,
    /// The stripe holds a batch: run a pass if the maintenance lock is free, else ask for one.
    Drain,
    /// The stripe holds more weight than its limit: wait for the maintenance lock and run a pass
    /// before returning.
    Urgent,
}

/// What a drain did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// How many events were applied.
    pub count: usize,
    /// Events are left, or arrived meanwhile.
    pub more: bool,
}

#[derive(Debug)]
struct Stripe {
    queue: ArrayQueue<(u64, u32)>,
    pending: AtomicU64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct WriteBuffer {
    stripes: Stripes<Stripe>,
    batch: u64,
    weight_limit: u64,
    stripe_capacity: usize,
}

impl WriteBuffer {
    /// A buffer whose stripes want a drain at `batch` events and insist on it above `weight_limit`.
    ///
    /// # Panics
    ///
    /// Unless `1 <= batch <= MAX_BATCH`.
    pub fn new(batch: usize, weight_limit: u64) -> Self {
        assert!((1..=MAX_BATCH).contains(&batch), "batch must be in 1..={MAX_BATCH}, is {batch}");
        let stripe_capacity = batch * BATCHES;
        let stripe =
            || Stripe { queue: ArrayQueue::new(stripe_capacity), pending: AtomicU64::new(0) };
        Self { stripes: Stripes::new(stripe), batch: batch as u64, weight_limit, stripe_capacity }
    }

    /// Stores the event and says what the caller owes for it; see rule 1.
    ///
    /// # Errors
    ///
    /// Gives the event back if the stripe is full.
    #[inline]
    pub fn push(&self, event: u64, weight: u32) -> Result<Pressure, u64> {
        let stripe = self.stripes.mine();
        let added = ONE | u64::from(weight);
        let before = stripe.pending.fetch_add(added, Relaxed);
        if stripe.queue.push((event, weight)).is_err() {
            if !seeded("write_refusal_keeps_reservation") {
                stripe.pending.fetch_sub(added, Relaxed);
            }
            return Err(event);
        }
        Ok(self.pressure(before, before + added))
    }

    #[inline]
    fn pressure(&self, before: u64, now: u64) -> Pressure {
        if now & WEIGHT > self.weight_limit {
            Pressure::Urgent
        } else if now >> COUNT_SHIFT >= self.batch {
            Pressure::Drain
        } else if before >> COUNT_SHIFT == 0 && !seeded("write_first_goes_unasked") {
            Pressure::First
        } else {
            Pressure::Low
        }
    }

    /// Hands at most `limit` events to `apply`: whatever a stripe has at once, by way of `scratch`. A stripe
    /// that is pushed into meanwhile gives no more than it can hold at once.
    ///
    /// What was handed over stays accounted as pending until `apply` has returned or panicked.
    pub fn drain(
        &self,
        scratch: &mut Vec<u64>,
        limit: usize,
        mut apply: impl FnMut(&[u64]),
    ) -> Drained {
        let mut drained = Drained { count: 0, more: false };
        for stripe in self.stripes.rotate() {
            let quota = (limit - drained.count).min(self.stripe_capacity);
            scratch.clear();
            let mut taken = Taken { stripe, pending: 0 };
            while scratch.len() < quota
                && let Some((event, weight)) = stripe.queue.pop()
            {
                taken.pending += ONE | u64::from(weight);
                scratch.push(event);
            }
            apply(scratch);
            drained.count += scratch.len();
            let more = taken.settle();
            let forgotten = seeded("write_drain_forgets_the_rest") && scratch.len() < quota;
            drained.more |= more && !forgotten;
        }
        scratch.clear();
        drained
    }

    /// Whether no event waits. An event that is just being pushed may count already.
    pub fn is_empty(&self) -> bool {
        self.stripes.iter().all(|stripe| stripe.pending.load(Relaxed) == 0)
    }

    /// How many events can wait, in all stripes together.
    pub fn capacity(&self) -> usize {
        self.stripes.len() * self.stripe_capacity
    }

    /// Sum of the weights that wait, in all stripes together.
    pub fn pending_weight(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.pending.load(Relaxed) & WEIGHT).sum()
    }
}

/// What was taken out of a stripe but is still part of its `pending`.
struct Taken<'a> {
    stripe: &'a Stripe,
    pending: u64,
}

impl Taken<'_> {
    /// Subtracts it, and says whether the stripe has more.
    fn settle(&mut self) -> bool {
        let taken = std::mem::take(&mut self.pending);
        // Nothing taken: a load is enough, as a push that this pass was asked for came before it.
        let before = if taken == 0 {
            self.stripe.pending.load(Relaxed)
        } else {
            self.stripe.pending.fetch_sub(taken, Relaxed)
        };
        before != taken
    }
}

impl Drop for Taken<'_> {
    /// After a panic of `apply`.
    fn drop(&mut self) {
        if self.pending != 0 {
            self.settle();
        }
    }
}
