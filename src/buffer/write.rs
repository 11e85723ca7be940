//! The write buffer: striped, bounded, lossless; carries events that must be applied exactly once.
//!
//! A writer pushes an event into the stripe of its thread. A stripe never drops and never makes
//! a writer wait: when it is full, [`push`](WriteBuffer::push) refuses and the writer applies
//! events itself, or [spills](WriteBuffer::spill) its own while somebody else is at it. Events of
//! one stripe are drained in the order in which they were pushed; between stripes there is no
//! order, so events that concern one node may be drained in any order.
//!
//! # Rules
//!
//! 1. Anyone may push at any time, and then does what the answer says ([`Pressure`]). Whom the
//!    buffer refuses runs a pass, and pushes again; or it spills the event, and does as if the
//!    answer had been [`Pressure::Drain`].
//! 2. Only the holder of the maintenance lock calls [`drain`](WriteBuffer::drain). If the answer
//!    has `more`, the pass must leave itself marked as required.
//!
//! With these two rules **no event is forgotten**: as long as a stripe's count is not zero, a
//! pass is required, running, or about to be asked for. The count leaves zero only by a push, which
//! learns it from the account it replaced ([`Pressure::First`]); and a drain learns from the
//! account that *it* replaced whether it brought the stripe to zero. An account is one word of a
//! [`ring`](super::ring), so there is one order of these steps, and none of them needs a fence.
//!
//! # Bounds
//!
//! At any time at most [`capacity`](WriteBuffer::capacity) events wait in the stripes, and per
//! stripe at most the weight limit plus one event for each thread that pushes at that moment; and
//! what the [spill](super::spill) takes. Add the batch that a drain has taken out and is applying.
//!
//! The weight travels with the event in the ring, so that what is subtracted is what was added.
//!
//! # Alternatives that lost
//!
//! * Asking for a pass at each push: one shared word written by all writers.
//! * Skipping that by a load of the shared word: needs a `SeqCst` fence on both sides, or an event
//!   is forgotten when the load is stale.
//! * The drainer looks the weight up again: it can have changed.

use crate::sync::{Patience, seeded};

use super::ring::{Account, MAX_CAPACITY, Ring};
use super::spill::Spill;
use super::stripes::Stripes;

/// A stripe holds this many batches: one that is due, one that arrives until somebody drains.
const BATCHES: usize = 2;

/// Largest drain threshold.
pub const MAX_BATCH: usize = MAX_CAPACITY / BATCHES;

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

/// See the [module](self).
#[derive(Debug)]
pub struct WriteBuffer {
    stripes: Stripes<Ring>,
    batch: u64,
    weight_limit: u64,
    stripe_capacity: usize,
    spill: Spill,
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
        let stripes = Stripes::new(|| Ring::new(stripe_capacity));
        let spill = Spill::new(0, 0);
        Self { stripes, batch: batch as u64, weight_limit, stripe_capacity, spill }
    }

    /// With room for so many events beside the stripes, that weigh so much.
    #[must_use]
    pub fn spilling(self, most: u64, heaviest: u64) -> Self {
        Self { spill: Spill::new(most, heaviest), ..self }
    }

    /// Stores the event, any number but 0, and says what the caller owes for it; see rule 1.
    ///
    /// # Errors
    ///
    /// Gives the event back if the stripe is full.
    #[inline]
    pub fn push(&self, event: u64, weight: u32) -> Result<Pressure, u64> {
        let (before, now) = self.stripes.mine().push(event, weight).ok_or(event)?;
        Ok(self.pressure(before, now))
    }

    /// Takes in an event that its stripe has refused, if there is room beside the stripes; see rule
    /// 1.
    pub fn spill(&self, event: u64, weight: u32) -> bool {
        self.spill.push(event, weight)
    }

    /// How many events wait beside the stripes.
    #[inline]
    pub fn spilled(&self) -> usize {
        self.spill.count() as usize
    }

    /// What they weigh.
    pub fn spilled_weight(&self) -> u64 {
        self.spill.weight()
    }

    #[inline]
    fn pressure(&self, before: Account, now: Account) -> Pressure {
        if now.weight() > self.weight_limit {
            Pressure::Urgent
        } else if now.count() >= self.batch {
            Pressure::Drain
        } else if before.count() == 0 && !seeded("write_first_goes_unasked") {
            Pressure::First
        } else {
            Pressure::Low
        }
    }

    /// Hands to `apply` at most `quota` of the events that were spilled, then at most `limit` of
    /// the others: whatever a stripe has at once, by way of `scratch`. A stripe that is pushed
    /// into meanwhile gives no more than it can hold at once. With [`Patience::Skip`] events
    /// behind a writer that is just storing one, and may be off its core, are left.
    ///
    /// What was handed over stays accounted as pending until `apply` has returned or panicked.
    pub fn drain(
        &self,
        scratch: &mut Vec<u64>,
        (limit, quota): (usize, usize),
        patience: Patience,
        mut apply: impl FnMut(&[u64]),
    ) -> Drained {
        let mut drained = Drained { count: 0, more: false };
        if self.spilled() > 0 {
            scratch.clear();
            let mut taken = self.spill.take(quota, scratch);
            apply(scratch);
            drained = Drained { count: scratch.len(), more: taken.settle() };
        }
        let mut left = limit;
        for stripe in self.stripes.rotate() {
            let limit = left.min(self.stripe_capacity);
            scratch.clear();
            let mut taken = stripe.take(limit, patience, scratch);
            apply(scratch);
            left -= scratch.len();
            drained.count += scratch.len();
            let more = taken.settle();
            let forgotten = seeded("write_drain_forgets_the_rest") && scratch.len() < limit;
            drained.more |= more && !forgotten;
        }
        scratch.clear();
        drained
    }

    /// Whether no event waits. An event that is just being pushed may count already.
    pub fn is_empty(&self) -> bool {
        self.spilled() == 0 && self.stripes.iter().all(|stripe| stripe.account().count() == 0)
    }

    /// How many events can wait in all stripes together.
    pub fn capacity(&self) -> usize {
        self.stripes.len() * self.stripe_capacity
    }

    /// How many spilled events a pass takes out, however many stripes there are.
    pub fn portion(&self) -> usize {
        self.capacity().min(2 * MAX_CAPACITY) / 2
    }

    /// Sum of the weights that wait, in all stripes together and beside them.
    pub fn pending_weight(&self) -> u64 {
        let in_stripes: u64 = self.stripes.iter().map(|stripe| stripe.account().weight()).sum();
        in_stripes + self.spill.weight()
    }
}
