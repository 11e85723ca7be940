//! The write buffer: a striped, bounded, lossless buffer of events that must be applied exactly
//! once.
//!
//! A writer pushes an event into the stripe of its thread. A stripe never drops an event and never
//! makes a writer wait. When the stripe is full, [`push`](WriteBuffer::push) returns the event as
//! an error. The writer then applies events itself, or [spills](Spill::push) its own event
//! while another thread runs a pass. Events of one stripe are drained in the order in which they
//! were pushed. Between stripes there is no order, so events that concern one node may be drained
//! in any order.
//!
//! # Rules
//!
//! 1. Any thread may push at any time. It must then do what the returned [`Pressure`] says. If
//!    `push` returns `Err`, the caller does one of two things: it runs a pass that applies the
//!    event, or it spills the event and goes on as after [`Pressure::Drain`].
//! 2. Only the holder of the maintenance lock calls [`drain`](WriteBuffer::drain). If the result
//!    has `more`, the pass must leave another pass required.
//!
//! With these two rules **no event is forgotten**: while the count of a stripe is not zero, a pass
//! is required, running, or about to be requested. Only a push raises the count from zero, and it
//! learns that from the account that it replaced ([`Pressure::First`]). A drain learns from the
//! account that *it* replaced whether it brought the stripe to zero. An account is one word of a
//! [`ring`](super::ring), so these steps have one order, and none of them needs a fence.
//!
//! # Bounds
//!
//! The pending events are bounded at any time. Those that a drain has taken out and is applying
//! count as pending.
//!
//! * The stripes hold at most [`capacity`](WriteBuffer::capacity) events.
//! * The weight in a stripe is at most the weight limit, plus the weight of one event for each
//!   thread that is pushing. Exception: a drain takes out a limited number of events. A stripe that
//!   it does not reach may exceed its limit by a few events, until the next push.
//! * The [spill](super::spill) holds events up to its own limits. Events of reads have a separate
//!   one.
//!
//! The weight travels with the event in the ring, so that a drain subtracts exactly what the push
//! added.
//!
//! # Alternatives that lost
//!
//! * A request for a pass at each push: all writers would write one shared word.
//! * Skipping that request after a load of the shared word: this needs a `SeqCst` fence on both
//!   sides, or an event is forgotten when the load is stale.
//! * A drainer that looks the weight up again: the weight can have changed.

use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedU64;
use crate::primitives::{Patience, on_unwind, seeded};

use super::ring::{MAX_CAPACITY, SEGMENT, Stripes};
use super::spill::Spill;

/// A stripe holds this many batches: one that is due, and one that arrives until a thread drains.
const BATCHES: usize = 2;

/// A stripe with a smaller weight limit fills up before it asks for a drain.
const SMALL: u64 = 8;

/// The largest drain threshold: batches of this length fill the largest ring.
pub const MAX_BATCH: usize = MAX_CAPACITY / BATCHES;

/// What a writer must do after its event was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Pressure {
    /// Nothing: other writers have requested a pass, or are about to.
    Low,
    /// The stripe was empty: request a pass. It need not run now.
    First,
    /// The stripe holds a batch, or half of its weight limit: run a pass if the
    /// maintenance lock is free, else request one.
    Drain,
    /// The stripe holds more weight than its limit: return only after a drain of the
    /// stripe. Then ask [`is_urgent`](WriteBuffer::is_urgent) whether it still does.
    Urgent,
}

/// How many events a drain takes out at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainLimits {
    /// Of those in the stripes.
    pub stripes: usize,
    /// Of those in the spill.
    pub spill: usize,
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// How many events were applied.
    pub count: usize,
    /// Whether events are left, or arrived meanwhile.
    pub more: bool,
}

/// See the [module](self).
pub struct WriteBuffer {
    pub(super) stripes: Stripes<{ MAX_CAPACITY / SEGMENT }>,
    /// The thresholds of the pressure. They order nothing: a stale value only makes a drain come
    /// earlier or later.
    batch: GuardedU64,
    weight_limit: GuardedU64,
    /// Takes events that their stripes have refused; see rule 1.
    pub spill: Spill,
}

/// The limits of a write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLimits {
    /// A stripe asks for a drain at this many events.
    pub batch: usize,
    /// A stripe insists on a drain above this weight.
    pub weight: u64,
    /// The largest number of spilled events.
    pub spilled_events: u64,
    /// The largest total weight of the spilled events.
    pub spilled_weight: u64,
}

impl WriteBuffer {
    /// Creates an empty buffer of `stripes` stripes, which must be a power of two.
    ///
    /// # Panics
    ///
    /// Unless `1 <= batch <= MAX_BATCH`.
    pub fn new(stripes: usize, limits: WriteLimits) -> Self {
        let batch = limits.batch;
        assert!((1..=MAX_BATCH).contains(&batch), "batch must be in 1..={MAX_BATCH}, is {batch}");
        let buffer = Self {
            stripes: Stripes::new(stripes, batch * BATCHES),
            batch: GuardedU64::default(),
            weight_limit: GuardedU64::default(),
            spill: Spill::new(),
        };
        buffer.set_limits(limits);
        buffer
    }

    /// Changes the limits. The memory of the stripes stays as it is, so a batch does not grow
    /// beyond the one with which the buffer was made.
    pub fn set_limits(&self, limits: WriteLimits) {
        let batch = limits.batch.clamp(1, self.stripes.ring_capacity / BATCHES);
        self.batch.store(batch as u64, Relaxed);
        self.weight_limit.store(limits.weight, Relaxed);
        self.spill.set_limits(limits.spilled_events, limits.spilled_weight);
    }

    /// Stores the event, any number but 0. Returns what the caller must do then; see rule 1.
    ///
    /// # Errors
    ///
    /// Returns the event if the stripe is full.
    #[inline(always)]
    pub fn push(&self, event: u64, weight: u32) -> Result<Pressure, u64> {
        let (before, now) = self.stripes.mine().push(event, weight).ok_or(event)?;
        let limit = self.weight_limit.load(Relaxed);
        Ok(if now.weight() > limit {
            Pressure::Urgent
        } else if now.count() >= self.batch.load(Relaxed) || now.weight() >= due_weight(limit) {
            Pressure::Drain
        } else if before.count() == 0 && !seeded("write-first-goes-unasked") {
            Pressure::First
        } else {
            Pressure::Low
        })
    }

    /// Whether the stripe of this thread holds more weight than its limit.
    pub fn is_urgent(&self) -> bool {
        self.stripes.mine().account().weight() > self.weight_limit.load(Relaxed)
    }

    /// Whether an event of this weight is urgent whatever else its stripe holds.
    pub fn is_heavy(&self, weight: u32) -> bool {
        u64::from(weight) > self.weight_limit.load(Relaxed)
    }

    /// Hands events to `apply`, within `limits`: first the spilled ones, then the others. The
    /// events of one stripe are copied to `scratch` and handed over in one call. A stripe
    /// yields at most its capacity, even if writers push into it meanwhile. A writer that is just
    /// storing an event may have been preempted. [`Patience::Skip`] leaves the events behind it for
    /// a later drain.
    ///
    /// Events that were handed over stay part of the account until `apply` has returned or
    /// panicked.
    pub fn drain(
        &self,
        scratch: &mut Vec<u64>,
        limits: DrainLimits,
        patience: Patience,
        mut apply: impl FnMut(&[u64]),
    ) -> Drained {
        let mut drained = Drained { count: 0, more: false };
        if self.spill.count() > 0 {
            scratch.clear();
            let taken = self.spill.take_batch(limits.spill, scratch);
            let more = apply_batch(scratch, &mut apply, || self.spill.release(taken));
            drained = Drained { count: scratch.len(), more };
        }
        let mut left = limits.stripes;
        for stripe in self.stripes.rotate() {
            let limit = left.min(self.stripes.ring_capacity);
            scratch.clear();
            let taken = stripe.take_batch(limit, patience, scratch);
            let more = apply_batch(scratch, &mut apply, || stripe.release(taken));
            left -= scratch.len();
            drained.count += scratch.len();
            let forgotten = seeded("write-drain-forgets-the-rest") && scratch.len() < limit;
            drained.more |= more && !forgotten;
        }
        scratch.clear();
        drained
    }

    /// The number of stripes.
    pub fn stripes(&self) -> usize {
        self.stripes.len
    }

    /// The memory of the stripes.
    pub fn bytes(&self) -> usize {
        self.stripes.bytes()
    }

    /// How many events all stripes can hold together.
    pub fn capacity(&self) -> usize {
        self.stripes.capacity()
    }

    /// How many spilled events a pass takes out: half as many as the stripes can hold, but at most
    /// [`MAX_CAPACITY`], however many stripes there are.
    pub fn portion(&self) -> usize {
        self.capacity().min(2 * MAX_CAPACITY) / 2
    }
}

/// A stripe with this weight limit asks for a drain from this weight on: half of the limit, so that
/// threads which write at once need not wait for each other. Below [`SMALL`] it is the whole limit,
/// because a pass costs more than such a wait.
pub fn due_weight(limit: u64) -> u64 {
    if limit < SMALL { limit } else { limit / 2 }
}

/// Applies a batch and releases it, also if `apply` panics. Returns whether more events are
/// pending.
#[inline(always)]
fn apply_batch(batch: &[u64], apply: impl FnOnce(&[u64]), release: impl Fn() -> bool) -> bool {
    on_unwind(|| apply(batch), || _ = release());
    release()
}
