//! The fixed part of a node: everything but its key and value.
//!
//! A node holds one (key, value) for its whole life; an update makes a new node. The fields that
//! change are atomics, with one owner each:
//!
//! | field | written by | read by | ordering, and what it carries |
//! |---|---|---|---|
//! | `deadline` | the inserter before publication; then any thread by compare-exchange; [`GONE`] by the thread that unlinks the node, under its bucket's lock | all threads | AcqRel / Acquire. Extending, [claiming](Meta::claim) and expiring compete for this one word. `GONE` releases the index entry that replaced the node to a reader that found the node too late |
//! | `created`, `hash`, `weight`, `generation` | the inserter before publication; later `created` by a reload that finds the value not modified, under the bucket's lock, and two bits of `generation`: one by a thread that makes the deadline earlier, before it does so, one by a thread that sets a hard deadline | all threads | Relaxed: the index's publication of the id carries the fields. The exchange of the deadline carries the first bit. The second bit is Release / Acquire |
//! | `refs` | handles, and the cache for its own count | handles, reclaim | increments Relaxed (from a protected state), decrements AcqRel: the last decrement happens after all uses |
//! | `record_period` | readers | readers | Relaxed: a hint. Two readers may both record a read. A lost record is made again in a later record period |
//! | `timer`, `queue`, `region` | the holder of the maintenance lock | the same | Relaxed: the lock carries them |
//! | `state` | the owner before publication, then the holder of the maintenance lock, then the last handle | the same | Relaxed: each hand-over (index, lock, `refs`) carries it |
//!
//! # Expiry is claimed
//! A thread may be preempted after it has read the clock, so a reading may be old when it is used.
//! A read that prolongs a life by an old reading could bring back an entry that other threads have
//! seen expired. Therefore a thread must *claim* the expiry before it acts on it. Such acts are a
//! miss, the choice of the create hook, and a removal that returns "none". To claim an expiry, the
//! thread clears the deadline's top bit, which all instants have set ([`INSTANT`]). From then on
//! every comparison says that the deadline has passed, and every exchange that would prolong the
//! life fails. Hits pay nothing for this. The instant can still be recovered ([`ended_at`]).
//!
//! # Lifecycle
//! A node goes through these states:
//! 1. *free*;
//! 2. *draft*: known to one thread, which fills it;
//! 3. *alive*: published in the index;
//! 4. *retired*: unlinked, and `deadline` is `GONE`;
//! 5. *dead*: the maintenance has seen both the node's addition and its removal, in either order.
//!
//! The cache gives up its count on a dead node after the grace period. When the last handle is
//! gone, key and value are dropped and the node is free again. A node that never gets into the
//! index is *detached*: only handles keep it.

use crate::clock::{INSTANT, NEVER, Timestamp};
use crate::hash::Hash32;
use crate::links::Links;
use crate::macros::number;
use crate::primitives::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::primitives::guarded::{GuardedU32, GuardedU64};
use crate::primitives::seeded;

/// The deadline of a node that is no longer in the index.
pub const GONE: Timestamp = Timestamp::from_raw(0);

/// The instant of a deadline, whether or not its expiry was claimed.
#[inline]
pub fn ended_at(deadline: Timestamp) -> Timestamp {
    Timestamp::from_raw(deadline.raw() | INSTANT)
}

/// Bits of a node's `state`.
pub mod state {
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
    /// The maintenance has the node on the wheel, and on the policy's lists unless it has taken it
    /// for a victim.
    pub const LINKED: u8 = 1 << 5;
}

/// Position of the region in `state`: above the bits of [`state`].
const REGION_SHIFT: u32 = 6;
const REGION: u8 = 0b11 << REGION_SHIFT;

/// Bit of `generation`: the deadline was moved to an earlier instant.
const SHORTENED: u16 = 1 << 15;
/// Bit of `generation`: the entry has a hard deadline.
const HAS_HARD_DEADLINE: u16 = 1 << 14;
/// Number of generations that nodes can tell apart.
pub const GENERATIONS: u64 = 1 << 14;

/// A generation of entries: the number of clearings before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Generation(u64);
number!(Generation(u64));

impl Generation {
    /// The generation of a new cache.
    pub const FIRST: Self = Self(0);

    /// The generation before this one. The first one comes before itself.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// As nodes carry it.
    #[inline(always)]
    pub const fn mark(self) -> GenerationMark {
        GenerationMark((self.0 % GENERATIONS) as u16)
    }
}

/// The bits of a generation that nodes carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct GenerationMark(u16);

/// The record period in which no read is recorded.
pub const NO_PERIOD: u8 = 0;

/// The largest number of counts on a node. It is so far from wrapping that no number of threads can
/// reach the wrap between a count and its check.
const MAX_REFS: u32 = u32::MAX / 2;

/// The fixed part of a node. It has 48 bytes, so that a small key and value complete a cache line.
#[derive(Debug, Default)]
pub struct Meta {
    deadline: AtomicU64,
    created: GuardedU64,
    /// Links of the timer wheel; links of the free list while the node is free.
    pub timer: Links,
    /// Links of the eviction policy's lists.
    pub queue: Links,
    hash: GuardedU32,
    weight: GuardedU32,
    refs: AtomicU32,
    record_period: AtomicU8,
    state: AtomicU8,
    generation: AtomicU16,
}

#[cfg(not(cortado_loom))]
const _: () = assert!(size_of::<Meta>() == 48);

impl Meta {
    /// Starts a life with one count, held by the caller, and with neither key nor value.
    pub fn begin(&self, hash: Hash32) {
        self.deadline.store(GONE.raw(), Relaxed);
        self.created.store(0, Relaxed);
        self.hash.store(hash.raw(), Relaxed);
        self.weight.store(0, Relaxed);
        self.refs.store(1, Relaxed);
        self.record_period.store(NO_PERIOD, Relaxed);
        self.state.store(0, Relaxed);
        self.timer.clear();
        self.queue.clear();
    }

    /// For models: puts the node into the state that it has after the system took its memory back.
    #[cfg(cortado_loom)]
    pub fn wipe(&self) {
        self.begin(Hash32::FIRST);
        self.refs.store(0, Relaxed);
        self.generation.store(0, Relaxed);
    }

    #[inline]
    pub fn deadline(&self) -> Timestamp {
        Timestamp::from_raw(self.deadline.load(Acquire))
    }

    /// Sets the fields that the inserter writes. Only before publication.
    pub fn init(
        &self,
        deadline: Timestamp,
        created: Timestamp,
        weight: u32,
        generation: GenerationMark,
    ) {
        self.deadline.store(deadline.raw(), Relaxed);
        self.created.store(created.raw(), Relaxed);
        self.weight.store(weight, Relaxed);
        self.generation.store(generation.0, Relaxed);
    }

    /// Sets another deadline. Only before publication.
    pub fn set_deadline(&self, deadline: Timestamp) {
        self.deadline.store(deadline.raw(), Relaxed);
    }

    /// Makes the deadline no earlier than `deadline`, unless its expiry was claimed or the node is
    /// gone.
    pub fn raise_deadline(&self, deadline: Timestamp) {
        let raised = |present: u64| {
            let is_claimed = present & INSTANT == 0;
            (!is_claimed && present < deadline.raw()).then_some(deadline.raw())
        };
        let _ = self.deadline.fetch_update(AcqRel, Acquire, raised);
    }

    /// Notes that the end of the life was moved to an earlier instant.
    pub fn note_shortened(&self) {
        self.generation.fetch_or(SHORTENED, Relaxed);
    }

    /// Moves the deadline from `expected` to `new`. Returns false if the deadline is no longer
    /// `expected`.
    #[inline]
    pub fn change_deadline(&self, expected: Timestamp, new: Timestamp) -> bool {
        if new < expected && new != GONE && !seeded("shortened-in-silence") {
            // The bit is set before the exchange, which carries it to the thread that replaces the
            // node.
            self.note_shortened();
        }
        if seeded("extend-blindly") {
            self.deadline.store(new.raw(), Release);
            return true;
        }
        self.exchange_deadline(expected, new)
    }

    #[inline(always)]
    fn exchange_deadline(&self, expected: Timestamp, new: Timestamp) -> bool {
        self.deadline.compare_exchange(expected.raw(), new.raw(), AcqRel, Acquire).is_ok()
    }

    /// Makes the expiry of the deadline `expected` final. Returns false if the deadline is no
    /// longer `expected`; the caller must then look at the entry again. See [Expiry is
    /// claimed](self#expiry-is-claimed).
    #[cold]
    pub fn claim(&self, expected: Timestamp) -> bool {
        if seeded("expiry-unclaimed") {
            return self.deadline() == expected;
        }
        let claimed = Timestamp::from_raw(expected.raw() & !INSTANT);
        claimed == expected || self.exchange_deadline(expected, claimed)
    }

    /// Marks the node as unlinked, regardless of its deadline. Returns the deadline that it had.
    pub fn mark_gone(&self) -> Timestamp {
        Timestamp::from_raw(self.deadline.swap(GONE.raw(), AcqRel))
    }

    /// [`mark_gone`](Self::mark_gone) for a deadline that no other thread can prolong now. A claim
    /// at the same moment is lost. To the claiming thread that looks as if it had claimed a moment
    /// earlier. Release as in `mark_gone`.
    #[inline(always)]
    pub fn mark_gone_alone(&self) -> Timestamp {
        let deadline = self.deadline.load(Relaxed);
        self.deadline.store(GONE.raw(), Release);
        Timestamp::from_raw(deadline)
    }

    /// Sets the time of the write from which the life counts. The caller holds the bucket.
    pub fn set_created(&self, created: Timestamp) {
        self.created.store(created.raw(), Relaxed);
    }

    #[inline]
    pub fn created(&self) -> Timestamp {
        Timestamp::from_raw(self.created.load(Relaxed))
    }

    #[inline]
    pub fn hash(&self) -> Hash32 {
        Hash32::from_raw(self.hash.load(Relaxed))
    }

    #[inline]
    pub fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    #[inline]
    pub fn generation(&self) -> GenerationMark {
        GenerationMark(self.generation.load(Relaxed) & !(SHORTENED | HAS_HARD_DEADLINE))
    }

    /// Whether the entry has a hard deadline. Acquire pairs with the Release in
    /// [`set_has_hard_deadline`](Self::set_has_hard_deadline): if the bit is set, the hard deadline
    /// is there.
    #[inline]
    pub fn has_hard_deadline(&self) -> bool {
        self.generation.load(Acquire) & HAS_HARD_DEADLINE != 0
    }

    pub fn set_has_hard_deadline(&self) {
        self.generation.fetch_or(HAS_HARD_DEADLINE, Release);
    }

    /// Whether the deadline was ever moved to an earlier instant. If so, the wheel may have the
    /// node in a later place.
    pub fn was_shortened(&self) -> bool {
        self.generation.load(Relaxed) & SHORTENED != 0
    }

    #[inline]
    pub fn region(&self) -> u8 {
        self.state.load(Relaxed) >> REGION_SHIFT
    }

    /// Sets the region, a number of two bits.
    #[inline]
    pub fn set_region(&self, region: u8) {
        self.state.store(self.state() | region << REGION_SHIFT, Relaxed);
    }

    #[inline]
    pub fn state(&self) -> u8 {
        self.state.load(Relaxed) & !REGION
    }

    #[inline]
    pub fn set_state(&self, bits: u8) {
        self.state.store(self.state.load(Relaxed) | bits, Relaxed);
    }

    /// Sets the first state bits. Only for the node's only owner.
    #[inline]
    pub fn begin_state(&self, bits: u8) {
        self.state.store(bits, Relaxed);
    }

    #[inline]
    pub fn clear_state(&self, bits: u8) {
        self.state.store(self.state.load(Relaxed) & !bits, Relaxed);
    }

    /// Marks a read in `record_period`. Returns true if it is the node's first read in that period,
    /// which must be recorded.
    #[inline]
    pub fn touch(&self, record_period: u8) -> bool {
        let first = self.record_period.load(Relaxed) != record_period;
        if first {
            self.record_period.store(record_period, Relaxed);
        }
        first
    }

    /// The record period of the last recorded read, or of an update.
    #[inline]
    pub fn record_period(&self) -> u8 {
        self.record_period.load(Relaxed)
    }

    #[inline]
    pub fn set_record_period(&self, record_period: u8) {
        self.record_period.store(record_period, Relaxed);
    }

    /// Takes back the mark of a read whose record was lost.
    #[cold]
    pub fn untouch(&self) {
        self.record_period.store(NO_PERIOD, Relaxed);
    }

    /// Adds a count. The caller must hold a count, or a guard under which the node was in the
    /// index.
    ///
    /// Aborts the process at about 2·10⁹ handles on one node, because the count must not wrap to
    /// zero. Only a program that forgets handles can get there.
    #[inline]
    pub fn retain(&self) {
        // Relaxed: a new count is made from an existing protection.
        if self.refs.fetch_add(1, Relaxed) > MAX_REFS {
            std::process::abort();
        }
    }

    /// Gives up a count. Returns true if it was the last one; then the caller must drop key and
    /// value.
    #[inline]
    #[must_use]
    pub fn release(&self) -> bool {
        // The last release must happen after every use under the other counts. AcqRel provides
        // that, and so does Acquire if no other count exists. (The holder of the only count is
        // alone: a new count is made from a count, or under a guard before the cache gives up its
        // own count.)
        if self.refs.load(Acquire) == 1 {
            self.refs.store(0, Relaxed);
            return true;
        }
        self.refs.fetch_sub(1, AcqRel) == 1
    }

    #[inline]
    pub fn refs(&self) -> u32 {
        self.refs.load(Acquire)
    }
}

/// The time that is left at `now` until `deadline`, in the form that the expiry hooks take: `None`
/// is for ever.
pub fn remaining(deadline: Timestamp, now: Timestamp) -> Option<std::time::Duration> {
    (deadline != NEVER).then(|| deadline.saturating_since(now).to_duration())
}
