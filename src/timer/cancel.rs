//! Ending and moving jobs by their ids.

use super::body::drop_user_code;
use super::id::TimerId;
use super::run::{CancelOutcome, Series};
use super::schedule::after;
use super::series::{Abort, Abortable, State};
use super::shared::{Begun, Jobs, Shared};
use super::stats::Counters;
use crate::primitives::plain::Arc;
use crate::primitives::{MutexGuard, seeded};
use std::time::Duration;

impl Shared {
    /// Notes how a run is to be ended from outside, since its future is pending. Returns whether it
    /// was aborted before.
    pub fn note_pending(&self, begun: &Begun, abort: Arc<Abort>) -> bool {
        let mut jobs = self.jobs.lock();
        let before = jobs.aborts.insert(begun.run.id, Abortable::Pending(abort));
        matches!(before, Some(Abortable::Aborted)) && !seeded("timer-forgets-aborts")
    }

    /// Cancels a job, and ends its run if that is a future.
    pub fn abort(&self, id: TimerId) -> CancelOutcome {
        let mut jobs = self.jobs.lock();
        let runs = jobs.named(id).is_some_and(|entry| entry.state == State::Running);
        let abort = match jobs.aborts.get(&id) {
            Some(Abortable::Pending(abort)) => Some(Arc::clone(abort)),
            before => {
                if runs || before.is_some() {
                    jobs.aborts.insert(id, Abortable::Aborted);
                }
                None
            }
        };
        let outcome = self.cancel_locked(jobs, id);
        // An executor may run the poll that follows inside of this call.
        abort.iter().for_each(|abort| abort.ask());
        outcome
    }

    fn cancel_locked(&self, mut jobs: MutexGuard<'_, Jobs>, id: TimerId) -> CancelOutcome {
        let Some(entry) = jobs.named(id) else { return CancelOutcome::Finished };
        if entry.state == State::Running {
            let was_ending = std::mem::replace(&mut entry.is_ending, true);
            return if was_ending { CancelOutcome::Finished } else { CancelOutcome::Running };
        }
        if seeded("timer-cancels-waiting-only") && entry.state == State::Queued {
            return CancelOutcome::Cancelled;
        }
        let entry = jobs.core.remove(id);
        jobs.waiting -= 1;
        self.unlock(jobs, None);
        drop_user_code(entry);
        Counters::add(&self.counters.cancelled, 1);
        CancelOutcome::Cancelled
    }
}

impl Series for Shared {
    fn cancel(&self, id: TimerId) -> CancelOutcome {
        self.cancel_locked(self.jobs.lock(), id)
    }

    fn reschedule(&self, id: TimerId, delay: Duration) -> bool {
        let deadline = after(self.scale.now(), delay);
        let mut jobs = self.jobs.lock();
        let is_stopping = jobs.stopping.is_some();
        let Some(entry) = jobs.named(id).filter(|_| !is_stopping) else { return false };
        if entry.state == State::Running {
            let goes_on = !entry.is_ending && entry.remaining != Some(0);
            entry.next = Some(deadline).filter(|_| goes_on);
            return goes_on;
        }
        // This makes a ticket void that an executor still has.
        entry.ticket = entry.ticket.wrapping_add(1);
        entry.runs_here = false;
        (entry.state, entry.planned) = (State::Waiting, deadline);
        jobs.core.schedule(id, deadline);
        self.unlock(jobs, Some(deadline));
        true
    }
}
