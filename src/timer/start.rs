//! Starting jobs.

use super::body::{Body, IntoJob, drop_user_code};
use super::error::TimerError;
use super::execute::user_code;
use super::handle::Handle;
use super::run::Run;
use super::schedule::{Missed, Plan, Ran, Repeat, Schedule, after};
use super::service::Timer;
use crate::primitives::plain::Arc;
use crate::primitives::time::{Duration, Instant};
use std::panic::resume_unwind;

impl Timer {
    /// Runs a job once, `delay` from now.
    ///
    /// A job is a closure that blocks, and returns nothing, or one that returns a future. Such an
    /// async job counts as running until its future ends. The future is polled on the executor, in
    /// jobs of one poll each. So a future that needs the context of a runtime needs an executor
    /// that has it, as `Builder::on_tokio`. With [`run_here`](super::Builder::run_here) the timer's
    /// thread polls it; in manual mode without an executor, the caller of [`poll`](Timer::poll)
    /// does. A future that is pending and
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

    /// Runs a job after each of these intervals. `repeat` says how often the list is gone through.
    /// An interval counts from the time for which the run before was planned. If it is over when
    /// that run ends, the next run comes at once, and the next interval counts from that moment.
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
    /// # Panics
    ///
    /// A panic of the first call of [`Schedule::next`] reaches the caller, and the job is dropped.
    /// A later panic is counted, and ends the series.
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

    fn series(&self, mut plan: Plan, body: Body) -> Result<Handle, TimerError> {
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
}
