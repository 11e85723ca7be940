//! The timer: jobs that run when their time has come.

use super::driver::turn;
use super::end::{end_drain, stop_now};
use super::execute::{Inside, is_inside};
use super::id::TimerId;
use super::run::{CancelOutcome, Series};
use super::shared::Shared;
use super::shutdown::{Stop, Unfired, shutdown, shutdown_async};
use super::stats::{Counters, TimerStats};
use crate::macros::debug_fields;
use crate::primitives::plain::Arc;
use crate::primitives::time::{Duration, Instant};

/// Runs jobs when their time has come: once, at a fixed rate, with a gap after each run, by a list
/// of intervals or by a [`Schedule`](super::Schedule) of yours.
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

    /// A callback of an operation has panicked.
    pub(super) fn note_panic(&self) {
        Counters::add(&self.shared().counters.panicked, 1);
    }

    /// Cancels a job by its id. Takes effect at once, in constant time.
    pub fn cancel(&self, id: TimerId) -> CancelOutcome {
        self.shared().cancel(id)
    }

    /// Moves the next run of a job to `delay` from now, as
    /// [`Handle::reschedule`](super::Handle::reschedule) does.
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

    /// Hands out the jobs that are due by the timer's clock, and returns how many. It is for
    /// [manual mode](super::Builder::manual), where the jobs run in this call unless an
    /// [`executor`](super::Builder::executor) was set. On a timer with a thread it does what that
    /// thread does: with [`run_here`](super::Builder::run_here), jobs run on the caller's thread.
    ///
    /// Takes one from `budget` for each job that it looks at, and for each wake-up of a future. (So
    /// a future that wakes itself without end uses the budget up.)
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
    /// From now on nothing is accepted ([`TimerError::Stopped`](super::TimerError::Stopped)). It
    /// may be called again, also with another `stop`, and by several threads: the strictest
    /// counts. The order is `Cancel`, `Settle`, `FireAll`, `Drain`; of two drains, the one that
    /// ends earlier is stricter. A call returns what is left when it ends, so what one call has
    /// returned no other one returns. A call with `Drain` returns nothing while other calls
    /// settle, or have all jobs fire.
    ///
    /// A job counts as running until what it captured is dropped. So after each `stop` but `Drain`
    /// the timer holds no value of a job, but for the jobs that the call returns. What another
    /// thread cancels at the same time, that thread drops.
    ///
    /// *Blocking*: it waits as [`Stop`] says. Code that this timer runs (a job, a schedule, a hook,
    /// a destructor) would wait for itself, so there the call returns at once. With `Cancel` it
    /// returns the jobs that did not fire. With the others it returns an empty list, and the end
    /// goes on in the background: the jobs that `stop` lets begin run, and the rest is dropped.
    /// (With [`run_here`](super::Builder::run_here), and in manual mode without an executor, every
    /// job that comes due within the limit of a drain begins, however late.)
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
