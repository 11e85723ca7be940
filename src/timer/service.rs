//! The timer: jobs that run when their time has come.

use super::body::{Body, IntoJob, drop_user_code};
use super::driver::turn;
use super::end::{end_drain, stop_now};
use super::error::TimerError;
use super::execute::{Inside, is_inside, user_code};
use super::handle::Handle;
use super::id::TimerId;
use super::run::{CancelOutcome, Run, Series};
use super::schedule::{Missed, Plan, Ran, Repeat, Schedule, after};
use super::shared::Shared;
use super::shutdown::{Stop, Unfired, shutdown, shutdown_async};
use super::stats::{Counters, TimerStats};
use crate::macros::debug_fields;
use crate::primitives::plain::Arc;
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

/// Runs jobs when their time has come: once, at a fixed rate, with a fixed delay, by a list of
/// intervals or by a [`Schedule`] of yours.
///
/// One thread sleeps until the next deadline. Without jobs it does not wake up at all. It wakes up
/// although nothing is due: once, if the job that it sleeps for is cancelled or moved; now and
/// then, to sort more than 64 jobs that are far away; once a second while jobs wait, if the clock
/// is [yours](crate::Clock::custom).
///
/// The jobs run on an executor: worker threads of the timer by default. In [manual
/// mode](super::Builder::manual) there is no thread, and you call [`poll`](Self::poll).
///
/// A clone is another handle of the same timer. When the last one is dropped, the timer ends as by
/// [`Stop::Cancel`], without waiting for jobs that run. A job that captures a clone keeps its timer
/// alive as long as it waits; a job can capture a `Weak` of an `Arc<Timer>` instead. A shutdown
/// ends the timer whatever its jobs have captured.
///
/// *Fork*: the thread exists in the parent only. In a forked child, an inherited timer is dead:
/// none of its jobs runs, and a shutdown may wait for ever. Do not shut it down there. Make a new
/// timer.
///
/// # Promises
///
/// * A job never starts early, except by [`Stop::FireAll`] and [`Unfired::run`]. After a clock of
///   yours was set back, jobs are late by its reading, not early. A job is handed to the executor
///   at its time, rounded up to a whole tick. Zero and past delays run at the next wake-up, never
///   inside the caller. A delay of more than some 250 years means never.
/// * A job never overlaps itself. A run that comes due while another one of its series is in
///   progress waits for the end of that.
/// * A job that panics harms no other job. Its series goes on, or ends
///   ([`on_panic`](super::Builder::on_panic)).
/// * No lock is held while your code runs: jobs, schedules, hooks, destructors. All of it may call
///   the timer.
/// * Inserting, cancelling and rescheduling take constant time.
/// * However many jobs are due at one instant, the lock is held for at most 1,024 of them at a time
///   ([`max_batch`](super::Builder::max_batch)).
///
/// ```
/// use cortado::Clock;
/// use cortado::timer::{CancelOutcome, Timer};
/// use std::sync::mpsc::channel;
/// use std::time::Duration;
///
/// // In a test: no thread, no sleeping.
/// let (clock, hand) = Clock::manual();
/// let timer = Timer::builder().clock(clock).manual();
/// let (log, lines) = channel();
///
/// let unpaid = timer.after(Duration::from_secs(1800), move |run| {
///     log.send(format!("cancel the order, {:?} late", run.late)).unwrap();
/// })?;
/// let reminder = timer.after(Duration::from_secs(600), |_| println!("please pay"))?;
/// assert_eq!(reminder.cancel(), CancelOutcome::Cancelled);
///
/// hand.advance(Duration::from_secs(1799));
/// assert_eq!(timer.poll(&mut 1024), 0);
/// hand.advance(Duration::from_secs(1));
/// assert_eq!(timer.poll(&mut 1024), 1);
/// assert_eq!(lines.recv().unwrap(), "cancel the order, 0ns late");
/// assert_eq!(unpaid.cancel(), CancelOutcome::Finished);
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
#[derive(Clone)]
pub struct Timer {
    owner: Arc<Owner>,
}

/// Ends the timer when it is dropped.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        stop_now(&self.shared);
    }
}

impl Timer {
    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self { owner: Arc::new(Owner { shared }) }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// Runs a job once, `delay` from now.
    ///
    /// A job is a closure that blocks, and returns nothing, or one that returns a future. Such an
    /// async job counts as running until its future ends. The future is polled on the executor, in
    /// jobs of one poll each. So a future that needs the context of a runtime needs an executor
    /// that has it, as `Builder::on_tokio`. In manual mode, and with
    /// [`run_here`](super::Builder::run_here), the driver polls it. A future that is pending and
    /// whose wakers have all been dropped can never be woken. It is dropped on the executor, and
    /// its run ends. All of this holds for the other methods that start jobs, too.
    ///
    /// # Errors
    ///
    /// [`Stopped`](TimerError::Stopped) after a shutdown, [`Full`](TimerError::Full) at
    /// [`max_pending`](super::Builder::max_pending). The job is dropped then.
    ///
    /// ```
    /// use cortado::timer::Timer;
    /// use std::time::Duration;
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let timer = Timer::builder().on_tokio().start()?;
    ///     let (send, answer) = tokio::sync::oneshot::channel();
    ///     let job = timer.after(Duration::from_millis(1), |run| async move {
    ///         tokio::time::sleep(Duration::from_millis(1)).await; // a request
    ///         let _ = send.send(run.number);
    ///     })?;
    ///     assert_eq!(answer.await?, 1);
    ///     drop(job);
    ///     Ok(())
    /// }
    /// ```
    pub fn after<R: IntoJob<M>, M>(
        &self,
        delay: Duration,
        job: impl FnOnce(Run) -> R + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let deadline = || after(self.shared().scale.now(), delay);
        self.insert(deadline, Plan::Once, Body::once(job))
    }

    /// Runs a job once, at `instant`; as soon as possible if that has passed.
    ///
    /// # Errors
    ///
    /// As [`after`](Self::after).
    ///
    /// ```
    /// use cortado::timer::Timer;
    /// use std::time::{Duration, Instant};
    ///
    /// let timer = Timer::new();
    /// let (send, late) = std::sync::mpsc::channel();
    /// let instant = Instant::now() + Duration::from_millis(5);
    /// let job = timer.at(instant, move |_| send.send(instant.elapsed()).unwrap())?;
    /// println!("it began {:?} late", late.recv().unwrap());
    /// # drop(job);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn at<R: IntoJob<M>, M>(
        &self,
        instant: Instant,
        job: impl FnOnce(Run) -> R + Send + 'static,
    ) -> Result<Handle, TimerError> {
        self.insert(|| self.shared().scale.of_instant(instant), Plan::Once, Body::once(job))
    }

    /// Runs a job at a fixed rate: one period from now, and then at every multiple of the period.
    /// `missed` says what becomes of runs whose time has passed.
    ///
    /// For another first delay, [`reschedule`](Handle::reschedule) the handle at once: the
    /// multiples count from the first run then.
    ///
    /// # Errors
    ///
    /// As [`after`](Self::after), and [`TooShort`](TimerError::TooShort) if the period is shorter
    /// than a tick.
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Missed, Timer};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// let second = Duration::from_secs(1);
    /// timer.every(second, Missed::Once, |run| println!("run {}", run.number))?.detach();
    /// hand.advance(5 * second + second / 2); // nobody polled for five periods
    /// assert_eq!(timer.poll(&mut 1024), 2); // the first run, and one for the four others
    /// hand.advance(second / 2);
    /// assert_eq!(timer.poll(&mut 1024), 1); // on time again
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn every<R: IntoJob<M>, M>(
        &self,
        period: Duration,
        missed: Missed,
        job: impl FnMut(Run) -> R + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let plan = Plan::rate(period, missed, self.shared().tick)?;
        self.series(plan, Body::repeat(job))
    }

    /// Runs a job with a gap after each run: `gap` from now, and then `gap` after the end of each
    /// run; of an async job, after the end of its future. (Elsewhere this is called a fixed delay.)
    ///
    /// To count from the *start* of a run, as `java.util.Timer` does, the job calls
    /// [`Run::reschedule`] first.
    ///
    /// # Errors
    ///
    /// As [`every`](Self::every).
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::Timer;
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// let minute = Duration::from_secs(60);
    /// // The job takes five seconds.
    /// let works = hand.clone();
    /// let job = timer.every_with_gap(minute, move |_| works.advance(Duration::from_secs(5)))?;
    /// job.reschedule(Duration::ZERO); // the first run now, and not in a minute
    /// assert_eq!(timer.poll(&mut 1024), 1);
    /// hand.advance(Duration::from_secs(59));
    /// assert_eq!(timer.poll(&mut 1024), 0);
    /// hand.advance(Duration::from_secs(1));
    /// assert_eq!(timer.poll(&mut 1024), 1);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn every_with_gap<R: IntoJob<M>, M>(
        &self,
        gap: Duration,
        job: impl FnMut(Run) -> R + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let plan = Plan::gap(gap, self.shared().tick)?;
        self.series(plan, Body::repeat(job))
    }

    /// Runs a job after each of these intervals, as often as `repeat` says. An interval counts from
    /// the time that the run before was planned for. If that has passed, the run comes at once, and
    /// the next interval counts from there.
    ///
    /// # Errors
    ///
    /// As [`every`](Self::every), and [`Empty`](TimerError::Empty) if there is no interval or
    /// nothing to repeat.
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Repeat, Timer};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// let delays = [1, 2, 5].map(Duration::from_secs);
    /// let retries = timer.intervals(delays, Repeat::Once, |run| {
    ///     println!("try {}, {:?} left", run.number, run.remaining);
    /// })?;
    /// let mut runs = Vec::new();
    /// for second in 1..=10 {
    ///     hand.advance(Duration::from_secs(1));
    ///     if timer.poll(&mut 1024) > 0 {
    ///         runs.push(second);
    ///     }
    /// }
    /// assert_eq!(runs, [1, 3, 8]);
    /// # drop(retries);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn intervals<R: IntoJob<M>, M>(
        &self,
        intervals: impl IntoIterator<Item = Duration>,
        repeat: Repeat,
        job: impl FnMut(Run) -> R + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let plan = Plan::list(intervals, repeat, self.shared().tick)?;
        self.series(plan, Body::repeat(job))
    }

    /// Runs a job by a schedule of yours. See [`Schedule`].
    ///
    /// # Errors
    ///
    /// As [`after`](Self::after), and [`Empty`](TimerError::Empty) if the schedule has no run.
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Next, Schedule, Timer, Turn};
    /// use std::time::Duration;
    ///
    /// /// Two runs: after a second, and a minute after the first was planned.
    /// struct Twice;
    ///
    /// impl Schedule for Twice {
    ///     fn next(&mut self, turn: &Turn) -> Option<Next> {
    ///         match turn.runs {
    ///             0 => Some(Next::After(Duration::from_secs(1))),
    ///             1 => Some(Next::At(turn.planned + Duration::from_secs(60))),
    ///             _ => None,
    ///         }
    ///     }
    /// }
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// let job = timer.schedule(Twice, |run| async move { println!("{run:?}") })?;
    /// for (seconds, left) in [(1, 1), (59, 1), (1, 0)] {
    ///     hand.advance(Duration::from_secs(seconds));
    ///     timer.poll(&mut 1024);
    ///     assert_eq!(timer.pending(), left);
    /// }
    /// # drop(job);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn schedule<R: IntoJob<M>, M>(
        &self,
        schedule: impl Schedule,
        job: impl FnMut(Run) -> R + Send + 'static,
    ) -> Result<Handle, TimerError> {
        self.series(Plan::User(Box::new(schedule)), Body::repeat(job))
    }

    pub(super) fn series(&self, mut plan: Plan, body: Body) -> Result<Handle, TimerError> {
        let first = user_code(|| {
            let now = self.shared().scale.now();
            plan.next(Ran { runs: 0, planned: now, now }, &self.shared().scale)
        });
        if let Ok(Some(first)) = first {
            return self.insert(|| first, plan, body);
        }
        // Their destructors may panic.
        drop_user_code(plan);
        drop_user_code(body);
        first.map_or_else(|panic| resume_unwind(panic), |_none| Err(TimerError::Empty))
    }

    pub(super) fn insert(
        &self,
        deadline: impl FnOnce() -> u64,
        plan: Plan,
        body: Body,
    ) -> Result<Handle, TimerError> {
        let id = self.shared().insert(deadline, plan, body)?;
        Ok(Handle::new(Arc::clone(self.shared()), id))
    }

    /// A callback of an operation has panicked.
    pub(super) fn note_panic(&self) {
        Counters::add(&self.shared().counters.panicked, 1);
    }

    /// Cancels a job by its id. Takes effect at once, in constant time.
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        self.shared().cancel(id)
    }

    /// Moves the next run of a job to `delay` from now. Returns false if there is none: the job has
    /// ended, its last run is in progress (as [`Run::reschedule`] has it), or the timer is being
    /// shut down.
    pub fn reschedule(&self, id: TimerId, delay: Duration) -> bool {
        self.shared().reschedule(id, delay)
    }

    /// Whether a job waits or runs under this id. When the timer has ended, the jobs that still run
    /// are not known any more.
    #[must_use]
    pub fn contains(&self, id: TimerId) -> bool {
        self.shared().jobs.lock().contains(id)
    }

    /// How many jobs wait for their (next) run, in the timer or in the queue of the executor.
    /// Exact.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared().jobs.lock().waiting
    }

    /// How many jobs are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared().jobs.lock().running
    }

    /// When the timer has something to do; `None` if nothing waits. It is the tick of the earliest
    /// job, or an earlier instant, as in
    /// [`DelayQueue::next_deadline`](super::DelayQueue::next_deadline).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let next = self.shared().jobs.lock().core.next_deadline();
        next.map(|next| self.shared().scale.instant(next))
    }

    /// What the timer has done so far.
    #[must_use]
    pub fn stats(&self) -> TimerStats {
        self.shared().counters.snapshot()
    }

    /// Hands out the jobs that are due by the timer's clock, and returns how many. Takes one from
    /// `budget` for each job that it looks at, and for each wake-up of a future. (So a future that
    /// wakes itself without end uses the budget up.) For [manual mode](super::Builder::manual),
    /// where jobs run in this call.
    ///
    /// In a job of this timer it does nothing: jobs do not run inside each other.
    pub fn poll(&self, budget: &mut u32) -> usize {
        if is_inside(self.shared()) {
            return 0;
        }
        let (mut batch, mut handed_out) = (Vec::new(), 0);
        loop {
            let turn = turn(self.shared(), &mut batch, budget);
            handed_out += turn.jobs;
            if turn.is_idle() {
                let _inside = Inside::enter(self.shared());
                end_drain(self.shared());
                return handed_out;
            }
            if *budget == 0 {
                return handed_out;
            }
        }
    }

    /// How many jobs are in the wheel; for this repository's own tests.
    #[cfg(any(feature = "internals", cortado_loom))]
    #[doc(hidden)]
    #[must_use]
    pub fn waiting_in_the_wheel(&self) -> usize {
        self.shared().jobs.lock().core.waiting()
    }

    /// Ends the timer. Returns the jobs that did not fire.
    ///
    /// From now on nothing is accepted ([`TimerError::Stopped`]). It may be called again, also with
    /// another `stop`, and by several threads: the strictest counts. The order is `Cancel`,
    /// `Settle`, `FireAll`, `Drain`; of two drains, the one that ends earlier is stricter. A call
    /// returns what is left when it ends, so what one call has returned no other one returns. A
    /// call with `Drain` returns nothing while other calls settle, or have all jobs fire.
    ///
    /// A job counts as running until what it captured is dropped. So after each `stop` but `Drain`
    /// the timer holds no value of a job, but for the jobs that the call returns. What another
    /// thread cancels at the same time, that thread drops.
    ///
    /// *Blocking*: it waits as [`Stop`] says. Called from a job of this timer it returns at once,
    /// since that job would wait for itself; so it does from a schedule, a hook or a destructor
    /// that the timer runs. A drain goes on in the background then: what begins within its limit
    /// runs, and the rest is dropped. So does settling, until no job runs any more. (With
    /// [`run_here`](super::Builder::run_here), and in manual mode without an executor, all that
    /// comes due within the limit begins, however late.)
    ///
    /// *In a task*, await [`shutdown_async`](Self::shutdown_async) instead. This call blocks the
    /// thread, and an async job that runs may need that thread: for the tasks, timers or sockets
    /// that it awaits. Then the job does not end, and the call does not return; a `Drain` does so
    /// at its limit, with the job still running. This holds for all jobs that await
    /// something of a tokio runtime of one thread, and can happen with more threads.
    ///
    /// In manual mode the caller does the work of a drain. Nothing moves the clock meanwhile, so
    /// only jobs that are due by now fire, as far as they do within the limit. A drain in the
    /// background goes on, and ends, in [`poll`](Self::poll). A caller that waits for running
    /// jobs polls their futures itself.
    ///
    /// With [`run_here`](super::Builder::run_here) and in manual mode, a future that still runs
    /// when the timer has ended and nobody waits for it is dropped at its next wake-up.
    ///
    /// A clock that panics delays neither `Cancel` nor `FireAll`.
    ///
    /// ```
    /// use cortado::timer::{Stop, Timer};
    /// use std::time::Duration;
    ///
    /// let timer = Timer::new();
    /// let report = timer.after(Duration::from_secs(3600), |_| println!("hourly report"))?;
    /// let id = report.detach();
    /// let unfired = timer.shutdown(Stop::Cancel);
    /// assert_eq!(unfired[0].id, id);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn shutdown(&self, stop: Stop) -> Vec<Unfired> {
        shutdown(self.shared(), stop)
    }

    /// [`shutdown`](Self::shutdown) for a task: it awaits what the other waits for, and returns the
    /// same. It works on any executor. The end begins at the first poll.
    ///
    /// In a job of this timer it does not wait, as `shutdown`. A job that awaits a task which
    /// awaits this call waits for itself.
    ///
    /// *Cancellation*: if the future is dropped, the end that has begun goes on as if a job had
    /// called `shutdown`. Jobs that it has taken out are dropped with it. A future that is kept and
    /// not polled holds up the end of its drain, but no job begins after the limit.
    ///
    /// The timer's thread wakes the task at the limit of a drain. If the clock panics, it does so
    /// within a second after that. In manual mode the task does the work of the drain when it is
    /// polled. If it then waits for a job that runs, it is woken by the end of that job, or by
    /// [`poll`](Self::poll) at the limit: nothing else looks at the clock. So without a `poll` it
    /// waits past its limit.
    ///
    /// ```
    /// use cortado::timer::{Stop, Timer};
    /// use std::time::Duration;
    ///
    /// #[tokio::main(flavor = "current_thread")]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let timer = Timer::builder().on_tokio().start()?;
    ///     let (begins, begun) = tokio::sync::oneshot::channel();
    ///     let write = timer.after(Duration::ZERO, |_| async {
    ///         let _ = begins.send(());
    ///         tokio::time::sleep(Duration::from_millis(5)).await; // a database answers
    ///     })?;
    ///     begun.await?;
    ///     assert!(timer.shutdown_async(Stop::Cancel).await.is_empty());
    ///     assert_eq!(timer.running(), 0); // the write has ended
    ///     # drop(write);
    ///     Ok(())
    /// }
    /// ```
    pub async fn shutdown_async(&self, stop: Stop) -> Vec<Unfired> {
        shutdown_async(self.shared(), stop).await
    }
}

debug_fields!(impl Timer, |it| pending: it.pending(), running: it.running());
