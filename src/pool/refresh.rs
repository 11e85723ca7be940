//! When a read of a node is to trigger a reload: a word of its own, in caches with refresh.
//!
//! | word | written by | read by | ordering, and what it carries |
//! |---|---|---|---|
//! | `Refresh` | the trigger by compare-exchange; a call that makes the entry stale, by compare-exchange under the bucket's lock; the end of the reload, under that lock | reads | AcqRel / Acquire. It carries nothing: a trigger takes a count on the node and judges it again |

use super::columns::Column;
use super::raw::RawPool;
use crate::clock::{INSTANT, NEVER, Timestamp};
use crate::links::NodeId;
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::primitives::seeded;

/// In place of the instant in a `Refresh` word: the node was replaced by its own reload.
const RELOADED: u64 = 1;

/// The earliest instant of an entry of which a reload is under way.
const EARLIEST_TAKEN: u64 = RELOADED + 1;

/// In place of the instant: a reload is under way. It is the instant without its top bit.
fn taken(instant: Timestamp) -> Timestamp {
    Timestamp::from_raw((instant.raw() & !INSTANT).max(EARLIEST_TAKEN))
}

impl RawPool {
    /// When a read of node `id` is to trigger a reload. `None` in a cache without refresh.
    #[inline]
    pub fn refresh(&self, id: NodeId) -> Option<RefreshMark<'_>> {
        Some(RefreshMark(self.column(id, Column::Refresh)?))
    }
}

fn exchange(word: &AtomicU64, judged: Timestamp, new: Timestamp) -> bool {
    word.compare_exchange(judged.raw(), new.raw(), Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// When a read of a node is to trigger a reload.
#[derive(Clone, Copy)]
pub struct RefreshMark<'p>(&'p AtomicU64);

impl RefreshMark<'_> {
    /// The instant; [`NEVER`] while a reload is under way, if there is to be none, and once the
    /// node was replaced.
    #[inline]
    pub fn instant(self) -> Timestamp {
        let word = self.0.load(Ordering::Acquire);
        if word & INSTANT == 0 { NEVER } else { Timestamp::from_raw(word) }
    }

    /// Whether the [`instant`](Self::instant) comes after `bound`.
    #[inline]
    pub fn is_beyond(self, bound: Timestamp) -> bool {
        // Without its top bit an instant comes before all words that have none and get it.
        self.0.load(Ordering::Acquire) ^ INSTANT > bound.raw() ^ INSTANT
    }

    /// Whether a reload of a node that is in the index is under way. It is until its commit has
    /// ended, which marks the node before it is gone.
    pub fn is_under_way(self) -> bool {
        self.0.load(Ordering::Acquire) & INSTANT == 0
    }

    /// The instant, also while a reload is under way. The earliest of all once the node was
    /// replaced by its reload. (Of the first three instants of a clock, which look the same while a
    /// reload is under way, this is the first.)
    pub fn stale_from(self) -> Timestamp {
        match self.0.load(Ordering::Acquire) {
            ..=EARLIEST_TAKEN => Timestamp::from_raw(INSTANT),
            word => Timestamp::from_raw(word | INSTANT),
        }
    }

    /// Sets the instant: before publication, or under the bucket's lock when a reload has ended.
    pub fn set(self, instant: Timestamp) {
        self.0.store(instant.raw(), Ordering::Release);
    }

    /// Takes the trigger, if the instant is still `judged`.
    pub fn take(self, judged: Timestamp) -> bool {
        if seeded("every-read-reloads") {
            return true;
        }
        exchange(self.0, judged, taken(judged))
    }

    /// Takes the trigger, whatever the instant is. Returns false if a reload is under way, or has
    /// replaced the node.
    pub fn take_any(self) -> bool {
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & INSTANT == 0 {
                return false;
            }
            let instant = Timestamp::from_raw(word);
            if exchange(self.0, instant, taken(instant)) {
                return true;
            }
        }
    }

    /// Makes the instant the earliest of all, also while a reload is under way: it then counts once
    /// the reload has ended without a new value. Under the bucket's lock.
    pub fn make_stale(self) {
        let earliest = Timestamp::from_raw(INSTANT);
        loop {
            let word = Timestamp::from_raw(self.0.load(Ordering::Acquire));
            let stale = if word.raw() & INSTANT == 0 { taken(earliest) } else { earliest };
            if word.raw() == RELOADED || exchange(self.0, word, stale) {
                return;
            }
        }
    }

    /// Notes that a reload replaces the node. Only for that reload, which has the trigger, and
    /// under the bucket's lock, before the node is marked as unlinked. Returns the instant.
    pub fn note_reloaded(self) -> Timestamp {
        let instant = self.stale_from();
        self.0.store(RELOADED, Ordering::Release);
        instant
    }

    /// Takes [`note_reloaded`](Self::note_reloaded) back: the reload goes on.
    pub fn note_taken(self, instant: Timestamp) {
        self.0.store(taken(instant).raw(), Ordering::Release);
    }

    /// Whether a reload has replaced the node.
    pub fn was_reloaded(self) -> bool {
        self.0.load(Ordering::Acquire) == RELOADED
    }
}
