//! Shutting a timer down.

use super::body::{Body, JobFuture};
use super::driver::{LOOK, turn};
use super::end::take_unfired;
use super::execute::is_inside;
use super::id::TimerId;
use super::run::Run;
use super::schedule::after;
use super::series::Entry;
use super::shared::{Jobs, Shared, UnfiredJobs};
use super::stopping::Stopping;
use crate::macros::debug_fields;
use crate::primitives::plain::Arc;
use crate::primitives::time::{Duration, Instant};
use crate::primitives::{MutexGuard, catch_user_panic, seeded};
use crate::wakers::WakerSlot;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// A caller that is its timer's driver looks at its limit and, if it is a task, leaves other tasks
/// their turn after so many jobs.
const TURNS: u32 = 64;

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
/// assert!(unfired.iter().any(|job| job.deadline > std::time::Instant::now()));
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
    /// its next run. The call returns at the limit, or sooner: as soon as no job runs, and no job
    /// that waits is due within the limit. Jobs that have not begun by then do not fire. At the
    /// limit the call does not wait for jobs that are still running. So `Drain(ZERO)` is `Cancel`
    /// without waiting.
    Drain(Duration),
    /// Jobs that are due at this moment run, and no others: a service finishes what it has begun. A
    /// series ends with that run. The call waits for these jobs, and for all others that are
    /// running, without a limit.
    Settle,
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
/// let save = timer.after(Duration::from_secs(60), move |run| send.send(run.number).unwrap())?;
/// for job in timer.shutdown(Stop::Cancel) {
///     let future = job.run(); // on this thread, before its time
///     assert!(future.is_none(), "no async job");
/// }
/// assert_eq!(told.recv(), Ok(1));
/// # drop(save);
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
#[must_use = "the job in it is dropped unless it is run"]
pub struct Unfired {
    /// The id of the job.
    pub id: TimerId,
    /// The instant for which its next run was planned.
    pub deadline: Instant,
    entry: Entry,
    shared: Arc<Shared>,
}

impl Unfired {
    /// Runs the job now, once, on this thread, with no lock held. Blocks for as long as the job
    /// runs. Returns the future of an async job. The caller must poll it to its end, since no
    /// executor does: an async job whose future is dropped does nothing.
    ///
    /// # Panics
    ///
    /// If the job panics. The timer neither catches nor counts this panic.
    #[must_use = "the future of an async job does nothing unless it is polled"]
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

debug_fields!(impl Unfired, |it| id: it.id, deadline: it.deadline);

/// Ends the timer. Returns the jobs that did not fire.
pub fn shutdown(shared: &Arc<Shared>, stop: Stop) -> Vec<Unfired> {
    let mut ending = Ending::begin(shared, stop, Waits::Thread);
    loop {
        match ending.step() {
            Step::Over => return ending.unfired(),
            Step::Again => {}
            Step::Wait(jobs, nap) => drop(shared.done.wait_timeout(jobs, nap)),
        }
    }
}

/// [`shutdown`] for a task.
pub async fn shutdown_async(shared: &Arc<Shared>, stop: Stop) -> Vec<Unfired> {
    let mut ending = Ending::begin(shared, stop, Waits::Task);
    let step = |context: &mut Context<'_>| {
        // A waker is the user's code, so it is cloned with no lock held.
        let waker = context.waker().clone();
        match ending.step() {
            Step::Over => return Poll::Ready(()),
            // Other tasks have their turn in between.
            Step::Again => waker.wake(),
            Step::Wait(jobs, _) => ending.sleep(jobs, waker),
        }
        Poll::Pending
    };
    poll_fn(step).await;
    ending.unfired()
}

/// A caller that waits for the end. It may unwind, since a clock or a job of the user's may panic.
/// A task may be dropped.
struct Awaited<'a> {
    shared: &'a Shared,
    settles: bool,
    task: Option<WakerSlot>,
}

impl<'a> Awaited<'a> {
    fn new(shared: &'a Shared, stop: Stop) -> Self {
        let settles = stop == Stop::Settle;
        let mut jobs = shared.jobs.lock();
        jobs.awaited_by += 1;
        jobs.settled_by += usize::from(settles);
        Self { shared, settles, task: None }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let mut jobs = self.shared.jobs.lock();
        jobs.awaited_by -= usize::from(!seeded("timer-is-awaited-for-ever"));
        jobs.settled_by -= usize::from(self.settles);
        let waker = self.task.and_then(|slot| jobs.tasks.release(slot));
        drop(jobs);
        // The driver ends what nobody waits for any more.
        self.shared.wake.notify_all();
        drop(waker);
    }
}

/// How a caller waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// It blocks.
    Thread,
    /// It is polled.
    Task,
}

/// What a caller that waits for the end does next.
enum Step<'a> {
    /// It returns.
    Over,
    /// It looks again at once.
    Again,
    /// It sleeps until something changes, but no longer than this.
    Wait(MutexGuard<'a, Jobs>, Duration),
}

/// The end of a timer, as one caller brings it about.
struct Ending<'a> {
    shared: &'a Arc<Shared>,
    stop: Stop,
    waits: Waits,
    /// A drain waits until this instant of the timer's clock.
    limit: u64,
    start: Instant,
    /// `None` if the caller waits for nothing.
    awaited: Option<Awaited<'a>>,
    /// Where this caller began to measure how far the timer's clock falls behind real time: by
    /// real time, and by that clock.
    base: Option<(Instant, u64)>,
    /// The jobs that did not fire, once they are taken out.
    left: Option<UnfiredJobs>,
}

impl<'a> Ending<'a> {
    /// Begins to end the timer in this way, or in the stricter way of an earlier call.
    fn begin(shared: &'a Arc<Shared>, stop: Stop, waits: Waits) -> Self {
        let limit = match stop {
            Stop::Drain(time) => after(shared.scale.now(), time),
            Stop::Cancel | Stop::Settle | Stop::FireAll => u64::MAX,
        };
        let awaited = (!is_inside(shared)).then(|| Awaited::new(shared, stop));
        let by = match stop {
            Stop::Cancel => None,
            // Due is what the present tick hands out.
            Stop::Settle => {
                let now = shared.scale.now();
                Some(Stopping::Settle(now - now % shared.tick))
            }
            Stop::Drain(_) => Some(Stopping::Drain(limit)),
            Stop::FireAll => Some(Stopping::FireAll),
        };
        let mut jobs = shared.jobs.lock();
        let left = if let Some(by) = by {
            let by = jobs.stopping.map_or(by, |before| before.stricter(by));
            jobs.stopping = Some(by);
            if let Stopping::Settle(limit) = by {
                jobs.hasten_rejected(limit);
            }
            // Another caller may wait for the end of a later drain.
            shared.wake_all(jobs);
            None
        } else {
            Some(take_unfired(shared, jobs))
        };
        Self { shared, stop, waits, limit, start: Instant::now(), awaited, base: None, left }
    }

    fn step(&mut self) -> Step<'a> {
        if self.awaited.is_none() {
            return Step::Over;
        }
        if self.left.is_none() {
            match self.wait_for_jobs() {
                Step::Over => {}
                step => return step,
            }
        }
        let waits = !matches!(self.stop, Stop::Drain(_)) && !seeded("timer-ends-without-waiting");
        if waits { self.wait_for_runs() } else { Step::Over }
    }

    /// Waits until no job runs, and the driver has ended. Without a driver, this caller polls the
    /// futures that run.
    fn wait_for_runs(&self) -> Step<'a> {
        let jobs = self.shared.jobs.lock();
        if jobs.has_driver || jobs.core.waiting() == 0 {
            let is_over = jobs.running == 0 && !jobs.has_driver;
            return if is_over { Step::Over } else { Step::Wait(jobs, LOOK) };
        }
        drop(jobs);
        let _ = turn(self.shared, &mut Vec::new(), &mut u32::MAX.clone());
        Step::Again
    }

    /// Waits until no job is left that can run, or the timer stops, but no longer than the limit.
    /// Takes the jobs that did not fire; a drain takes none if another caller waits for jobs
    /// without a limit.
    fn wait_for_jobs(&mut self) -> Step<'a> {
        let is_driver = self.drive();
        let (now, rest) = self.rest(is_driver);
        let mut jobs = self.shared.jobs.lock();
        if jobs.is_done() || jobs.has_stopped(now) || jobs.is_drained() || rest.is_zero() {
            // Another caller has asked for more jobs to run, and takes out the rest.
            let is_others = match jobs.stopping {
                Some(Stopping::FireAll) => self.stop != Stop::FireAll,
                Some(Stopping::Settle(_)) => self.stop != Stop::Settle && jobs.settled_by > 0,
                _ => false,
            };
            let left = if is_others { UnfiredJobs::new() } else { take_unfired(self.shared, jobs) };
            self.left = Some(left);
            return Step::Over;
        }
        let next = if is_driver { jobs.next_look() } else { u64::MAX };
        let by = match jobs.stopping {
            // Also by a clock that was set back.
            Some(Stopping::Settle(limit)) => now.max(limit),
            _ => now,
        };
        if next <= by && !seeded("timer-ends-on-an-old-look") {
            // A job has come back to the wheel since.
            return Step::Again;
        }
        // Without a thread, a drain does not wait for time to pass: a job that is not due now does
        // not fire.
        if is_driver && jobs.running == 0 && jobs.waiting == jobs.core.waiting() {
            self.left = Some(take_unfired(self.shared, jobs));
            return Step::Over;
        }
        if is_driver && self.waits == Waits::Thread {
            // Nobody moves the clock. So a poll that its executor has dropped waits in real time.
            let (since, reading) = *self.base.get_or_insert_with(|| (Instant::now(), now));
            let by = after(reading, since.elapsed());
            if by > now && jobs.hasten_errands(now, by) {
                self.base = None;
                return Step::Again;
            }
        }
        let nap = Duration::from_nanos(next.saturating_sub(now));
        Step::Wait(jobs, rest.min(nap).min(LOOK))
    }

    /// If the timer has no thread, the caller is its driver and hands out what is due now, until it
    /// is late. Returns false if there is a thread, or if the timer was cancelled.
    fn drive(&self) -> bool {
        let jobs = self.shared.jobs.lock();
        let is_driver = !jobs.has_driver && jobs.stopping != Some(Stopping::Cancel);
        drop(jobs);
        if is_driver {
            // One by one: a job may take long.
            for _ in 0..TURNS {
                let is_late = self.rest(true).1.is_zero();
                if is_late || turn(self.shared, &mut Vec::new(), &mut 1).is_idle() {
                    break;
                }
            }
        }
        is_driver
    }

    /// The present, and how long the caller still waits.
    fn rest(&self, is_driver: bool) -> (u64, Duration) {
        let real = match self.stop {
            Stop::Drain(time) => time.saturating_sub(self.start.elapsed()),
            Stop::Cancel | Stop::Settle | Stop::FireAll => Duration::MAX,
        };
        match catch_user_panic(|| self.shared.scale.now()) {
            None => (0, real),
            Some(now) => {
                let rest = Duration::from_nanos(self.limit.saturating_sub(now));
                // While a thread is the driver, nobody may move the clock.
                let is_alone = is_driver && self.waits == Waits::Thread;
                (now, if is_alone { rest.min(real) } else { rest })
            }
        }
    }

    /// Has a task woken when something changes, and by the driver at the limit.
    fn sleep(&mut self, mut jobs: MutexGuard<'a, Jobs>, waker: Waker) {
        let Some(awaited) = &mut self.awaited else { return };
        if seeded("timer-ends-before-it-is-awaited") {
            drop(jobs);
            jobs = self.shared.jobs.lock();
        }
        let replaced = jobs.tasks.keep(&mut awaited.task, waker);
        let limit = match jobs.stopping {
            Some(Stopping::Drain(end)) => self.limit.min(end),
            _ => self.limit,
        };
        jobs.wake_tasks_at = jobs.wake_tasks_at.min(limit);
        let oversleeps = limit < jobs.parked_until;
        drop(jobs);
        if oversleeps {
            self.shared.wake.notify_all();
        }
        drop(replaced);
    }

    fn unfired(self) -> Vec<Unfired> {
        drop(self.awaited);
        let unfired = |(id, _, entry): (TimerId, u64, Entry)| Unfired {
            id,
            deadline: self.shared.scale.instant(entry.planned),
            entry,
            shared: Arc::clone(self.shared),
        };
        self.left.into_iter().flatten().map(unfired).collect()
    }
}
