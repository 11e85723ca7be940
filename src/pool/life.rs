//! The end of a node's life, in whatever word it is.
//!
//! In most caches it is [`Meta::deadline`]. In a cache with refresh, that word says when a read
//! must *act*, and the end is in a column. `docs/refresh.md` has the words and their writers.
//!
//! # Rules, in a cache with refresh
//! 1. The end has the protocol that [`Meta`] describes for its deadline: prolonging, claiming and
//!    expiring compete for it by compare-exchange.
//! 2. [`GONE`] is in `Meta::deadline` alone. The thread that unlinks a node stores it there first,
//!    and then makes the end final by a claim. So a thread that reads a claimed end, and after that
//!    no `GONE`, has found an expiry and no removal.
//! 3. Only the holder of the bucket's lock writes `Meta::deadline` of a published node. It is never
//!    later than the end as long as reads of the cache prolong no lives; elsewhere no read takes it
//!    for anything but `GONE`.
//!
//! | word | written by | read by | ordering, and what it carries |
//! |---|---|---|---|
//! | `End` | rule 1 | slow reads, writers, passes | AcqRel / Acquire: a claimed end carries the `GONE` of rule 2 |
//! | `Refresh` | the trigger by compare-exchange; the end of the reload, under the bucket's lock | slow reads | AcqRel / Acquire. It carries nothing: a trigger takes a count on the node and judges it again |

use super::columns::Column;
use super::raw::RawPool;
use crate::clock::{INSTANT, NEVER, Timestamp};
use crate::links::NodeId;
use crate::node::{GONE, Meta, ended_at};
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::primitives::{delay_point, seeded};

/// In place of the instant in a `Refresh` word: the node was replaced by its own reload.
const RELOADED: u64 = 1;

/// In place of the instant: a reload is under way. It is the instant without its top bit.
fn taken(instant: Timestamp) -> Timestamp {
    Timestamp::from_raw((instant.raw() & !INSTANT).max(RELOADED + 1))
}

/// The words that say how long a node lives.
#[derive(Clone, Copy)]
pub struct Life<'p> {
    meta: &'p Meta,
    /// The word with the end, if it is not the one in `meta`.
    end: Option<&'p AtomicU64>,
}

impl RawPool {
    /// How long node `id` lives.
    #[inline]
    pub fn life(&self, id: NodeId) -> Life<'_> {
        self.life_at(id, self.meta(id))
    }

    /// [`life`](Self::life) for a caller that has the node's fixed part.
    #[inline(always)]
    pub fn life_at<'p>(&'p self, id: NodeId, meta: &'p Meta) -> Life<'p> {
        Life { meta, end: self.column(id, Column::End) }
    }

    /// When a read of node `id` is to trigger a reload. `None` in a cache without refresh.
    #[inline]
    pub fn refresh(&self, id: NodeId) -> Option<RefreshMark<'_>> {
        Some(RefreshMark(self.column(id, Column::Refresh)?))
    }

    /// Has the next read that must act come at the earlier one of the two deadlines. The caller
    /// holds the bucket's lock, and the node is in the index.
    pub fn set_act(&self, id: NodeId) {
        if let (Some(end), Some(refresh)) = (self.column(id, Column::End), self.refresh(id)) {
            let end = Timestamp::from_raw(end.load(Ordering::Acquire) | INSTANT);
            self.meta(id).set_act(end.min(refresh.instant()));
        }
    }
}

impl Life<'_> {
    /// The end of the life as of now: [`GONE`] if the node has left the index. It lacks the top bit
    /// if the expiry was claimed.
    #[inline]
    pub fn deadline(self) -> Timestamp {
        let Some(end) = self.end else { return self.meta.deadline() };
        // The end comes first (rule 2).
        let end = Timestamp::from_raw(end.load(Ordering::Acquire));
        if self.meta.deadline() == GONE { GONE } else { end }
    }

    /// Sets the words of a node that is not published yet.
    pub fn begin(self, end: Timestamp) {
        if let Some(word) = self.end {
            word.store(end.raw(), Ordering::Release);
        }
    }

    /// Moves the end from `judged` to `new`. Returns false if it is no longer `judged`. See
    /// [`Meta::change_deadline`].
    #[inline]
    pub fn change(self, judged: Timestamp, new: Timestamp) -> bool {
        delay_point();
        match self.end {
            None => self.meta.change_deadline(judged, new),
            Some(end) => {
                if new < judged {
                    self.meta.note_shortened();
                }
                exchange(end, judged, new)
            }
        }
    }

    /// Before the end becomes earlier: no plain hit comes after `new`. The caller holds the
    /// bucket's lock.
    pub fn lower_act(self, new: Timestamp) {
        if self.end.is_some() && self.meta.deadline() > new && !seeded("ends-before-acts") {
            self.meta.set_act(new);
        }
    }

    /// Makes the expiry of the end `judged` final. Returns false if the end is no longer `judged`.
    /// See [`Meta::claim`].
    #[cold]
    pub fn claim(self, judged: Timestamp) -> bool {
        delay_point();
        let Some(end) = self.end else { return self.meta.claim(judged) };
        let claimed = Timestamp::from_raw(judged.raw() & !INSTANT);
        claimed == judged || exchange(end, judged, claimed)
    }

    /// Marks the node as unlinked, regardless of its end. Returns the end that it had.
    pub fn mark_gone(self) -> Timestamp {
        let Some(end) = self.end else { return self.meta.mark_gone() };
        self.meta.mark_gone();
        Timestamp::from_raw(end.fetch_and(!INSTANT, Ordering::AcqRel))
    }

    /// The end that a node had when it was marked as unlinked. `None` where that is not kept: the
    /// end is in `Meta`.
    pub fn last_end(self) -> Option<Timestamp> {
        let end = self.end?;
        Some(ended_at(Timestamp::from_raw(end.load(Ordering::Acquire))))
    }

    /// Makes the end no earlier than `end`, unless its expiry was claimed.
    pub fn raise(self, end: Timestamp) {
        let Some(word) = self.end else { return };
        let raised = |present: u64| {
            let is_claimed = present & INSTANT == 0;
            (!is_claimed && present < end.raw()).then_some(end.raw())
        };
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, raised);
    }

    /// Marks the node as unlinked if its end is still `judged`. The caller holds the bucket's lock.
    #[inline]
    pub fn mark_gone_at(self, judged: Timestamp) -> bool {
        if self.end.is_none() {
            return self.meta.change_deadline(judged, GONE);
        }
        let is_still = self.claim(judged);
        if is_still {
            self.meta.mark_gone();
        }
        is_still
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

    /// Whether a reload of a node that is in the index is under way. It is until its commit has
    /// ended, which marks the node before it is gone.
    pub fn is_under_way(self) -> bool {
        self.0.load(Ordering::Acquire) & INSTANT == 0
    }

    /// The instant, also while a reload is under way. The earliest of all once the node was
    /// replaced by its reload.
    pub fn stale_from(self) -> Timestamp {
        Timestamp::from_raw(self.0.load(Ordering::Acquire) | INSTANT)
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

    /// Takes the trigger, whatever the instant is. Returns the instant; `None` if a reload is under
    /// way, or has replaced the node.
    pub fn take_any(self) -> Option<Timestamp> {
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & INSTANT == 0 {
                return None;
            }
            let instant = Timestamp::from_raw(word);
            if exchange(self.0, instant, taken(instant)) {
                return Some(instant);
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
