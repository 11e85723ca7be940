//! Jobs that run elsewhere: which threads run them, and how a client submits them.
//!
//! A cache has work that its callers and the scheduler's thread must not do themselves, because the
//! user's listener and destructors may block. The cache puts such work into a [`Job`] and gives the
//! job to an [`Execute`]. [`Workers`] is such an executor: one for all caches of the process, and
//! one for each timer. A [`Handoff`] belongs to the client: it keeps at most one job of that client
//! outstanding, and loses no request.
//!
//! # Rules of the workers
//!
//! 1. Jobs wait in one queue, first in, first out. But for rule 3, a worker takes the first job
//!    only when no other worker *makes progress*: when every running job began at least 10 ms ago
//!    (the *patience*). So short jobs run one after the other, as long as none waits for long.
//! 2. A job that has run for the patience counts as *blocked*, and its worker no longer keeps the
//!    others from taking jobs. So a worker that takes over from a blocked one runs jobs back to
//!    back, and waits for no other worker.
//! 3. If the first job has waited for the patience, a worker takes it although others make
//!    progress, as long as these are fewer than the cores. So a burst of short jobs delays the jobs
//!    behind it by no more than it keeps all cores busy.
//! 4. While jobs wait behind one that makes progress, one idle worker *watches*: it sleeps until it
//!    may take the first job, and looks again. While the queue is empty, no worker wakes up
//!    periodically.
//! 5. A thread may leave jobs in the queue: a submitter, or a worker that takes one of several. It
//!    must ensure that a worker looks at them in time. To that end it wakes an idle worker or
//!    starts a new one, which takes a job or watches.
//! 6. A worker counts as *idle* from its start, and from the end of each job, until it takes a job
//!    or ends. Each idle worker looks at the queue after it was woken, and in the same critical
//!    section in which it ends. So a job that finds an idle worker is not stranded.
//! 7. An idle worker ends after the *linger* (1 s) without work, and at once if two others are
//!    idle.
//! 8. Jobs run, and are dropped, with no lock of the executor held. They may submit jobs. A panic
//!    is caught and counted.
//!
//! **Limits.** There are as many threads as blocked jobs, one for each job that makes progress, of
//! which there are at most as many as cores, and two idle ones. Only the clients bound the number
//! of blocked jobs and of waiting jobs. A cache has at most one job for its listener and
//! destructors, and one for each load and reload that runs. A timer has one for each run that is
//! due.
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
mod task;
mod workers;

pub use handoff::{Handoff, Running, Ticket};
#[cfg(feature = "timer")]
pub use task::{Host, WeakTask, start};
pub use task::{Work, spawn};
pub use workers::{Counts, Limits, Workers};

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
/// * A job runs user code: removal listeners, and destructors of keys and values; or the loader, to
///   reload a stale entry. It may block as long as that code does. It never waits for a lock of the
///   cache that its submitter holds.
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
