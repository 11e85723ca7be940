//! Async jobs.

use super::body::Body;
use super::error::TimerError;
use super::handle::Handle;
use super::run::Run;
use super::schedule::{Missed, Plan, Repeat, Schedule, after};
use super::service::Timer;
use std::future::Future;
use std::time::{Duration, Instant};

impl Timer {
    /// [`after`](Self::after) for an async job. It counts as running until its future ends.
    ///
    /// Its future is polled on the executor, in jobs of one poll each. So a future that needs the
    /// context of a runtime needs an executor that has it, as
    /// `Builder::on_tokio`. In manual mode, and with
    /// [`run_here`](super::Builder::run_here), the driver polls it.
    ///
    /// A future that is pending and whose wakers have all been dropped can never be woken. It is
    /// dropped on the executor, and its run ends.
    ///
    /// # Errors
    ///
    /// As [`after`](Self::after).
    ///
    /// ```
    /// use cortado::timer::Timer;
    /// use std::time::Duration;
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let timer = Timer::builder().on_tokio().start()?;
    ///     let (send, answer) = tokio::sync::oneshot::channel();
    ///     let job = timer.after_async(Duration::from_millis(1), |run| async move {
    ///         tokio::time::sleep(Duration::from_millis(1)).await; // a request
    ///         let _ = send.send(run.number());
    ///     })?;
    ///     assert_eq!(answer.await?, 1);
    ///     drop(job);
    ///     Ok(())
    /// }
    /// ```
    pub fn after_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        delay: Duration,
        job: impl FnOnce(Run) -> F + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let deadline = || after(self.shared().scale.now(), delay);
        self.insert(deadline, Plan::Once, Body::once_task(job))
    }

    /// [`at`](Self::at) for an async job.
    ///
    /// # Errors
    ///
    /// As [`after`](Self::after).
    pub fn at_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        instant: Instant,
        job: impl FnOnce(Run) -> F + Send + 'static,
    ) -> Result<Handle, TimerError> {
        self.insert(|| self.shared().scale.of_instant(instant), Plan::Once, Body::once_task(job))
    }

    /// [`every`](Self::every) for an async job. A run lasts until its future ends.
    ///
    /// # Errors
    ///
    /// As [`every`](Self::every).
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Missed, Timer};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// let minute = Duration::from_secs(60);
    /// let refresh = timer.every_async(minute, Missed::Skip, |run| async move {
    ///     println!("refresh number {}", run.number());
    /// })?;
    /// hand.advance(minute);
    /// assert_eq!(timer.poll(&mut 1024), 1);
    /// assert_eq!((timer.running(), timer.contains(refresh.id())), (0, true));
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn every_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        period: Duration,
        missed: Missed,
        job: impl FnMut(Run) -> F + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let plan = Plan::rate(period, missed, self.shared().tick)?;
        self.series(plan, Body::repeat_task(job))
    }

    /// [`every_after`](Self::every_after) for an async job. The gap begins when its future ends.
    ///
    /// # Errors
    ///
    /// As [`every`](Self::every).
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Cancel, Timer};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// // Three tries, ten seconds after each other.
    /// let tries = timer.every_after_async(Duration::from_secs(10), |run| async move {
    ///     if run.number() == 3 {
    ///         run.cancel();
    ///     }
    /// })?;
    /// for _ in 0..10 {
    ///     hand.advance(Duration::from_secs(10));
    ///     timer.poll(&mut 1024);
    /// }
    /// assert_eq!((tries.cancel(), timer.stats().fired), (Cancel::Finished, 3));
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn every_after_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        gap: Duration,
        job: impl FnMut(Run) -> F + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let plan = Plan::gap(gap, self.shared().tick)?;
        self.series(plan, Body::repeat_task(job))
    }

    /// [`intervals`](Self::intervals) for an async job. The next run waits for the end of the
    /// future.
    ///
    /// # Errors
    ///
    /// As [`intervals`](Self::intervals).
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Repeat, Timer};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let timer = Timer::builder().clock(clock).manual();
    /// // A request that fails once. What the future of a run needs, it takes from the closure.
    /// let delays = [1, 2, 5].map(Duration::from_secs);
    /// let tries = timer.intervals_async(delays, Repeat::Once, |run| async move {
    ///     let is_answered = run.number() == 2;
    ///     if is_answered {
    ///         run.cancel();
    ///     }
    /// })?;
    /// for _ in 0..10 {
    ///     hand.advance(Duration::from_secs(1));
    ///     timer.poll(&mut 1024);
    /// }
    /// assert_eq!(timer.stats().fired, 2);
    /// # drop(tries);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn intervals_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        intervals: impl IntoIterator<Item = Duration>,
        repeat: Repeat,
        job: impl FnMut(Run) -> F + Send + 'static,
    ) -> Result<Handle, TimerError> {
        let plan = Plan::list(intervals, repeat, self.shared().tick)?;
        self.series(plan, Body::repeat_task(job))
    }

    /// [`schedule`](Self::schedule) for an async job.
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule).
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
    /// let job = timer.schedule_async(Twice, |run| async move { println!("{run:?}") })?;
    /// for (seconds, left) in [(1, 1), (59, 1), (1, 0)] {
    ///     hand.advance(Duration::from_secs(seconds));
    ///     timer.poll(&mut 1024);
    ///     assert_eq!(timer.len(), left);
    /// }
    /// # drop(job);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn schedule_async<F: Future<Output = ()> + Send + 'static>(
        &self,
        schedule: impl Schedule,
        job: impl FnMut(Run) -> F + Send + 'static,
    ) -> Result<Handle, TimerError> {
        self.series(Plan::User(Box::new(schedule)), Body::repeat_task(job))
    }
}
