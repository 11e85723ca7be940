//! Announcing removals.

use super::notices::{Notice, Notices};
use super::receiving::Receiving;
use crate::clock::Nanos;
use crate::engine::base::Base;
use crate::engine::reentrancy;
use crate::node::{Meta, ended_at};
use crate::primitives::atomic::Ordering;
use crate::primitives::seeded;
use crate::removal::RemovalCause;

impl Notices {
    /// Counts a removal and queues its notice. To be called when the node has just left the index,
    /// under its bucket's lock: so notices of one key are in the order of its removals.
    #[inline(always)]
    pub fn announce(&self, base: &Base, notice: Notice) {
        if base.recorder.is_some() || self.announces() {
            self.announce_slow(base, notice);
        }
    }

    /// Announces the removal of a node that has just been marked as gone and had this deadline.
    /// Returns the cause with which it has left: what had ended the node before comes before the
    /// cause that the caller names.
    #[inline]
    pub fn announce_gone(&self, base: &Base, meta: &Meta, mut notice: Notice) -> RemovalCause {
        if base.hot.is_cleared(meta) {
            notice.cause = RemovalCause::Explicit;
        } else if notice.deadline <= notice.at {
            notice.cause = RemovalCause::Expired;
        }
        notice.deadline = ended_at(notice.deadline);
        self.announce(base, notice);
        notice.cause
    }

    #[inline(never)]
    fn announce_slow(&self, base: &Base, mut notice: Notice) {
        if notice.cause == RemovalCause::Expired {
            // Another thread may have claimed the expiry by a later reading of the clock.
            notice.at = notice.at.max(notice.deadline);
        }
        self.queue(base, notice, notice.at.saturating_since(notice.deadline));
    }

    /// [`announce`](Self::announce) for a node that was never inside. A caller may have set its
    /// deadline in the past, but the cache has kept nothing too long.
    pub fn announce_refused(&self, base: &Base, notice: Notice) {
        self.queue(base, notice, Nanos::ZERO);
    }

    fn queue(&self, base: &Base, notice: Notice, late: Nanos) {
        if let Some(recorder) = &base.recorder {
            recorder.removed(notice.cause, late);
        }
        if self.announces() && !self.discards() {
            base.pool.meta(notice.id).retain();
            self.outbox.push(notice);
            self.receiving().inspect(|receiving| receiving.note_push());
        }
    }

    /// Announces a value that was refused after the cache was closed. It is only counted if the
    /// receiver has seen the end, or if the cache's own listener put it back: announcing it would
    /// have no end.
    #[cold]
    pub fn refuse_closed(&self, base: &Base, notice: Notice) {
        let has_end = self.receiving().is_some_and(Receiving::is_ended);
        if !(has_end || reentrancy::notifies(base.id())) || seeded("refusals-are-announced") {
            return self.announce(base, notice);
        }
        self.refused_after_close.fetch_add(1, Ordering::Relaxed);
        if let Some(recorder) = &base.recorder {
            recorder.removed(RemovalCause::Explicit, Nanos::ZERO);
        }
    }

    /// Tells the receiver, if there is one, that no more removals will come. Writers wait for it no
    /// longer.
    pub fn end_receiving(&self) {
        if let Some(receiving) = &self.receiving {
            receiving.end();
            self.outbox.waiters().wake();
        }
    }
}
