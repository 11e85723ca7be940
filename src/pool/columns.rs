//! Columns: words that the nodes of some caches have beside their fixed part.
//!
//! A cache pays for the columns that it was built with, and for no other: they lie behind the nodes
//! of a chunk, one array of words per column. So a node keeps its size, and plain reads never touch
//! a column's cache lines. A pool in one flat mapping would lay them out in the same way.
//!
//! | word | written by | read by | ordering, and what it carries |
//! |---|---|---|---|
//! | `Refresh` | the trigger by compare-exchange; a call that makes the entry stale, by compare-exchange under the bucket's lock; the end of the reload, under that lock | reads | AcqRel / Acquire. It carries nothing: a trigger takes a count on the node and judges it again |

use crate::clock::{INSTANT, NEVER, Timestamp};
use crate::node::Meta;
use crate::primitives::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};
use crate::primitives::seeded;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// When the entry ends although it is read: in caches with an idle time.
    HardDeadline,
    /// When a read is to trigger a reload: in caches with refresh.
    Refresh,
}

/// The columns of a pool, chosen when the cache is built.
#[derive(Clone, Copy)]
pub struct Columns(u8);

const _: () = assert!(Column::Refresh as usize + 1 == Columns::MAX);
const _: () = assert!(Columns::MAX * size_of::<u64>() <= size_of::<Meta>());

impl Columns {
    /// No pool has more. A chunk that is just being published is taken for one of a single node:
    /// its second node then stands for the words of the columns, and begins with six.
    pub const MAX: usize = 2;

    /// No columns.
    pub const NONE: Self = Self(0);

    /// These columns and one more.
    #[must_use]
    pub const fn with(self, column: Column) -> Self {
        Self(self.0 | 1 << column as u8)
    }

    pub const fn has(self, column: Column) -> bool {
        self.0 & 1 << column as u8 != 0
    }

    /// The number of columns.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The number of columns before this one.
    pub const fn position(self, column: Column) -> usize {
        (self.0 & ((1 << column as u8) - 1)).count_ones() as usize
    }
}

/// A node's hard deadline. Most nodes of most caches have none, which a bit in the node's [`Meta`]
/// says. The word is in another cache line than the node, so it is read only if the bit is set.
#[derive(Clone, Copy)]
pub struct HardDeadline<'p> {
    pub(super) meta: &'p Meta,
    pub(super) word: &'p AtomicU64,
}

impl HardDeadline<'_> {
    /// The hard deadline; [`NEVER`] if there is none.
    #[inline]
    pub fn load(self) -> Timestamp {
        if self.meta.has_hard_deadline() {
            Timestamp::from_raw(self.word.load(Acquire))
        } else {
            NEVER
        }
    }

    /// Sets the hard deadline. The caller does so before publication, or under the bucket's lock
    /// and before it sets the deadline that follows from it. `always` stores the word even if it is
    /// [`NEVER`], for caches whose reads [exchange](Self::exchange) it.
    #[inline]
    pub fn store(self, hard_deadline: Timestamp, always: bool) {
        if always || hard_deadline != NEVER || self.meta.has_hard_deadline() {
            self.word.store(hard_deadline.raw(), Release);
            self.meta.set_has_hard_deadline();
        }
    }

    /// [`store`](Self::store) of a published node's. Returns what it was before, also if a read
    /// exchanges it at this moment.
    pub fn replace(self, hard_deadline: Timestamp) -> Timestamp {
        if !self.meta.has_hard_deadline() {
            self.store(hard_deadline, false);
            return NEVER;
        }
        Timestamp::from_raw(self.word.swap(hard_deadline.raw(), AcqRel))
    }

    /// Sets the hard deadline if it is still `expected`. A read whose hook gave another lifetime
    /// calls this, without a lock.
    #[inline]
    pub fn exchange(self, expected: Timestamp, hard_deadline: Timestamp) -> bool {
        debug_assert!(self.meta.has_hard_deadline(), "reads change only a stored hard deadline");
        self.word.compare_exchange(expected.raw(), hard_deadline.raw(), AcqRel, Acquire).is_ok()
    }
}

/// In place of the instant in a `Refresh` word: the node was replaced by its own reload.
const RELOADED: u64 = 1;

/// The earliest instant of an entry of which a reload is under way.
const EARLIEST_TAKEN: u64 = RELOADED + 1;

/// In place of the instant: a reload is under way. It is the instant without its top bit.
fn taken(instant: u64) -> u64 {
    (instant & !INSTANT).max(EARLIEST_TAKEN)
}

/// When a read of a node is to trigger a reload.
#[derive(Clone, Copy)]
pub struct RefreshMark<'p>(pub(super) &'p AtomicU64);

impl RefreshMark<'_> {
    /// The instant; [`NEVER`] while a reload is under way, if there is to be none, and once the
    /// node was replaced.
    #[inline]
    pub fn instant(self) -> Timestamp {
        let word = self.0.load(Acquire);
        if word & INSTANT == 0 { NEVER } else { Timestamp::from_raw(word) }
    }

    /// Whether the [`instant`](Self::instant) comes after `bound`.
    #[inline]
    pub fn is_beyond(self, bound: Timestamp) -> bool {
        // Without its top bit an instant comes before all words that have none and get it.
        self.0.load(Acquire) ^ INSTANT > bound.raw() ^ INSTANT
    }

    /// Whether a reload of a node that is in the index is under way. It is until its commit has
    /// ended, which marks the node before it is gone.
    pub fn is_under_way(self) -> bool {
        self.0.load(Acquire) & INSTANT == 0
    }

    /// The instant, also while a reload is under way. The earliest of all once the node was
    /// replaced by its reload. (Of the first three instants of a clock, which look the same while a
    /// reload is under way, this is the first.)
    pub fn stale_from(self) -> Timestamp {
        match self.0.load(Acquire) {
            ..=EARLIEST_TAKEN => Timestamp::from_raw(INSTANT),
            word => Timestamp::from_raw(word | INSTANT),
        }
    }

    /// Sets the instant: before publication, or under the bucket's lock when a reload has ended.
    pub fn set(self, instant: Timestamp) {
        self.0.store(instant.raw(), Release);
    }

    /// Takes the trigger, if the instant is still `expected`.
    pub fn take(self, expected: Timestamp) -> bool {
        if seeded("every-read-reloads") {
            return true;
        }
        let taken = taken(expected.raw());
        self.0.compare_exchange(expected.raw(), taken, AcqRel, Acquire).is_ok()
    }

    /// Takes the trigger, whatever the instant is. Returns false if a reload is under way, or has
    /// replaced the node.
    pub fn take_any(self) -> bool {
        let take = |word: u64| (word & INSTANT != 0).then(|| taken(word));
        self.0.fetch_update(AcqRel, Acquire, take).is_ok()
    }

    /// Makes the instant the earliest of all, also while a reload is under way: it then counts once
    /// the reload has ended without a new value. Under the bucket's lock.
    pub fn make_stale(self) {
        let stale = |word: u64| match word {
            RELOADED => None,
            word if word & INSTANT == 0 => Some(taken(INSTANT)),
            _ => Some(INSTANT),
        };
        let _ = self.0.fetch_update(AcqRel, Acquire, stale);
    }

    /// Notes that a reload replaces the node. Only for that reload, which has the trigger, and
    /// under the bucket's lock, before the node is marked as unlinked. Returns the instant.
    pub fn note_reloaded(self) -> Timestamp {
        let instant = self.stale_from();
        self.0.store(RELOADED, Release);
        instant
    }

    /// Takes [`note_reloaded`](Self::note_reloaded) back: the reload goes on.
    pub fn note_taken(self, instant: Timestamp) {
        self.0.store(taken(instant.raw()), Release);
    }

    /// Whether a reload has replaced the node.
    pub fn was_reloaded(self) -> bool {
        self.0.load(Acquire) == RELOADED
    }
}
