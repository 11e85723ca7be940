//! The end of a timer, as its owner asks for it.

use super::body::{Body, JobFuture};
use super::driver::{LOOK, turn};
use super::end::take_left;
use super::execute::is_inside;
use super::id::TimerId;
use super::run::Run;
use super::schedule::after;
use super::series::Entry;
use super::shared::{Left, Shared, Stopping};
use crate::primitives::plain::Arc;
use crate::primitives::seeded;
use std::fmt;
use std::time::{Duration, Instant};

/// How a timer ends; see [`Timer::shutdown`](super::Timer::shutdown).
///
/// ```
/// use cortado::timer::{Stop, Timer};
/// use std::time::Duration;
///
/// // What waits may be written down, to go on with it after a restart.
/// let timer = Timer::new();
/// timer.after(Duration::ZERO, |_| println!("now"))?.detach();
/// timer.after(Duration::from_secs(3600), |_| println!("in an hour"))?.detach();
/// let unfired = timer.shutdown(Stop::Drain(Duration::from_millis(100)));
/// assert!(unfired.iter().any(|job| job.deadline() > std::time::Instant::now()));
///
/// // Nothing is lost: all of it is done before the program ends.
/// let timer = Timer::new();
/// timer.after(Duration::from_secs(3600), |_| println!("flush"))?.detach();
/// assert!(timer.shutdown(Stop::FireAll).is_empty());
/// assert_eq!(timer.stats().fired, 1);
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing begins any more. Waits for the jobs that run.
    Cancel,
    /// Jobs still run as they come due, for this time at most, by the timer's clock. Series end
    /// with their next run. What is left then does not fire; jobs that run then are not waited
    /// for. So `Drain(ZERO)` is `Cancel` without waiting.
    Drain(Duration),
    /// Every job that waits runs once, now, whatever its deadline. Waits for all of them.
    FireAll,
}

/// A job that did not fire, or a series whose next run did not.
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

/// Ends the timer. Returns what did not fire.
pub fn shutdown(shared: &Arc<Shared>, stop: Stop) -> Vec<Unfired> {
    let (stopping, limit) = match stop {
        Stop::Cancel => (Stopping::Cancel, Duration::ZERO),
        Stop::Drain(limit) => (Stopping::Drain(after(shared.scale.now(), limit)), limit),
        Stop::FireAll => (Stopping::FireAll, Duration::MAX),
    };
    let waits = !is_inside(shared);
    let left = if stop == Stop::Cancel {
        take_left(shared, shared.jobs.lock())
    } else {
        let _awaited = waits.then(|| Awaited::new(shared));
        announce(shared, stopping);
        if waits { wait_for_the_rest(shared, stop, limit) } else { Left::new() }
    };
    if waits && !matches!(stop, Stop::Drain(_)) && !seeded("timer-ends-without-waiting") {
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

/// Says how the timer is to end, unless it is to end in a stricter way already.
fn announce(shared: &Shared, stopping: Stopping) {
    let mut jobs = shared.jobs.lock();
    jobs.stopping = Some(jobs.stopping.map_or(stopping, |before| before.stricter(stopping)));
    drop(jobs);
    shared.wake.notify_all();
    // Another caller may wait for the end of a later drain.
    shared.done.notify_all();
}

/// Waits until all jobs have run or the timer stops, but no longer than the limit. Returns what is
/// left. While all jobs are to fire, nothing is left for the caller of a drain.
fn wait_for_the_rest(shared: &Arc<Shared>, stop: Stop, limit: Duration) -> Left {
    let start = Instant::now();
    loop {
        let is_driver = drive(shared);
        let now = shared.now_or(0);
        let jobs = shared.jobs.lock();
        let rest = limit.saturating_sub(start.elapsed());
        if jobs.is_done() || jobs.has_stopped(now) || rest.is_zero() {
            let fires_all = jobs.stopping == Some(Stopping::FireAll);
            let is_others = fires_all && stop != Stop::FireAll;
            return if is_others { Left::new() } else { take_left(shared, jobs) };
        }
        let next = if is_driver { jobs.next_look() } else { u64::MAX };
        if next <= now && !seeded("timer-ends-on-an-old-look") {
            // Something has come back since.
            continue;
        }
        // Nothing else moves the clock: what is not due now does not fire.
        if is_driver && jobs.running == 0 && jobs.waiting == jobs.core.waiting() {
            return take_left(shared, jobs);
        }
        let nap = Duration::from_nanos(next.saturating_sub(now));
        drop(shared.done.wait_timeout(jobs, rest.min(nap).min(LOOK)));
    }
}

/// Without a thread, the caller is the driver: does what is due now. False if there is a thread, or
/// if the timer was cancelled.
fn drive(shared: &Arc<Shared>) -> bool {
    let jobs = shared.jobs.lock();
    let is_driver = !jobs.has_driver && jobs.stopping != Some(Stopping::Cancel);
    drop(jobs);
    if is_driver {
        while turn(shared, &mut Vec::new(), &mut u32::MAX.clone()) != (0, false) {}
    }
    is_driver
}
