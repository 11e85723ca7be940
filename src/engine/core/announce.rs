//! Announcing removals.

use super::notices::Notice;
use super::shared::Core;
use crate::engine::reentrancy;
use crate::removal::RemovalCause;
use crate::sync::seeded;

impl Core {
    /// Counts a removal and queues its notice. To be called when the node has just left the index,
    /// under its bucket's lock: so notices of one key are in the order of its removals.
    #[inline(always)]
    pub fn announce(&self, id: u32, cause: RemovalCause, deadline: u64, now: u64) {
        if self.recorder.is_some() || self.notices.has_listener() {
            self.announce_slow(id, cause, deadline, now);
        }
    }

    #[inline(never)]
    fn announce_slow(&self, id: u32, cause: RemovalCause, deadline: u64, now: u64) {
        // Another thread may have claimed the expiry by a later reading of the clock.
        let at = if cause == RemovalCause::Expired { now.max(deadline) } else { now };
        if let Some(recorder) = &self.recorder {
            recorder.removed(cause, at.saturating_sub(deadline));
        }
        let notices = &self.notices;
        if !notices.has_listener() || notices.discards() {
            return;
        }
        self.pool.meta(id).retain();
        notices.push(Notice { id, cause, deadline, at });
    }

    /// Announces a value that was refused after the cache was closed. A value that the cache's own
    /// listener put back is only counted: announcing it would have no end.
    #[cold]
    pub fn refuse_closed(&self, id: u32, deadline: u64, now: u64) {
        if !reentrancy::delivers(self.id()) || seeded("refusals-are-announced") {
            return self.announce(id, RemovalCause::Explicit, deadline, now);
        }
        self.notices.count_refusal();
        if let Some(recorder) = &self.recorder {
            recorder.removed(RemovalCause::Explicit, 0);
        }
    }
}
