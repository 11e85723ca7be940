//! Announcing removals, and what one call delivers: the removals that it announces, the contents
//! that it drops. Nothing here knows keys or values.

use super::notices::{Notice, Notices, ToDrop};
use super::receiving::Receiving;
use crate::clock::Nanos;
use crate::engine::base::Base;
use crate::engine::reentrancy::{self, Frame, ReentrancyMark};
use crate::node::{Meta, ended_at};
use crate::pool::RawHandle;
use crate::primitives::atomic::Ordering;
use crate::primitives::seeded;
use crate::removal::RemovalCause;

/// While more nodes than this, and more than the cache has entries, wait for an executor of the
/// user's to drop their contents, callers drop some.
const FAR_BEHIND: usize = 4096;

/// How much one call delivers.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryBudget {
    notices: usize,
    /// Batches of nodes whose keys and values are dropped. What a caller's pass gives up fills
    /// nine at most. (In a small cache batches are smaller, and may be more.) What is left asks
    /// for a pass, and so for the next operation.
    batches: usize,
}

impl DeliveryBudget {
    /// Of a caller, beside its operation.
    pub const CALLER: Self = Self { notices: 64, batches: 16 };
    /// Of a job, before other caches have their turn. The end of a runtime waits for that long: for
    /// a listener that takes 200 µs, 0.8 s.
    pub const JOB: Self = Self { notices: 4096, batches: 16 };
    pub const ALL: Self = Self { notices: usize::MAX, batches: usize::MAX };

    /// Of a caller that asked for so many units.
    pub fn of_units(notices: usize) -> Self {
        Self { notices, ..Self::ALL }
    }
}

/// The result of [`Notices::deliver`].
pub struct Delivered {
    /// Whether the call has delivered. It has not inside a callback or a flight, where it leaves
    /// the delivery to a later operation, nor inside another delivery of the cache, which
    /// takes it over.
    pub has_run: bool,
    /// Whether a later operation has to go on.
    pub has_more: bool,
}

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
            recorder.removed(notice.cause, base.pool.meta(notice.id).weight(), late);
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
            recorder.removed(RemovalCause::Explicit, 0, Nanos::ZERO);
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

    /// Drops what passes took out and announces removals, within the budget. No lock is held.
    pub fn deliver(&self, base: &Base, budget: DeliveryBudget) -> Delivered {
        if reentrancy::bars_deliveries() && !seeded("owners-deliver") {
            return Delivered { has_run: false, has_more: self.has_deliveries() };
        }
        let Some(_mark) = ReentrancyMark::push_once(Frame::Delivery(base.id())) else {
            return Delivered { has_run: false, has_more: false };
        };
        let DeliveryBudget { notices: mut most, mut batches } = budget;
        let listener = self.listener();
        // Calls from listeners and destructors leave to this one what they cause.
        loop {
            batches -= self.drop_reclaimed(base, batches);
            if let Some(receiving) = &self.receiving {
                receiving.wake();
                if receiving.is_gone() {
                    self.drop_unreceived(base);
                }
            }
            let mut has_more = batches == 0 && !self.to_drop.is_empty();
            let mut is_done = true;
            if let Some(listener) = &listener {
                let delivered = self.outbox.deliver(most, |notice| listener.deliver(base, notice));
                most -= delivered.count;
                has_more |= delivered.more;
                is_done = delivered.count == 0 && self.to_drop.is_empty();
            }
            if has_more || is_done {
                return Delivered { has_run: true, has_more };
            }
        }
    }

    /// Delivers the notices that are left when the cache is dropped, unless there is a receiver: it
    /// outlives the cache, and takes them.
    pub fn deliver_rest(&self, base: &Base) {
        if !self.receiving().is_some_and(Receiving::is_taken) {
            let listener = self.listener();
            let deliver = |notice: Notice| match &listener {
                Some(listener) => listener.deliver(base, notice),
                // Nobody took the receiver.
                None => release(base, notice),
            };
            while self.outbox.deliver(usize::MAX, deliver).count > 0 {}
        }
    }

    /// Takes the next notice out, for the receiver.
    pub fn next(&self) -> Option<Notice> {
        let mut next = None;
        let _ = self.outbox.deliver(1, |notice| next = Some(notice));
        next
    }

    /// Drops the keys and values of nodes without a count, of at most so many batches. Returns of
    /// how many.
    pub fn drop_reclaimed(&self, base: &Base, most: usize) -> usize {
        let mut batches = 0;
        while batches < most
            && let Some(ToDrop { ids, weight }) = self.to_drop.pop()
        {
            self.nodes_to_drop.fetch_sub(ids.len() as u32, Ordering::Relaxed);
            self.weight_to_drop.fetch_sub(weight, Ordering::Relaxed);
            base.destroy(&ids);
            batches += 1;
        }
        batches
    }

    /// Drops what an executor of the user's is too far behind with: it may be stuck or gone, and
    /// the values take memory. Its job may be in a listener.
    pub fn drop_for_executor(&self, base: &Base, entries: u64) {
        let waiting = self.nodes_to_drop();
        let is_behind = waiting > FAR_BEHIND && waiting as u64 > entries;
        if is_behind
            && !reentrancy::bars_deliveries()
            && let Some(_mark) = ReentrancyMark::push_once(Frame::Delivery(base.id()))
        {
            self.drop_reclaimed(base, DeliveryBudget::CALLER.batches);
        }
    }

    /// Releases the notices that nobody will receive, until another receiver is taken. Writers that
    /// wait for room go on.
    #[cold]
    pub fn drop_unreceived(&self, base: &Base) {
        let drop_one = |notice| {
            self.count_discarded();
            release(base, notice);
        };
        let Some(receiving) = &self.receiving else { return };
        while receiving.is_gone() && self.outbox.deliver(1, drop_one).count > 0 {}
        // Another receiver may have parked because this thread was delivering.
        receiving.wake();
    }
}

/// Drops a notice of which nobody hears.
fn release(base: &Base, notice: Notice) {
    base.drop_caught(RawHandle::from_count(base.pool.clone(), notice.id));
}
