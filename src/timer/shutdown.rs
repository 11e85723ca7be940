//! Shutting a timer down.

use super::body::{Body, JobFuture};
use super::driver::{LOOK, turn};
use super::end::take_unfired;
use super::execute::is_inside;
use super::id::TimerId;
use super::run::Run;
use super::schedule::after;
use super::series::Entry;
use super::shared::{Shared, Stopping, UnfiredJobs};
use crate::primitives::plain::Arc;
use crate::primitives::{catch_user_panic, seeded};
use std::fmt;
use std::time::{Duration, Instant};

/// How a timer ends; see [`Timer::shutdown`](super::Timer::shutdown).
///
/// ```
/// use cortado::timer::{Stop, Timer};
/// use std::time::Duration;
///
/// // A program may save the jobs that still wait, and go on with them after a restart.
/// let timer = Timer::new();
/// timer.after(Duration::ZERO, |_| println!("now"))?.detach();
/// timer.after(Duration::from_secs(3600), |_| println!("in an hour"))?.detach();
/// let unfired = timer.shutdown(Stop::Drain(Duration::from_millis(100)));
/// assert!(unfired.iter().any(|job| job.deadline() > std::time::Instant::now()));
///
/// // No job is lost: all of them run before the program ends.
/// let timer = Timer::new();
/// timer.after(Duration::from_secs(3600), |_| println!("flush"))?.detach();
/// assert!(timer.shutdown(Stop::FireAll).is_empty());
/// assert_eq!(timer.stats().fired, 1);
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No job begins any more. The call waits for the jobs that are running.
    Cancel,
    /// Jobs still run as they come due, within this time, by the timer's clock. A series ends with
    /// its next run. The call returns when all jobs have run, or at the limit. Jobs that have not
    /// begun by then do not fire, and the call does not wait for jobs that are still running. So
    /// `Drain(ZERO)` is `Cancel` without waiting.
    Drain(Duration),
    /// Every job that waits runs once, now, whatever its deadline. The call waits for all of them.
    FireAll,
}

/// A job that did not fire, or a series whose next run did not. Dropping it drops the job, with
/// what the job has captured.
///
/// ```
/// use cortado::timer::{Stop, Timer};
/// use std::time::Duration;
///
/// let timer = Timer::new();
/// let (send, told) = std::sync::mpsc::channel();
/// let save = timer.after(Duration::from_secs(60), move |run| send.send(run.number()).unwrap())?;
/// for job in timer.shutdown(Stop::Cancel) {
///     job.run(); // on this thread, before its time
/// }
/// assert_eq!(told.recv(), Ok(1));
/// # drop(save);
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
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

    /// The instant for which its next run was planned.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Runs the job now, once, on this thread, with no lock held. Blocks for as long as the job
    /// runs. Returns the future of an async job: the caller must poll it, since no executor does.
    ///
    /// # Panics
    ///
    /// If the job panics. The timer neither catches nor counts this panic.
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

/// Ends the timer. Returns the jobs that did not fire.
pub fn shutdown(shared: &Arc<Shared>, stop: Stop) -> Vec<Unfired> {
    let limit = match stop {
        Stop::Cancel => Limit { end: 0, real: Duration::ZERO },
        Stop::Drain(real) => Limit { end: after(shared.scale.now(), real), real },
        Stop::FireAll => Limit { end: u64::MAX, real: Duration::MAX },
    };
    let waits = !is_inside(shared);
    let awaited = waits.then(|| Awaited::new(shared));
    let left = match stop {
        Stop::Cancel => take_unfired(shared, shared.jobs.lock()),
        Stop::Drain(_) => begin_stop(shared, Stopping::Drain(limit.end), &limit, waits),
        Stop::FireAll => begin_stop(shared, Stopping::FireAll, &limit, waits),
    };
    if waits && !matches!(stop, Stop::Drain(_)) && !seeded("timer-ends-without-waiting") {
        wait_for_runs(shared);
    }
    drop(awaited);
    let unfired = |(id, _, entry): (TimerId, u64, Entry)| Unfired {
        id,
        deadline: shared.scale.instant(entry.planned),
        entry,
        shared: Arc::clone(shared),
    };
    left.into_iter().map(unfired).collect()
}

/// A caller that waits for the end. It may unwind: a clock or a job of the user's may panic.
struct Awaited<'a>(&'a Shared);

impl<'a> Awaited<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.jobs.lock().awaited_by += 1;
        Self(shared)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.jobs.lock().awaited_by -= usize::from(!seeded("timer-is-awaited-for-ever"));
        // The driver ends what nobody waits for any more.
        self.0.wake.notify_all();
    }
}

/// How long a call waits.
struct Limit {
    /// Until this instant of the timer's clock.
    end: u64,
    /// As long as this, if that clock panics, or in manual mode.
    real: Duration,
}

/// Begins to end the timer in this way, or in the stricter way of an earlier call. Returns the jobs
/// that did not fire, if this call waits for the end.
fn begin_stop(shared: &Arc<Shared>, by: Stopping, limit: &Limit, waits: bool) -> UnfiredJobs {
    let mut jobs = shared.jobs.lock();
    jobs.stopping = Some(jobs.stopping.map_or(by, |before| before.stricter(by)));
    drop(jobs);
    shared.wake.notify_all();
    // Another caller may wait for the end of a later drain.
    shared.done.notify_all();
    if waits { wait_for_jobs(shared, by, limit) } else { UnfiredJobs::new() }
}

/// Waits until no job runs, and the driver has ended. Without a driver, this caller polls the
/// futures that run.
fn wait_for_runs(shared: &Arc<Shared>) {
    let mut jobs = shared.jobs.lock();
    while jobs.running > 0 || jobs.has_driver || jobs.core.waiting() > 0 {
        if jobs.has_driver || jobs.core.waiting() == 0 {
            jobs = shared.done.wait(jobs);
        } else {
            drop(jobs);
            let _ = turn(shared, &mut Vec::new(), &mut u32::MAX.clone());
            jobs = shared.jobs.lock();
        }
    }
}

/// Waits until all jobs have run or the timer stops, but no longer than the limit. Returns the jobs
/// that did not fire. A drain returns none if another caller has asked for all jobs to fire.
fn wait_for_jobs(shared: &Arc<Shared>, by: Stopping, limit: &Limit) -> UnfiredJobs {
    let start = Instant::now();
    loop {
        let is_driver = drive(shared, || start.elapsed() >= limit.real);
        let read = catch_user_panic(|| shared.scale.now());
        let (now, rest) = match read {
            Some(now) => (now, Duration::from_nanos(limit.end.saturating_sub(now))),
            None => (0, limit.real.saturating_sub(start.elapsed())),
        };
        // Without a thread, nobody may move the clock.
        let real = limit.real.saturating_sub(start.elapsed());
        let rest = if is_driver { rest.min(real) } else { rest };
        let jobs = shared.jobs.lock();
        if jobs.is_done() || jobs.has_stopped(now) || rest.is_zero() {
            let fires_all = jobs.stopping == Some(Stopping::FireAll);
            let is_others = fires_all && by != Stopping::FireAll;
            return if is_others { UnfiredJobs::new() } else { take_unfired(shared, jobs) };
        }
        let next = if is_driver { jobs.next_look() } else { u64::MAX };
        if next <= now && !seeded("timer-ends-on-an-old-look") {
            // A job has come back to the wheel since.
            continue;
        }
        // Without a thread, a drain does not wait for time to pass: a job that is not due now does
        // not fire.
        if is_driver && jobs.running == 0 && jobs.waiting == jobs.core.waiting() {
            return take_unfired(shared, jobs);
        }
        let nap = Duration::from_nanos(next.saturating_sub(now));
        drop(shared.done.wait_timeout(jobs, rest.min(nap).min(LOOK)));
    }
}

/// If the timer has no thread, the caller is its driver and hands out what is due now, until it is
/// late. Returns false if there is a thread, or if the timer was cancelled.
fn drive(shared: &Arc<Shared>, is_late: impl Fn() -> bool) -> bool {
    let jobs = shared.jobs.lock();
    let is_driver = !jobs.has_driver && jobs.stopping != Some(Stopping::Cancel);
    drop(jobs);
    if is_driver {
        // One by one: a job may take long.
        while !is_late() && !turn(shared, &mut Vec::new(), &mut 1).is_idle() {}
    }
    is_driver
}
