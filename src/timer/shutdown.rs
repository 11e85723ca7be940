//! The end of a timer.

use super::body::{Body, JobFuture};
use super::driver::turn;
use super::execute::is_inside;
use super::id::TimerId;
use super::run::Run;
use super::schedule::after;
use super::series::Entry;
use super::shared::{Left, Shared, Stopping, drop_user_code};
use super::stats::Counters;
use crate::primitives::plain::Arc;
use crate::primitives::seeded;
use std::fmt;
use std::time::{Duration, Instant};

/// How a timer ends; see [`Timer::shutdown`](super::Timer::shutdown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing begins any more. Waits for the jobs that run.
    Cancel,
    /// Jobs still run as they come due, for this time at most. Series end with their next run. What
    /// is left then does not fire; jobs that run then are not waited for. So `Drain(ZERO)` is
    /// `Cancel` without waiting.
    Drain(Duration),
    /// Every job that waits runs once, now, whatever its deadline. Waits for all of them.
    FireAll,
}

/// A job that did not fire, or a series whose next run did not.
#[must_use = "the job in it is dropped unless it is run"]
pub struct Unfired {
    id: TimerId,
    deadline: Instant,
    entry: Entry,
    shared: Arc<Shared>,
}

impl Unfired {
    /// The id of the job.
    #[must_use]
    pub fn id(&self) -> TimerId {
        self.id
    }

    /// When it would have run.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Runs the job now, once, on this thread. Returns the future of an async job.
    ///
    /// # Panics
    ///
    /// Panics if the job does.
    pub fn run(mut self) -> Option<JobFuture> {
        let run = Run {
            series: self.shared,
            id: self.id,
            planned: self.deadline,
            late: Duration::ZERO,
            number: self.entry.runs + 1,
            remaining: Some(0),
        };
        Body::run(&mut self.entry.body, &run)
    }
}

impl fmt::Debug for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired")
            .field("id", &self.id)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Ends the timer without waiting for anything.
pub fn stop_now(shared: &Shared) {
    take_left(shared).into_iter().for_each(drop_user_code);
}

/// Lets nothing begin any more, and takes out what has not.
fn take_left(shared: &Shared) -> Left {
    let mut jobs = shared.jobs.lock();
    jobs.stopping = Some(Stopping::Cancel);
    let taken = jobs.take_all();
    drop(jobs);
    shared.wake.notify_all();
    shared.done.notify_all();
    let left: Left = taken.filter(|(_, _, entry)| entry.weight() > 0).collect();
    Counters::add(&shared.counters.cancelled, left.len());
    left
}

/// Ends the timer. Returns what did not fire.
pub fn shutdown(shared: &Arc<Shared>, stop: Stop) -> Vec<Unfired> {
    let is_inside = is_inside(shared);
    let begun = match stop {
        Stop::Cancel => None,
        Stop::Drain(limit) => Some(Stopping::Drain(after(shared.scale.now(), limit))),
        Stop::FireAll => Some(Stopping::FireAll),
    };
    let left = match begun {
        Some(_) if is_inside => {
            announce(shared, begun, false);
            Left::new()
        }
        Some(_) => {
            announce(shared, begun, true);
            let limit = if let Stop::Drain(limit) = stop { limit } else { Duration::MAX };
            wait_for_the_rest(shared, limit);
            take_left(shared)
        }
        None => take_left(shared),
    };
    let waits = !is_inside && !matches!(stop, Stop::Drain(_));
    if waits && !seeded("timer-ends-without-waiting") {
        let mut jobs = shared.jobs.lock();
        while jobs.running > 0 || jobs.has_driver {
            jobs = shared.done.wait(jobs);
        }
    }
    let unfired = |(id, _, entry): (TimerId, u64, Entry)| Unfired {
        id,
        deadline: shared.scale.instant(entry.planned),
        entry,
        shared: Arc::clone(shared),
    };
    left.into_iter().map(unfired).collect()
}

/// Says how the timer is to end, unless it was cancelled.
fn announce(shared: &Shared, stopping: Option<Stopping>, is_awaited: bool) {
    let mut jobs = shared.jobs.lock();
    if jobs.stopping != Some(Stopping::Cancel) {
        jobs.stopping = stopping;
    }
    jobs.is_awaited |= is_awaited;
    drop(jobs);
    shared.wake.notify_all();
}

/// Waits until all jobs have run, but no longer than the limit.
fn wait_for_the_rest(shared: &Arc<Shared>, limit: Duration) {
    let start = Instant::now();
    loop {
        // Without a thread, the caller is the driver.
        let mut jobs = shared.jobs.lock();
        if !jobs.has_driver && jobs.stopping != Some(Stopping::Cancel) {
            drop(jobs);
            while turn(shared, &mut Vec::new(), &mut u32::MAX.clone()) != (0, false) {}
            jobs = shared.jobs.lock();
            // Nothing else moves the clock: what is not due now does not fire.
            if jobs.running == 0 && jobs.waiting == jobs.core.waiting() {
                return;
            }
        }
        if jobs.is_done() || jobs.stopping == Some(Stopping::Cancel) {
            return;
        }
        let rest = limit.saturating_sub(start.elapsed());
        if rest.is_zero() {
            return;
        }
        drop(shared.done.wait_timeout(jobs, rest.min(Duration::from_secs(3600))));
    }
}
