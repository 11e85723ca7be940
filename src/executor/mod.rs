//! Jobs that run elsewhere: which threads run them, and how a client submits them.
//!
//! A cache has work that its callers and the scheduler's thread must not do themselves, because the
//! user's listener and destructors may block. The cache puts such work into a [`Job`] and gives the
//! job to an [`Execute`]. [`Workers`] is the executor of the process. A [`Handoff`] belongs to the
//! client: it keeps at most one job of that client outstanding, and loses no request.
//!
//! # Rules of the workers
//!
//! 1. Jobs wait in one queue, first in, first out. A worker takes the first job only when no other
//!    worker *makes progress*: when every running job began at least 10 ms ago (the *patience*). So
//!    short jobs run one after the other, however many there are.
//! 2. A job that has run for the patience counts as *blocked*, and its worker no longer keeps the
//!    others from taking jobs. Only the youngest running job can make progress. Therefore a worker
//!    that takes over from a blocked one runs jobs back to back, and waits for no other worker.
//! 3. While jobs wait behind one that makes progress, one idle worker *watches*: it sleeps until
//!    that job has run for the patience, and looks again. While the queue is empty, no worker wakes
//!    up periodically.
//! 4. A thread may leave jobs in the queue: a submitter, or a worker that takes one of several. It
//!    must ensure that a worker looks at them in time. To that end it wakes an idle worker or
//!    starts a new one, which takes a job or watches.
//! 5. A worker counts as *idle* from its start, and from the end of each job, until it takes a job
//!    or ends. Each idle worker looks at the queue after it was woken, and in the same critical
//!    section in which it ends. So a job that finds an idle worker is not stranded.
//! 6. An idle worker ends after the *linger* (1 s) without work, and at once if two others are
//!    idle.
//! 7. Jobs run, and are dropped, with no lock of the executor held. They may submit jobs. A panic
//!    is caught and counted.
//!
//! **Limits.** There are as many threads as blocked jobs, and at most three more: one worker that
//! makes progress and two idle ones. Only the clients bound the number of blocked jobs and of
//! waiting jobs: each client has at most one job outstanding.
//!
//! All state is in one mutex, which is held for a few instructions, and while a thread is being
//! started. It is a leaf lock: no client code is called under it.
//!
//! # Alternatives that lost
//!
//! * A fixed number of threads: that many blocked jobs stop all others.
//! * A thread for each job: starting one costs more than most jobs do, and hundreds may start at
//!   one moment.
//! * A thread for each client: a process may have hundreds of clients, most of them without work.
//! * A dedicated thread that watches: an idle worker can do that, and takes over without a thread
//!   switch.
//! * A wait of 10 ms before each job while any worker is busy: one blocked job slows all others
//!   down.

mod handoff;
mod workers;

use std::fmt;

use crate::sync::Arc;
#[cfg(not(cortado_loom))]
use crate::sync::plain::OnceLock;

pub use handoff::{Handoff, Running, Ticket};
use workers::Shared;
pub use workers::{Counts, Limits};

/// Work that a cache hands to an [`Execute`].
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// Runs jobs elsewhere: on a thread pool, or on the threads that an async runtime keeps for
/// blocking work.
///
/// # Contract
///
/// * [`execute`](Self::execute) should return soon: its caller may have other caches to serve.
/// * The job may run on any thread, at any time, possibly before `execute` returns. It runs once.
/// * The executor may drop a job instead of running it. The cache notices that, and submits the
///   work again later.
/// * A job runs user code: removal listeners, and destructors of keys and values. It may block as
///   long as that code does. It never waits for a lock of the cache that its submitter holds.
/// * The code that a job runs may panic. The panic reaches the executor only if nothing inside the
///   job catches it, and it leaves the cache usable.
///
/// ```
/// use cortado::{Execute, Job};
/// use std::sync::mpsc::channel;
///
/// // One thread of your own.
/// let (jobs, queue) = channel::<Job>();
/// let thread = std::thread::spawn(move || queue.into_iter().for_each(|job| job()));
/// let executor = move |job: Job| {
///     // A job that cannot be sent is dropped, which the contract allows.
///     let _ = jobs.send(job);
/// };
/// executor.execute(Box::new(|| println!("elsewhere")));
/// # drop(executor);
/// # thread.join().unwrap();
/// ```
pub trait Execute: Send + Sync + 'static {
    /// Runs `job`, now or soon, on this thread or on another one.
    fn execute(&self, job: Job);
}

impl<F: Fn(Job) + Send + Sync + 'static> Execute for F {
    fn execute(&self, job: Job) {
        self(job);
    }
}

/// Threads that start when there are jobs, and end when there are none. See the [module](self).
///
/// If the operating system refuses the first thread, the waiting jobs are dropped without running.
/// If it refuses another one, the jobs stay in the queue for the existing threads. The next job
/// tries again.
///
/// # Fork
///
/// A child made by `fork` has none of its parent's threads. The first job that is submitted in the
/// child starts new ones, which also run the jobs that waited at the fork.
///
/// A job that was running at the fork is not run in the child. The cache that submitted it gets no
/// other job there, and delivers nothing through these workers.
///
/// If another thread holds the lock of the workers at the very moment of the fork, the lock stays
/// locked in the child. The child's next job then waits for it forever. So start another program
/// after a fork (`exec`), or fork before the process builds its first cache.
pub struct Workers {
    shared: Arc<Shared>,
}

impl Default for Workers {
    fn default() -> Self {
        Self::new()
    }
}

impl Workers {
    /// Creates separate workers, which have no thread yet.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Creates separate workers with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self { shared: Arc::new(Shared::new(limits)) }
    }

    /// The workers of the process.
    #[cfg(not(cortado_loom))]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Workers> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// Counters for statistics and tests.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

impl Execute for Workers {
    fn execute(&self, job: Job) {
        Shared::submit(&self.shared, job);
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The waiting jobs still run. Then the threads end without lingering.
impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.close();
    }
}
