//! What a job knows of its run.

use super::id::TimerId;
use crate::macros::debug_fields;
use crate::primitives::plain::Arc;
use crate::primitives::time::{Duration, Instant};

/// What became of a job that was cancelled or aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The job was waiting. No run begins any more, and what it captured was dropped.
    Cancelled,
    /// A run is in progress, and is the last. After `cancel` it goes on to its end. After
    /// [`abort`](super::Handle::abort) the future of an async job is dropped before its end.
    Running,
    /// The timer has no such job any more: it has ended, was cancelled before, or was taken out
    /// when the timer ended. In the last two cases a last run may still be in progress.
    Finished,
}

/// What a run may do to its own series.
pub trait Series: Send + Sync {
    fn cancel(&self, id: TimerId) -> CancelOutcome;
    fn reschedule(&self, id: TimerId, delay: Duration) -> bool;
}

/// A run of a job, as the job sees it.
#[derive(Clone)]
pub struct Run {
    pub(super) series: Arc<dyn Series>,
    /// The id of the job: the same for all runs of a series.
    pub id: TimerId,
    /// When this run was planned for.
    pub planned: Instant,
    /// How long after that it began, by the timer's clock.
    pub late: Duration,
    /// The number of this run in its series, from 1.
    pub number: u64,
    /// How many runs follow this one; `None` if there is no end, or the schedule does not know. In
    /// the last run it is `Some(0)`, and [`reschedule`](Self::reschedule) adds none.
    pub remaining: Option<u64>,
}

impl Run {
    /// Ends the series: this run is its last.
    pub fn cancel(&self) {
        let _: CancelOutcome = self.series.cancel(self.id);
    }

    /// Sets the next run to `delay` from now, in place of the time that the schedule would choose.
    /// The schedule goes on from there. This adds no run to a list of intervals.
    ///
    /// Returns false, and sets nothing,
    ///
    /// * in the last run, in which [`remaining`](field@Self::remaining) is `Some(0)`: that of
    ///   `after` and `at`, and the last one of a list;
    /// * if the series was cancelled, or the timer is being shut down.
    ///
    /// A [`Schedule`](super::Schedule) that does not tell how many runs are left has no last run
    /// that is known as such. So `reschedule` adds a run to it.
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Repeat, Timer};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// let second = Duration::from_secs(1);
    /// // Three tries. The server asks for a pause of ten seconds after each.
    /// let tries = timer.intervals([second; 3], Repeat::Once, move |run| {
    ///     assert_eq!(run.reschedule(10 * second), run.number < 3);
    /// })?;
    /// for (seconds, fired) in [(1, 1), (9, 1), (1, 2), (10, 3), (60, 3)] {
    ///     hand.advance(seconds * second);
    ///     timer.poll(&mut 1024);
    ///     assert_eq!(timer.stats().fired, fired);
    /// }
    /// # drop(tries);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn reschedule(&self, delay: Duration) -> bool {
        self.series.reschedule(self.id, delay)
    }
}

debug_fields!(
    impl Run, |it| id: it.id, late: it.late, number: it.number, remaining: it.remaining
);
