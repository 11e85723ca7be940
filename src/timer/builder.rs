//! How a timer is set up.

use super::driver::{Pace, serve};
use super::queue::TICK;
use super::schedule::Scale;
use super::service::Timer;
use super::settings::{Elsewhere, Executor, OnPanic, Rejection, Settings, TaskPanic};
use super::shared::Shared;
use crate::clock::{Clock, Ticker};
use crate::error::BuildError;
use crate::executor::Execute;
use crate::macros::debug_fields;
use crate::primitives::plain::Arc;
use crate::primitives::thread;
use std::time::Duration;

/// So many due jobs are handed out under one hold of the lock.
const MAX_BATCH: u32 = 1024;

/// Sets up a [`Timer`].
///
/// ```
/// use cortado::timer::Timer;
/// use std::time::Duration;
///
/// let timer = Timer::builder()
///     .tick(Duration::from_millis(10))
///     .max_batch(128)
///     .thread_name("timeouts")
///     .run_here() // its jobs take microseconds
///     .start()?;
/// let (send, told) = std::sync::mpsc::channel();
/// let job = timer.after(Duration::ZERO, move |_| {
///     send.send(std::thread::current().name() == Some("timeouts")).unwrap();
/// })?;
/// assert_eq!(told.recv(), Ok(true));
/// # drop(job);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until it starts a timer"]
pub struct Builder {
    tick: Duration,
    clock: Clock,
    executor: Option<Executor>,
    settings: Settings,
    thread_name: String,
}

impl Timer {
    /// Starts a timer with the default settings: ticks of a millisecond, jobs on worker threads of
    /// its own.
    ///
    /// # Panics
    ///
    /// Panics if the system refuses to start a thread; [`Builder::start`] does not.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().start().expect("the system starts a thread")
    }

    /// Sets up a timer.
    pub fn builder() -> Builder {
        Builder {
            tick: TICK,
            clock: Clock::system(),
            executor: None,
            settings: Settings {
                max_pending: usize::MAX,
                max_batch: MAX_BATCH,
                on_panic: OnPanic::default(),
                panic_hook: None,
                rejection: Rejection::default(),
            },
            thread_name: "cortado-timer".to_owned(),
        }
    }
}

impl Default for Timer {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The length of a tick: jobs start at whole ticks, so they are up to a tick late. Default and
    /// minimum: 1 ms. [`start`](Self::start) returns an error for less;
    /// [`manual`](Self::manual) panics.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The clock. By default the system's monotonic clock, which on Linux stands still while the
    /// machine is suspended: deadlines move by the length of the suspension. A clock of yours may
    /// count suspended time (`CLOCK_BOOTTIME`). The timer looks at such a clock once a second while
    /// jobs wait, because it does not know how fast that clock goes.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Runs the jobs on this executor, which may drop jobs ([`rejection`](Self::rejection)).
    ///
    /// By default they run on worker threads of this timer. One thread runs jobs one after the
    /// other; one more starts while a job has waited for 10 ms, up to the number of cores. A job
    /// that has run for 10 ms counts as blocked, and one more thread takes the next job. So if `n`
    /// jobs that block are due together, the last of them starts up to 10 ms × (`n` − 1) late.
    /// There is a thread for each blocked job: their number has no limit. If many of your jobs
    /// block, set an executor. Idle threads end after a second, so a rarer job starts one.
    pub fn executor(mut self, executor: impl Execute) -> Self {
        self.executor = Some(Elsewhere::all(executor));
        self
    }

    /// Runs the jobs on the timer's own thread. This is for jobs of microseconds that do not block:
    /// while one runs, no other begins.
    pub fn run_here(mut self) -> Self {
        self.executor = Some(Executor::Here);
        self
    }

    /// Runs the jobs in `spawn_blocking` of the current tokio runtime, and async jobs as tasks of
    /// that runtime, which they may use. With the feature `tokio`.
    ///
    /// The closure of an async job runs in its task, too, so it must not block. When the runtime
    /// has ended, the timer's thread polls the futures that have begun. Later runs are dealt with
    /// as [`rejection`](Self::rejection) says.
    ///
    /// A task of the runtime ends the timer by [`shutdown_async`](Timer::shutdown_async).
    /// [`shutdown`](Timer::shutdown) would block its thread, and on the only thread of a runtime
    /// wait in vain for futures that run there.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[cfg(feature = "tokio")]
    #[track_caller]
    pub fn on_tokio(mut self) -> Self {
        let runtime = tokio::runtime::Handle::current();
        let other = runtime.clone();
        let jobs = move |job| drop(runtime.spawn_blocking(job));
        let futures = move |job: crate::executor::Job| drop(other.spawn(async move { job() }));
        let (jobs, futures) = (Box::new(jobs), Some(Box::new(futures) as Box<dyn Execute>));
        self.executor = Some(Executor::Elsewhere(Elsewhere { jobs, futures }));
        self
    }

    /// How many jobs may wait. More are refused with [`Full`](super::TimerError::Full). No limit by
    /// default. A series whose run has ended waits for the next one, whatever the limit.
    ///
    /// ```
    /// use cortado::timer::{Timer, TimerError};
    /// use std::time::Duration;
    ///
    /// let timer = Timer::builder().max_pending(1).manual();
    /// let first = timer.after(Duration::from_secs(1), |_| ())?;
    /// assert_eq!(timer.after(Duration::from_secs(1), |_| ()).unwrap_err(), TimerError::Full);
    /// first.cancel();
    /// assert!(timer.after(Duration::from_secs(1), |_| ()).is_ok());
    /// # Ok::<(), TimerError>(())
    /// ```
    pub fn max_pending(mut self, jobs: usize) -> Self {
        self.settings.max_pending = jobs;
        self
    }

    /// How many due jobs are taken under one hold of the lock: 1,024 by default. Callers that
    /// insert or cancel wait for that long at most. Zero means one.
    pub fn max_batch(mut self, jobs: u32) -> Self {
        self.settings.max_batch = jobs.max(1);
        self
    }

    /// What becomes of a series whose job has panicked. By default it goes on.
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{Missed, OnPanic, Timer};
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// for (choice, left) in [(OnPanic::Continue, 1), (OnPanic::Stop, 0)] {
    ///     let (clock, hand) = Clock::manual();
    ///     let timer = Timer::builder().clock(clock).on_panic(choice).manual();
    ///     timer.every(second, Missed::Skip, |_| panic!("no disk"))?.detach();
    ///     hand.advance(second);
    ///     timer.poll(&mut 1024);
    ///     assert_eq!((timer.pending(), timer.stats().panicked), (left, 1));
    /// }
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.settings.on_panic = on_panic;
        self
    }

    /// Calls this hook with each panic of a job, on the thread of the job, with no lock held. By
    /// default panics are only [counted](super::TimerStats::panicked). A panic of the hook itself
    /// is caught and ignored.
    ///
    /// ```
    /// use cortado::Clock;
    /// use cortado::timer::{TaskPanic, Timer};
    /// use std::time::Duration;
    ///
    /// let (send, told) = std::sync::mpsc::channel();
    /// let hook = move |panic: TaskPanic| {
    ///     let message = panic.message().unwrap_or("no text").to_owned();
    ///     let _ = send.send((panic.id, message));
    /// };
    /// let timer = Timer::builder().clock(Clock::manual().0).panic_hook(hook).manual();
    /// let id = timer.after(Duration::ZERO, |_| panic!("no disk"))?.detach();
    /// timer.poll(&mut 1024);
    /// assert_eq!(told.recv(), Ok((id, "no disk".to_owned())));
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn panic_hook(mut self, hook: impl Fn(TaskPanic) + Send + Sync + 'static) -> Self {
        self.settings.panic_hook = Some(Box::new(hook));
        self
    }

    /// What to do with a run that the executor has dropped. By default it is submitted again after
    /// 10 ms.
    ///
    /// ```
    /// use cortado::timer::{Rejection, Timer};
    /// use cortado::{Clock, Job};
    /// use std::sync::mpsc::sync_channel;
    /// use std::time::Duration;
    ///
    /// // A queue of one job in front of a pool. A job that finds it full is dropped.
    /// let (send, queue) = sync_channel::<Job>(1);
    /// let pool = move |job: Job| drop(send.try_send(job));
    /// let (clock, hand) = Clock::manual();
    /// let again = Rejection::Retry(Duration::from_millis(50));
    /// let timer = Timer::builder().clock(clock).executor(pool).rejection(again).manual();
    /// for _ in 0..2 {
    ///     timer.after(Duration::ZERO, |_| println!("work"))?.detach();
    /// }
    /// timer.poll(&mut 1024);
    /// assert_eq!(timer.stats().rejected, 1);
    /// queue.recv().unwrap()(); // a thread of the pool runs the first
    /// hand.advance(Duration::from_millis(50));
    /// timer.poll(&mut 1024);
    /// queue.recv().unwrap()();
    /// assert_eq!(timer.stats().fired, 2);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn rejection(mut self, rejection: Rejection) -> Self {
        self.settings.rejection = rejection;
        self
    }

    /// The name of the timer's thread: `cortado-timer` by default.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// Starts the timer with a thread of its own.
    ///
    /// # Errors
    ///
    /// * `tick`: it is shorter than a millisecond.
    /// * `clock`: real time does not move it. With a manual clock, use [`manual`](Self::manual).
    ///   With `Clock::tokio`, either leave the clock out and run the jobs by `on_tokio`, or poll a
    ///   `cortado::timer::delay_queue::DelayQueue` in a task: it sleeps by the runtime, also while
    ///   that is paused. A thread cannot wait for a runtime's clock.
    /// * `thread_name`: it contains a zero byte, or the system refused to start the thread.
    pub fn start(self) -> Result<Timer, BuildError> {
        self.check()?;
        let ticker = Ticker::new(self.clock.clone());
        let pace = if ticker.real_delay(ticker.now()).is_some() { Pace::Real } else { Pace::Users };
        self.check_clock()?;
        if self.thread_name.contains('\0') {
            return Err(BuildError::new("thread_name", "it must not contain a zero byte"));
        }
        let name = self.thread_name.clone();
        let shared = self.shared(workers, ticker);
        shared.jobs.lock().has_driver = true;
        let driven = Arc::clone(&shared);
        let refused = |error: std::io::Error| BuildError::new("thread_name", error.to_string());
        let thread = thread::Builder::new().name(name);
        thread.spawn(move || serve(&driven, pace)).map_err(refused)?;
        Ok(Timer::of(shared))
    }

    /// Makes a timer without a thread: you call [`Timer::poll`]. Jobs run in that call unless an
    /// [`executor`](Self::executor) was set.
    ///
    /// # Panics
    ///
    /// Panics if the tick is shorter than a millisecond.
    #[must_use]
    #[track_caller]
    pub fn manual(self) -> Timer {
        BuildError::or_fail(self.check());
        let ticker = Ticker::new(self.clock.clone());
        Timer::of(self.shared(|| Executor::Here, ticker))
    }

    fn check(&self) -> Result<(), BuildError> {
        if self.tick < TICK {
            return Err(BuildError::new("tick", "it is shorter than a millisecond"));
        }
        Ok(())
    }

    /// A thread must be able to wait for the clock.
    fn check_clock(&self) -> Result<(), BuildError> {
        #[cfg(feature = "tokio")]
        if self.clock.runtime().is_some() {
            let instead = "a thread cannot wait for a runtime's clock: leave it out and use \
                           `on_tokio`, or poll a `timer::delay_queue::DelayQueue` in a task";
            return Err(BuildError::new("clock", instead));
        }
        if !self.clock.moves_by_itself() {
            return Err(BuildError::new("clock", "real time does not move it: use `manual`"));
        }
        Ok(())
    }

    fn shared(self, default: fn() -> Executor, ticker: Ticker) -> Arc<Shared> {
        let executor = self.executor.unwrap_or_else(default);
        Shared::new(Scale::new(ticker), self.tick, self.settings, executor)
    }
}

/// Worker threads of one timer. Those of the process are for the listeners of the caches, which
/// would wait behind a burst of jobs.
#[cfg(not(cortado_loom))]
fn workers() -> Executor {
    Elsewhere::all(crate::executor::Workers::new())
}

/// A model says where its jobs run.
#[cfg(cortado_loom)]
fn workers() -> Executor {
    Elsewhere::all(|job: crate::executor::Job| job())
}

debug_fields!(
    impl Builder, |it| tick: it.tick, clock: it.clock, max_pending: it.settings.max_pending
);
