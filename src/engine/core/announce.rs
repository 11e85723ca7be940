//! Announcing removals.

use super::notices::Notice;
use super::receiving::Receiving;
use super::shared::Core;
use crate::clock::{Nanos, Timestamp};
use crate::engine::reentrancy::{self, Deliver};
use crate::executor::{Job, Work};
use crate::links::NodeId;
use crate::node::{Meta, ended_at};
use crate::primitives::atomic::Ordering;
use crate::primitives::seeded;
use crate::removal::RemovalCause;
use std::sync::Weak;

impl Core {
    /// Counts a removal and queues its notice. To be called when the node has just left the index,
    /// under its bucket's lock: so notices of one key are in the order of its removals.
    #[inline(always)]
    pub fn announce(&self, id: NodeId, cause: RemovalCause, deadline: Timestamp, now: Timestamp) {
        if self.recorder.is_some() || self.notices.announces() {
            self.announce_slow(id, cause, deadline, now);
        }
    }

    /// Announces the removal of a node that has just been marked as gone and had this deadline.
    /// Returns the cause with which it has left: what had ended the node before comes before the
    /// `cause` that the caller names.
    #[inline]
    pub fn announce_gone(
        &self,
        (id, meta): (NodeId, &Meta),
        deadline: Timestamp,
        now: Timestamp,
        cause: RemovalCause,
    ) -> RemovalCause {
        let cause = if self.hot.is_cleared(meta) {
            RemovalCause::Explicit
        } else if deadline <= now {
            RemovalCause::Expired
        } else {
            cause
        };
        self.announce(id, cause, ended_at(deadline), now);
        cause
    }

    #[inline(never)]
    fn announce_slow(&self, id: NodeId, cause: RemovalCause, deadline: Timestamp, now: Timestamp) {
        // Another thread may have claimed the expiry by a later reading of the clock.
        let at = if cause == RemovalCause::Expired { now.max(deadline) } else { now };
        self.queue_notice(Notice { id, cause, deadline, at }, at.saturating_since(deadline));
    }

    /// [`announce`](Self::announce) for a node that was never inside. A caller may have set its
    /// deadline in the past, but the cache has kept nothing too long.
    pub fn announce_refused(
        &self,
        id: NodeId,
        cause: RemovalCause,
        deadline: Timestamp,
        now: Timestamp,
    ) {
        self.queue_notice(Notice { id, cause, deadline, at: now }, Nanos::ZERO);
    }

    fn queue_notice(&self, notice: Notice, late: Nanos) {
        if let Some(recorder) = &self.recorder {
            recorder.removed(notice.cause, late);
        }
        let notices = &self.notices;
        if notices.announces() && !notices.discards() {
            self.pool.meta(notice.id).retain();
            notices.outbox.push(notice);
            if let Some(receiving) = &notices.receiving {
                receiving.note_push();
            }
        }
    }

    /// Announces a value that was refused after the cache was closed. It is only counted if the
    /// receiver has seen the end, or if the cache's own listener put it back: announcing it would
    /// have no end.
    #[cold]
    pub fn refuse_closed(&self, id: NodeId, deadline: Timestamp, now: Timestamp) {
        let has_end = self.notices.receiving.as_deref().is_some_and(Receiving::is_ended);
        if !(has_end || reentrancy::notifies(self.id())) || seeded("refusals-are-announced") {
            return self.announce(id, RemovalCause::Explicit, deadline, now);
        }
        self.notices.refused_after_close.fetch_add(1, Ordering::Relaxed);
        if let Some(recorder) = &self.recorder {
            recorder.removed(RemovalCause::Explicit, Nanos::ZERO);
        }
    }

    /// Leaves nodes without a count to the thread that delivers next.
    pub fn drop_later(&self, ids: Vec<NodeId>) {
        // Before the push, so that the number never falls below zero.
        self.notices.nodes_to_drop.fetch_add(ids.len() as u32, Ordering::Relaxed);
        self.notices.to_drop.push(ids);
    }

    /// Leaves what there is to deliver and to drop to the executor. For the scheduler's thread,
    /// which runs no code of the user's. The job also hands reloads on.
    pub fn submit_deliveries(&self) {
        let notices = &self.notices;
        if seeded("the-scheduler-wakes-receivers") {
            notices.receiving.as_deref().inspect(|receiving| receiving.wake());
        }
        if notices.has_work()
            && let Some(ticket) = notices.handoff.request()
            && let Some(job) = notices.job(ticket)
        {
            match &notices.caller_of_own {
                Some(caller) => notices.executor.execute_by(caller, job),
                None => notices.executor.execute(job),
            }
        }
    }

    /// Hands a reload to the executor. No lock may be held.
    pub fn execute_reload(&self, job: Job) {
        self.notices.executor.execute_reload(job);
    }

    /// Has the executor run a future, or drop it.
    pub fn spawn(&self, work: Work) {
        self.notices.executor.spawn(work);
    }

    /// Notes whether reloads wait to be handed to the executor.
    pub fn note_reloads(&self, wait: bool) {
        self.notices.notes_reloads.store(wait, Ordering::Relaxed);
    }

    /// Has the next operation, or the scheduler, hand on the reloads that wait. To be called by who
    /// has not done that, and after a pass, which has met the request.
    pub fn leave_noted_reloads(&self) {
        if self.has_noted_reloads() {
            self.require_pass();
            self.wake_scheduler();
        }
    }

    pub fn has_noted_reloads(&self) -> bool {
        self.notices.has_noted_reloads()
    }

    /// Whether more notices wait than writers are to leave.
    pub fn is_over_notification_limit(&self) -> bool {
        self.notices.exceeded_limit().is_some()
    }

    /// Whether there is anything to deliver or to drop. A job of the executor may be about to.
    pub fn needs_delivery(&self) -> bool {
        self.notices.has_work()
    }

    /// Sets the cache on whose behalf others deliver.
    pub fn set_client(&self, client: Weak<dyn Deliver>) {
        let _ = self.notices.client.set(client);
    }

    /// Tells the receiver, if there is one, that no more removals will come. Writers wait for it no
    /// longer.
    pub fn end_receiving(&self) {
        if let Some(receiving) = &self.notices.receiving {
            receiving.end();
            self.notices.outbox.waiters().wake();
        }
    }

    /// Refuses new values from now on.
    pub fn close(&self) {
        self.notices.closed.store(true, Ordering::Release);
    }

    pub fn is_closed(&self) -> bool {
        self.notices.closed.load(Ordering::Acquire)
    }
}
