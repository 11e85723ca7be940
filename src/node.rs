//! The fixed part of a node: everything but its key and value.
//!
//! A node is one (key, value) for its whole life; an update makes a new node. What changes is
//! atomic, with one owner each:
//!
//! | field | written by | read by | ordering, and what it carries |
//! |---|---|---|---|
//! | `deadline` | the inserter before publication; then anyone by compare-exchange; [`GONE`] by whoever unlinks the node, under its bucket's lock | everyone | AcqRel / Acquire: the one word for which extending, [claiming](Meta::claim) and expiring compete; `GONE` releases what replaced the node in the index to a reader that saw it too late |
//! | `created`, `hash`, `weight`, `generation` | the inserter before publication; one bit of `generation` by whoever makes the deadline earlier, before that, one by whoever sets a cap | everyone | Relaxed: the index's publication of the id carries them; the exchange of the deadline the bit |
//! | `refs` | handles, and the cache's own count | handles, reclaim | increments Relaxed (from a protected state), decrements AcqRel: the last one sees all uses |
//! | `era` | readers | readers | Relaxed: a hint. Two readers may both record; a record that is lost is made again in a later era |
//! | `timer`, `queue`, `region` | the holder of the maintenance lock | the same | Relaxed: the lock carries them |
//! | `life` | the owner before publication, then the holder of the maintenance lock, then the last handle | the same | Relaxed: each hand-over (index, lock, `refs`) carries it |
//!
//! # Expiry is claimed
//! A reading of the clock may be old by the time it is used: its thread may have lost its core
//! meanwhile. So a read that prolongs a life by an old reading could bring back an entry that
//! others have seen expired. Whoever acts on the fact that an entry has expired (a miss, the choice
//! of the create hook, a removal that answers "none") therefore *claims* it first: it clears the
//! deadline's top bit, which all instants have ([`INSTANT`]). From then on every comparison says
//! that the deadline has passed, and every exchange that would prolong it fails. Hits pay nothing.
//! The instant can still be told ([`ended_at`]).
//!
//! # Lifecycle
//! *free* → *alive* (published in the index) → *retired* (unlinked; `deadline` is `GONE`) → *dead*
//! (the maintenance has seen both that the node was added and that it was removed, in either order)
//! → after the grace period the cache gives up its count → with the last handle gone, key and value
//! are dropped and the node is free again. A node that never gets into the index is *detached*:
//! handles are all that keeps it.

use crate::clock::{INSTANT, NEVER};
use crate::links::Links;
use crate::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sync::carried::{CarriedU32, CarriedU64};
use crate::sync::seeded;

/// The deadline of a node that is no longer in the index.
pub const GONE: u64 = 0;

/// The instant of a deadline, claimed or not.
#[inline]
pub fn ended_at(deadline: u64) -> u64 {
    deadline | INSTANT
}

/// Bits of `life`.
pub mod life {
    /// The key is initialised.
    pub const KEY: u8 = 1;
    /// The value is initialised.
    pub const VALUE: u8 = 1 << 1;
    /// The cache holds one of the counts in `refs`.
    pub const OWNED: u8 = 1 << 2;
    /// The maintenance has seen the addition.
    pub const ADDED: u8 = 1 << 3;
    /// The maintenance has seen the removal.
    pub const REMOVED: u8 = 1 << 4;
    /// The maintenance counts the node, and has it on the wheel and the policy's lists.
    pub const LINKED: u8 = 1 << 5;
}

/// Where the region is in `life`: above the bits of [`life`].
const REGION_SHIFT: u32 = 6;
const REGION: u8 = 0b11 << REGION_SHIFT;

/// Bit of `generation`: the deadline has been moved to an earlier instant.
const SHORTENED: u16 = 1 << 15;
/// Bit of `generation`: the entry has a cap.
const CAPPED: u16 = 1 << 14;
/// How many generations nodes tell apart.
pub const GENERATIONS: u64 = 1 << 14;

/// The era in which nothing is recorded.
pub const NO_ERA: u8 = 0;

/// So far from wrapping that no number of threads gets there between a count and its check.
const MAX_REFS: u32 = u32::MAX / 2;

/// The fixed part of a node; 48 bytes, so that a small key and value complete a cache line.
#[derive(Debug)]
pub struct Meta {
    deadline: AtomicU64,
    created: CarriedU64,
    /// Links of the timer wheel, and of the free list while the node is free.
    pub timer: Links,
    /// Links of the eviction policy's lists.
    pub queue: Links,
    hash: CarriedU32,
    weight: CarriedU32,
    refs: AtomicU32,
    era: AtomicU8,
    life: AtomicU8,
    generation: AtomicU16,
}

impl Meta {
    pub fn new() -> Self {
        Self {
            deadline: AtomicU64::new(GONE),
            created: CarriedU64::new(0),
            timer: Links::new(),
            queue: Links::new(),
            hash: CarriedU32::new(0),
            weight: CarriedU32::new(0),
            refs: AtomicU32::new(0),
            era: AtomicU8::new(NO_ERA),
            life: AtomicU8::new(0),
            generation: AtomicU16::new(0),
        }
    }

    /// Starts a life: one count, held by the caller; neither key nor value yet.
    pub fn begin(&self, hash: u32) {
        self.deadline.store(GONE, Ordering::Relaxed);
        self.created.store(0, Ordering::Relaxed);
        self.hash.store(hash, Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
        self.refs.store(1, Ordering::Relaxed);
        self.era.store(NO_ERA, Ordering::Relaxed);
        self.life.store(0, Ordering::Relaxed);
        self.timer.set_prev(0);
        self.timer.set_next(0);
        self.queue.set_prev(0);
        self.queue.set_next(0);
    }

    /// What the system makes of a node whose memory it takes back, for models.
    #[cfg(cortado_loom)]
    pub fn wipe(&self) {
        self.begin(0);
        self.refs.store(0, Ordering::Relaxed);
        self.generation.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::Acquire)
    }

    /// Before publication only.
    pub fn init(&self, deadline: u64, created: u64, weight: u32, generation: u16) {
        self.deadline.store(deadline, Ordering::Relaxed);
        self.created.store(created, Ordering::Relaxed);
        self.weight.store(weight, Ordering::Relaxed);
        debug_assert!(u64::from(generation) < GENERATIONS, "generation {generation}");
        self.generation.store(generation, Ordering::Relaxed);
    }

    /// Moves the deadline from `judged` to `new`; false if it is no longer `judged`.
    #[inline]
    pub fn change_deadline(&self, judged: u64, new: u64) -> bool {
        if new < judged && new != GONE && !seeded("shortened-in-silence") {
            // Before the exchange, which carries it to whoever replaces the node.
            self.generation.fetch_or(SHORTENED, Ordering::Relaxed);
        }
        if seeded("extend-blindly") {
            self.deadline.store(new, Ordering::Release);
            return true;
        }
        self.deadline.compare_exchange(judged, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Makes the expiry that was `judged` final; false if the deadline is another by now, so that
    /// the entry has to be looked at again. See [Expiry is claimed](self#expiry-is-claimed).
    #[cold]
    pub fn claim(&self, judged: u64) -> bool {
        if seeded("expiry-unclaimed") {
            return self.deadline() == judged;
        }
        let claimed = judged & !INSTANT;
        let exchange = |old, new| {
            self.deadline.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
        };
        claimed == judged || exchange(judged, claimed).is_ok()
    }

    /// Marks the node as unlinked, whatever its deadline was; returns that.
    pub fn mark_gone(&self) -> u64 {
        self.deadline.swap(GONE, Ordering::AcqRel)
    }

    /// [`mark_gone`](Self::mark_gone) where nobody else can prolong the deadline now. A claim at
    /// the same moment is lost, which the one who made it cannot tell from having been a moment
    /// earlier. Release as in `mark_gone`.
    #[inline(always)]
    pub fn mark_gone_alone(&self) -> u64 {
        let deadline = self.deadline.load(Ordering::Relaxed);
        self.deadline.store(GONE, Ordering::Release);
        deadline
    }

    #[inline]
    pub fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn hash(&self) -> u32 {
        self.hash.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn generation(&self) -> u16 {
        self.generation.load(Ordering::Relaxed) & !(SHORTENED | CAPPED)
    }

    /// Whether the entry has a cap. Acquire pairs with [`set_capped`](Self::set_capped): the cap is
    /// there.
    #[inline]
    pub fn is_capped(&self) -> bool {
        self.generation.load(Ordering::Acquire) & CAPPED != 0
    }

    pub fn set_capped(&self) {
        self.generation.fetch_or(CAPPED, Ordering::Release);
    }

    /// Whether the deadline ever became earlier, so that the wheel may have the node in a later
    /// place.
    pub fn was_shortened(&self) -> bool {
        self.generation.load(Ordering::Relaxed) & SHORTENED != 0
    }

    #[inline]
    pub fn region(&self) -> u8 {
        self.life.load(Ordering::Relaxed) >> REGION_SHIFT
    }

    /// Sets the region, a number of two bits.
    #[inline]
    pub fn set_region(&self, region: u8) {
        self.life.store(self.life() | region << REGION_SHIFT, Ordering::Relaxed);
    }

    #[inline]
    pub fn life(&self) -> u8 {
        self.life.load(Ordering::Relaxed) & !REGION
    }

    #[inline]
    pub fn set_life(&self, bits: u8) {
        self.life.store(self.life.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
    }

    /// The first bits of a life, by the node's only owner.
    #[inline]
    pub fn begin_life(&self, bits: u8) {
        self.life.store(bits, Ordering::Relaxed);
    }

    #[inline]
    pub fn clear_life(&self, bits: u8) {
        self.life.store(self.life.load(Ordering::Relaxed) & !bits, Ordering::Relaxed);
    }

    /// Marks a read in `era`; true if it is the node's first in that era, and so has to be
    /// recorded.
    #[inline]
    pub fn touch(&self, era: u8) -> bool {
        let first = self.era.load(Ordering::Relaxed) != era;
        if first {
            self.era.store(era, Ordering::Relaxed);
        }
        first
    }

    /// The era of the last read that was recorded, or of an update.
    #[inline]
    pub fn era(&self) -> u8 {
        self.era.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set_era(&self, era: u8) {
        self.era.store(era, Ordering::Relaxed);
    }

    /// Takes back the mark of a read whose record was lost.
    #[cold]
    pub fn untouch(&self) {
        self.era.store(NO_ERA, Ordering::Relaxed);
    }

    /// Adds a count; the caller holds one, or a guard under which the node was in the index.
    ///
    /// Aborts the process at two thousand million handles on one node, which only forgetting them
    /// can make: the count must not come round to zero.
    #[inline]
    pub fn retain(&self) {
        // Relaxed: a new count is made from an existing protection.
        if self.refs.fetch_add(1, Ordering::Relaxed) > MAX_REFS {
            std::process::abort();
        }
    }

    /// Gives up a count; true if it was the last, and then key and value are the caller's to drop.
    #[inline]
    #[must_use]
    pub fn release(&self) -> bool {
        // AcqRel, or Acquire where nobody else has a count: the last one happens after every use
        // under the others. (One who holds the only count is alone: a count is made from a
        // count, or under a guard before the cache gives up its own.)
        if self.refs.load(Ordering::Acquire) == 1 {
            self.refs.store(0, Ordering::Relaxed);
            return true;
        }
        self.refs.fetch_sub(1, Ordering::AcqRel) == 1
    }

    #[inline]
    pub fn refs(&self) -> u32 {
        self.refs.load(Ordering::Acquire)
    }

    /// The deadline, if the entry lives at `now`.
    #[inline]
    pub fn living(&self, now: u64, generation: u16) -> Option<u64> {
        let deadline = self.deadline();
        (deadline > now && self.generation() == generation).then_some(deadline)
    }

    /// Whether the entry lives at `now`.
    #[inline]
    pub fn is_live(&self, now: u64, generation: u16) -> bool {
        self.living(now, generation).is_some()
    }
}

/// What is left at `now` of a life that ends at `deadline`, in the form the expiry hooks take.
pub fn remaining(deadline: u64, now: u64) -> Option<std::time::Duration> {
    (deadline != NEVER).then(|| std::time::Duration::from_nanos(deadline.saturating_sub(now)))
}

#[cfg(all(test, not(cortado_loom)))]
mod tests {
    #[test]
    fn a_small_key_and_value_complete_a_cache_line() {
        assert_eq!(size_of::<super::Meta>(), 48);
    }
}
