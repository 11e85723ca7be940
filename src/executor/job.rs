//! Jobs, and what runs them.

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
