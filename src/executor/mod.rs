//! Jobs that run somewhere else: who runs them, and how a client offers them.
//!
//! A cache has work that its callers and the scheduler's thread must not do themselves: the user's
//! listener and destructors may block. It puts such work into a [`Job`] and gives the job to an
//! [`Execute`]. [`Workers`] is the executor of the process. A [`Handoff`] belongs to the client: it
//! keeps at most one job of that client on the way, and loses no request.
//!
//! # Rules of the workers
//!
//! 1. Jobs wait in one queue, first in, first out. A worker takes the first one when no other
//!    worker *makes progress*: when every running job began at least the *patience* (10 ms) ago. So
//!    short jobs run one after the other, however many there are.
//! 2. A job that has run for the patience counts as *blocked*, and its worker no longer stops the
//!    others. Only the youngest running job can make progress. A worker that takes over from a
//!    blocked one therefore runs jobs back to back, and waits for nobody.
//! 3. While jobs wait behind one that makes progress, an idle worker *watches*: it sleeps until
//!    that job has run for the patience, and looks again. Nobody wakes up at times while the queue
//!    is empty.
//! 4. Whoever leaves jobs in the queue (a submitter, a worker that takes one of several) makes sure
//!    that somebody looks at them in time: it wakes an idle worker or starts one, to take or to
//!    watch.
//! 5. A worker counts as *idle* from its start, and from the end of each job, until it takes a job
//!    or ends. Each idle worker looks at the queue after it was woken, and in the same critical
//!    section in which it ends. So a job that finds an idle worker is not stranded.
//! 6. An idle worker ends after the *linger* (1 s) without work, and at once if two others are
//!    idle.
//! 7. Jobs run, and are dropped, with no lock of the executor held. They may submit jobs. A panic
//!    is caught and counted.
//!
//! **Limits.** There are as many threads as blocked jobs, and at most three more: one worker that
//! makes progress and two idle ones. Only the clients bound the number of blocked jobs, and that of
//! waiting ones: each client has at most one job on the way.
//!
//! All state is in one mutex, held for a few instructions, and while a thread is being started. It
//! is a leaf: nothing of a client's is called under it.
//!
//! # Alternatives that lost
//!
//! * A fixed number of threads: as many blocked jobs stop all others.
//! * A thread for each job: a start costs more than most jobs do, and hundreds may start at one
//!   moment.
//! * A thread for each client: a process may have hundreds of clients, mostly without work.
//! * A dedicated thread that watches: an idle worker can do that, and takes over without a switch.
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

/// Runs jobs somewhere else: on a thread pool, or on the threads that an async runtime keeps for
/// blocking work.
///
/// # Contract
///
/// * [`execute`](Self::execute) should return soon: its caller may have other caches to serve.
/// * The job may run on any thread, at any time, possibly before `execute` returns. It runs once.
/// * The executor may drop a job instead of running it. The cache notices, and offers the work
///   again later.
/// * A job runs the user's code: removal listeners, and destructors of keys and values. It may
///   block as long as that code does. It never waits for a lock of the cache that its submitter
///   holds.
/// * A job runs code that may panic. The panic reaches the executor only if nothing inside the job
///   catches it, and leaves the cache usable.
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
    /// Runs `job`, now or soon, here or elsewhere.
    fn execute(&self, job: Job);
}

impl<F: Fn(Job) + Send + Sync + 'static> Execute for F {
    fn execute(&self, job: Job) {
        self(job);
    }
}

/// Threads that start when there are jobs, and end when there are none. See the [module](self).
///
/// If the operating system refuses the first thread, the waiting jobs are dropped unrun. If it
/// refuses another one, they stay in the queue for the threads that there are. The next job tries
/// again.
///
/// # Fork
///
/// A child made by `fork` has none of its parent's threads. The first job that is submitted in the
/// child starts new ones, which also run the jobs that waited at the fork. A job that was running
/// at the fork is not run in the child: the cache that submitted it gets no other one there, and
/// delivers nothing through these workers. A fork at the very moment at which another thread holds
/// the lock in here leaves it locked: the child's next job waits for it forever. So start another
/// program after a fork (`exec`), or fork before the process builds its first cache.
pub struct Workers {
    shared: Arc<Shared>,
}

impl Default for Workers {
    fn default() -> Self {
        Self::new()
    }
}

impl Workers {
    /// Workers of their own, without a thread as yet.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// The same with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self { shared: Arc::new(Shared::new(limits)) }
    }

    /// The ones of the process.
    #[cfg(not(cortado_loom))]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Workers> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// What is going on, for statistics and tests.
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

/// The waiting jobs still run; then the threads end without lingering.
impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.close();
    }
}
