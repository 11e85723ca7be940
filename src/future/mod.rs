//! The same cache for tasks: operations that may have to wait are `async`.
//!
//! A [`Cache`] of this module and a [`crate::Cache`] are two handles on one cache:
//! [`Cache::sync`] and [`crate::Cache::future`] turn one into the other. An entry that a thread
//! inserts is read by a task, and the other way round. Threads and tasks wait for one another's
//! loads and computations.
//!
//! It needs no runtime: every runtime can poll its futures, and no feature has to be enabled.
//!
//! ```
//! use cortado::future::Cache;
//!
//! # pollster::block_on(async {
//! let cache: Cache<String, u32> = Cache::new(100);
//! cache.insert("a".into(), 1).await;
//! assert_eq!(cache.get("a").await, Some(1));
//! let loaded = cache.get_with("b".into(), async { 2 }).await;
//! assert_eq!(loaded, 2);
//! assert_eq!(cache.sync().get("b"), Some(2));
//! # });
//! ```
//!
//! # Waiting
//!
//! A future of this module waits by its waker and blocks no worker thread for another task. Like
//! the calls of [`crate::Cache`], an operation may run a bounded piece of maintenance, the removal
//! listener included, on the thread that polls it. Reads wait for no other operation, so the future
//! of [`Cache::get`] is ready at the first poll. Only a listener that awaits
//! ([`async_eviction_listener`](CacheBuilder::async_eviction_listener)) can keep a read waiting:
//! for one call of it, and for those that `run_pending_tasks` or `close` has left to the read.
//!
//! A *synchronous* write blocks its thread while a computation of its key runs. A synchronous load
//! or computation also blocks while a load of its key runs. Synchronous reads never wait. On a
//! runtime's only worker thread, such a write or load blocks the task that it waits for, and never
//! returns. So tasks use this module.
//!
//! # Time limits
//!
//! To limit a wait, drop the future, for example by `tokio::time::timeout`. Writes wait for a
//! computation of their key. Loads and computations wait for either. `run_pending_tasks` and
//! `close` do all their work at the first poll, and `retain` works in proportion to the cache: a
//! time limit does not interrupt that. Threads have [`crate::Cache::within`], which polls the same
//! futures.
//!
//! # Cancellation
//!
//! A future that is dropped before it is ready cancels its operation:
//!
//! * A write has happened wholly or not at all.
//! * A load is given up. Those who wait for it are woken; whoever is polled first runs its own
//!   `init`. A waiter that is woken and not polled again delays nobody.
//! * A computation leaves the entry as it was.
//! * A waiter leaves nothing behind.
//!
//! The user's future is dropped first, with all that it holds. Only then does the next load or
//! computation of the key begin. So a destructor of that future:
//!
//! * may use the key itself. From then on others may begin;
//! * holds up its key while it blocks;
//! * deadlocks if it waits for another thread that uses the key, or for a task that waits for it
//!   already.
//!
//! A future of a computation that is neither polled again nor dropped blocks writes of its key, and
//! one of a load blocks other loads of its key, as a lock would that is never released. Put a time
//! limit around the user's future, inside the operation. With a listener that awaits and
//! [`Overflow::Wait`](crate::Overflow::Wait), any such future may block all writes, if more
//! removals wait than the limit allows: it may be telling the listener.
//!
//! A wait that could never end panics: if the future that an operation polls asks for the very key
//! that it loads or computes. Two operations on one key that are joined in one task wait for each
//! other as two tasks do.

mod access;
mod builder;
mod key_entry;
mod load;
mod loading;

pub use crate::error::PredicateId;
pub use crate::iter::Iter;
pub use key_entry::{KeyEntry, OwnedKeyEntrySelector, RefKeyEntrySelector};
pub use loading::LoadingCache;

use crate::async_listener::Share;
use crate::builder::{Async, BuildTarget, Builder, sealed};
use crate::engine::WithHasher;
use crate::error::TimedOut;
use crate::primitives::time::{Duration, Instant};
use crate::waiters::poll_until;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// The builder of a [`Cache`]; `C` is the type of cache that it builds.
pub type CacheBuilder<K, V, C = Cache<K, V>> = Builder<K, V, C, Async>;

/// A cache for tasks; see the [module](self).
///
/// It has the operations that may have to wait, and the other methods of moka's cache. They mean
/// what those of [`crate::Cache`] mean, which document them. All else, such as
/// [`peek`](crate::Cache::peek), is on that one, by [`sync`](Self::sync).
pub struct Cache<K, V, S = crate::RandomState> {
    cache: crate::Cache<K, V, S>,
}

impl<K, V> sealed::Sealed for Cache<K, V> {}

impl<K, V> BuildTarget<K, V> for Cache<K, V> {
    type Hashed<S> = Cache<K, V, S>;

    fn of_cache<S>(cache: crate::Cache<K, V, S>) -> Cache<K, V, S> {
        Cache { cache }
    }
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Makes a cache of at most `max_capacity` entries; see [`crate::Cache::new`].
    #[must_use]
    pub fn new(max_capacity: u64) -> Self {
        Self::builder().max_capacity(max_capacity).build()
    }

    /// Returns a builder, which configures a cache.
    pub fn builder() -> CacheBuilder<K, V> {
        CacheBuilder::default()
    }
}

impl<K, V, S> Cache<K, V, S> {
    fn engine(&self) -> &Arc<WithHasher<K, V, S>> {
        self.cache.engine()
    }

    /// The same cache for threads, whose operations block.
    #[must_use]
    pub fn sync(&self) -> &crate::Cache<K, V, S> {
        &self.cache
    }
}

/// Boxes futures. A program that comes from moka has it in its `use` lines. No other program needs
/// it: [`async_eviction_listener`](CacheBuilder::async_eviction_listener) takes any future. Beside
/// the trait of this name in futures-util, `boxed` is ambiguous; then leave this one out.
pub trait FutureExt: Future {
    /// Moves the future into a box.
    fn boxed<'a, T>(self) -> Pin<Box<dyn Future<Output = T> + Send + 'a>>
    where
        Self: Future<Output = T> + Sized + Send + 'a,
    {
        Box::pin(self)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}

impl<K: Send + Sync, V: Send + Sync, S: Send + Sync> Cache<K, V, S> {
    /// The end of every write: awaits the asynchronous listeners and the limit of waiting
    /// notifications. Operations call this one by one, and no wrapper does it for them: a future
    /// has its arguments once more in each function that they are moved through.
    async fn tell(&self) {
        if self.engine().tells_after_write() {
            self.tell_and_hold_back().await;
        }
    }

    /// The end of a load, which is a read if it `wrote_nothing`.
    async fn tell_unless(&self, wrote_nothing: bool) {
        if wrote_nothing { self.tell_listeners().await } else { self.tell().await }
    }

    /// Awaits the asynchronous listeners. It does not wait for a receiver, which may be the caller.
    async fn tell_listeners(&self) {
        if self.engine().tells_after_read() {
            self.tell_boxed(Share::Reader).await;
        }
    }

    /// The box keeps the futures of operations small, which seldom need it.
    #[cold]
    fn tell_boxed(&self, share: Share) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.engine().tell_async(share))
    }

    #[cold]
    fn tell_and_hold_back(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.engine().tell_and_hold_back())
    }
}

impl<K, V, S> crate::Cache<K, V, S> {
    /// The same cache for tasks: another handle, whose operations are `async`.
    #[must_use]
    pub fn future(&self) -> Cache<K, V, S> {
        Cache { cache: self.clone() }
    }
}

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

impl<K, V, S> Clone for Cache<K, V, S> {
    /// Returns another handle on the same cache.
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone() }
    }
}

impl<K, V, S> fmt::Debug for Cache<K, V, S>
where
    crate::Cache<K, V, S>: fmt::Debug,
{
    /// Shows what the [cache for threads](crate::Cache) does: name, size, and up to 16 entries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cache.fmt(f)
    }
}
