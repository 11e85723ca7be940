//! A time limit for the operations of threads.

use super::Cache;
use crate::error::TimedOut;
use crate::waiters::poll_until;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

impl<K, V, S> crate::Cache<K, V, S> {
    /// Runs operations of the cache on this thread, and gives up when they have waited for `limit`.
    ///
    /// `operate` gets the cache for tasks, whose every operation that may have to wait is `async`.
    /// So this call gives each of them a time limit: a write that waits for a computation, a load
    /// or computation that waits for another one, `retain`, `close`. The thread sleeps while the
    /// operation waits. `limit` is in real time, whatever the cache's [`Clock`](crate::Clock), and
    /// counts from the call. With [`Duration::ZERO`] nothing waits.
    ///
    /// The limit ends waits, and interrupts no code that runs. A loader or computation of this call
    /// that blocks its thread runs to its end, and its result counts, however late.
    ///
    /// *Cancellation*: at the limit the pending operation is dropped, as a task's future is.
    /// Operations that ended before the limit stay done. For the pending one:
    ///
    /// * A write that waits for a computation has not happened. Its key and value are dropped.
    /// * A load or computation that waits for another one has not begun.
    /// * A load or computation whose future runs is cancelled. That future is dropped; then one of
    ///   its waiters begins its own. A destructor that blocks holds up the key, and this call.
    /// * A write that has happened stays, even if it still waits for listeners. It may do so with a
    ///   [`notification_limit`](crate::Builder::notification_limit), or with a listener that
    ///   awaits.
    ///
    /// *Runtime*: this call enters none. A future that needs tokio's timer or I/O must run inside
    /// the context of a runtime.
    ///
    /// *Blocking*: blocks this thread for up to `limit`, and for as long as the code of `operate`
    /// and bounded pieces of maintenance run. On a runtime's worker thread it blocks the other
    /// tasks of that thread. There, use [`future::Cache`](Cache) and the runtime's own time limit.
    ///
    /// # Errors
    /// [`TimedOut`] if the operations have not ended at the limit.
    ///
    /// # Panics
    /// As the operations do; for example, if an operation would wait for a load or computation that
    /// this very thread runs.
    ///
    /// ```
    /// use cortado::{Cache, Op, TimedOut};
    /// use std::{sync::mpsc::channel, thread, time::Duration};
    ///
    /// let stock: Cache<&str, u32> = Cache::new(100);
    /// let (begun, beginning) = channel();
    /// let (end, ended) = channel();
    /// let counting = thread::spawn({
    ///     let stock = stock.clone();
    ///     move || {
    ///         stock.entry("tea").and_compute_with(|_| {
    ///             begun.send(()).unwrap();
    ///             ended.recv().unwrap();
    ///             Op::Put(7)
    ///         });
    ///     }
    /// });
    /// beginning.recv().unwrap();
    /// // The computation owns the key. This thread does not wait for its end.
    /// let limit = Duration::from_millis(5);
    /// let set = stock.within(limit, async |stock| stock.insert("tea", 8).await);
    /// assert_eq!(set, Err(TimedOut));
    /// end.send(()).unwrap();
    /// counting.join().unwrap();
    /// assert_eq!(stock.within(limit, async |stock| stock.get_with("tea", async { 9 }).await), Ok(7));
    /// ```
    pub fn within<T>(
        &self,
        limit: Duration,
        operate: impl AsyncFnOnce(&Cache<K, V, S>) -> T,
    ) -> Result<T, TimedOut> {
        // A limit too long for the clock is no limit.
        let deadline = Instant::now().checked_add(limit);
        let cache = self.future();
        let mut operations = pin!(operate(&cache));
        let ended = poll_until(deadline, |context| operations.as_mut().poll(context));
        ended.ok_or(TimedOut)
    }
}
