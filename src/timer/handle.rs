//! The owner's end of a job.

use super::id::TimerId;
use super::run::{CancelOutcome, Series};
use super::shared::Shared;
use crate::macros::debug_fields;
use crate::primitives::plain::Arc;
use std::time::Duration;

/// A job that waits or runs. **Dropping the handle cancels the job**, as
/// [`cancel`](Self::cancel) does; [`detach`](Self::detach) lets it go on.
///
/// So a timeout that lives in a struct ends with it, and cannot be forgotten.
#[must_use = "dropping it cancels the job; `detach` lets it go on"]
pub struct Handle {
    shared: Arc<Shared>,
    id: TimerId,
    is_attached: bool,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>, id: TimerId) -> Self {
        Self { shared, id, is_attached: true }
    }

    /// The id of the job, for [`Timer::cancel`](super::Timer::cancel) and
    /// [`Timer::reschedule`](super::Timer::reschedule).
    #[must_use]
    pub fn id(&self) -> TimerId {
        self.id
    }

    /// Cancels the job. Takes effect at once, in constant time. Does not wait for a run that is in
    /// progress.
    pub fn cancel(mut self) -> CancelOutcome {
        self.is_attached = false;
        self.shared.cancel(self.id)
    }

    /// Cancels the job, and ends a run of an async job that is in progress: its future is dropped,
    /// and not polled again, except that a run which has only just begun may reach its first point
    /// of waiting. If no thread polls it just now, the executor's next turn drops it, else the
    /// thread that polls it. (After the end of a timer that has no executor, this call may.) The
    /// run counts as running until then. A run that blocks goes on to its end, as after
    /// [`cancel`](Self::cancel). Does not wait.
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{CancelOutcome, Timer};
    /// use std::time::Duration;
    ///
    /// let (clock, _hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// let (_server, answer) = tokio::sync::oneshot::channel::<u32>();
    /// let request = timer.after(Duration::ZERO, |_| async move { drop(answer.await) })?;
    /// timer.poll(&mut 1024);
    /// assert_eq!((timer.running(), request.abort()), (1, CancelOutcome::Running));
    /// timer.poll(&mut 1024);
    /// assert_eq!(timer.running(), 0);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn abort(mut self) -> CancelOutcome {
        self.is_attached = false;
        self.shared.abort(self.id)
    }

    /// Moves the next run to `delay` from now, also if the job already waits in the executor's
    /// queue. While a run of a series is in progress, this sets the run after it. Returns false if
    /// no run follows: the job has ended, its last run is in progress
    /// ([`Run::reschedule`](super::Run::reschedule)), or the timer is being shut down.
    pub fn reschedule(&self, delay: Duration) -> bool {
        self.shared.reschedule(self.id, delay)
    }

    /// Lets the job go on without a handle.
    pub fn detach(mut self) -> TimerId {
        self.is_attached = false;
        self.id
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_attached {
            let _: CancelOutcome = self.shared.cancel(self.id);
        }
    }
}

debug_fields!(impl Handle, |it| id: it.id);
