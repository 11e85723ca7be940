//! Settings of notifications.

use super::Builder;
use crate::config::{Executor, Notifications, Overflow};
use crate::entry::Removed;
use crate::executor::Execute;
use crate::removal::RemovalCause;
use std::panic::resume_unwind;
use std::sync::Arc;

impl<K, V, C, M> Builder<K, V, C, M> {
    /// Adds a listener, which sees every value that leaves the cache.
    ///
    /// A cache may have several listeners; each sees all values, in the order in which the
    /// listeners were set.
    ///
    /// A listener sees each value once, one value at a time, and the values of one key in the
    /// order of their removals. There are these exceptions; each is counted or asked for:
    ///
    /// * Values that are still inside when the last handle is dropped.
    ///   ([`close`](crate::Cache::close) announces them.) Nor is a listener that awaits told of the
    ///   removals that still wait for it then.
    /// * A value whose key was removed, or the cache cleared, while a loader made it
    ///   ([`get_with`](crate::Cache::get_with)). It was never inside.
    /// * Notifications beyond a limit of your choice ([`Overflow::Discard`]).
    /// * Values that the listener puts back into its own closed cache
    ///   ([`close`](crate::Cache::close)).
    ///
    /// *Callbacks*: the listener runs with no lock held, in one of these places:
    ///
    /// * on the thread of an operation on the cache, after that operation;
    /// * on a worker thread of the process, for a cache with a [`scheduler`](Self::scheduler); if
    ///   that runs on a tokio runtime, in its `spawn_blocking`;
    /// * wherever your [`executor`](Self::executor) runs jobs.
    ///
    /// The listener never runs inside a load, a computation or a callback, unless the last handle
    /// of its cache is dropped there. It may call anything on the cache; removals that it causes
    /// are announced after it returns. A panic is caught, and the next removal is announced. (A
    /// cache with statistics counts it:
    /// [`Stats::listener_panics`](crate::Stats::listener_panics).)
    ///
    /// A worker thread of the process is outside of every runtime, so `tokio::spawn` panics there.
    /// Capture a `tokio::runtime::Handle` and call its `spawn`, or use
    /// [`removals`](Self::removals).
    ///
    /// The cache owns the listener. A listener that owns its own cache is a cycle, and neither is
    /// ever dropped: give it a `Weak`, by `Arc::new_cyclic` ([listeners](crate::guide::listeners)).
    ///
    /// *Blocking*: a slow listener holds up the thread that it runs on and further notifications of
    /// this cache. It holds up no other thread and no other cache.
    ///
    /// Notifications wait in a queue that is unbounded unless there is a
    /// [`notification_limit`](Self::notification_limit).
    ///
    /// ```
    /// use cortado::{Cache, RemovalCause};
    /// use std::sync::mpsc::channel;
    ///
    /// let (told, removals) = channel();
    /// let cache = Cache::<&str, String>::builder()
    ///     .removal_listener(move |removed| told.send((removed.cause(), removed.value().len())).unwrap())
    ///     .build();
    /// cache.insert("k", "one".to_owned());
    /// cache.insert("k", "three".to_owned());
    /// cache.close();
    /// assert_eq!(removals.recv(), Ok((RemovalCause::Replaced, 3)));
    /// assert_eq!(removals.recv(), Ok((RemovalCause::Explicit, 5)));
    /// ```
    pub fn removal_listener(
        mut self,
        listener: impl Fn(Removed<K, V>) + Send + Sync + 'static,
    ) -> Self
    where
        K: Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        self.hooks.listen = Some(|listeners| Arc::new(listeners));
        self.hooks.listeners.push(Box::new(listener));
        self
    }

    /// Adds a listener that gets clones of key and value, and the cause. Otherwise like
    /// [`removal_listener`](Self::removal_listener), which clones nothing.
    ///
    /// ```
    /// use cortado::Cache;
    ///
    /// let cache: Cache<String, u32> = Cache::builder()
    ///     .max_capacity(100)
    ///     .eviction_listener(|key, value, cause| println!("{key}: {value} left: {cause}"))
    ///     .build();
    /// # drop(cache);
    /// ```
    pub fn eviction_listener(
        self,
        listener: impl Fn(Arc<K>, V, RemovalCause) + Send + Sync + 'static,
    ) -> Self
    where
        K: Clone + Send + Sync + 'static,
        V: Clone + Send + Sync + 'static,
    {
        self.removal_listener(move |removed| {
            let ((key, value, cause), dropped) = removed.split();
            listener(Arc::new(key), value, cause);
            dropped.unwrap_or_else(|panic| resume_unwind(panic));
        })
    }

    /// Makes a receiver of all removals, in place of listeners.
    ///
    /// [`Cache::removals`](crate::Cache::removals) returns the receiver; there is one at a time.
    /// Removals wait in a queue until they are received.
    ///
    /// *Bound*: by default the queue has no bound. So always take the receiver, or set
    /// [`notification_limit`](Self::notification_limit): it holds writers back until the receiver
    /// has made room, or discards and counts. With [`Overflow::Wait`], a thread or task that
    /// receives must not write to the cache itself: nobody else makes room for its write. No
    /// writer is held back before the receiver is taken, nor after it is dropped.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses it together with a listener.
    ///
    /// ```
    /// use cortado::{Cache, Overflow, RemovalCause};
    ///
    /// let cache: Cache<&str, u32> =
    ///     Cache::builder().removals(true).notification_limit(1_000, Overflow::Discard).build();
    /// let mut removals = cache.removals().unwrap();
    /// cache.insert("k", 1);
    /// cache.invalidate("k");
    /// let removed = removals.try_recv().unwrap();
    /// assert_eq!((*removed.key(), removed.cause()), ("k", RemovalCause::Explicit));
    /// ```
    pub fn removals(mut self, removals: bool) -> Self {
        self.config.receives = removals;
        self
    }

    /// Bounds the queue of notifications that wait for the listener or for the receiver.
    ///
    /// By default the queue is unbounded: a listener that is stuck lets it grow, which
    /// [`Stats::pending_notifications`](crate::Stats::pending_notifications) shows.
    ///
    /// * With [`Overflow::Wait`], a writer that finds more than `limit` notifications waiting helps
    ///   to deliver after its operation, or waits for the thread that delivers. It never waits
    ///   inside a callback, a load or a computation. Expiry and eviction are not held back. So the
    ///   queue may exceed the limit by as many notifications as the cache holds entries. While it
    ///   does, reads trigger no reloads, and stale values stay
    ///   ([`Stats::reloads_skipped`](crate::Stats::reloads_skipped)).
    /// * With [`Overflow::Discard`], further notifications are dropped and counted
    ///   ([`Stats::discarded_notifications`](crate::Stats::discarded_notifications)). A call takes
    ///   out entries before it notifies of them. If they are more than the limit, some
    ///   notifications are dropped, however fast the listener is. So choose a limit of thousands: a
    ///   read or a write may take out 64 entries that have ended, and as many for want of room as
    ///   were written since the last maintenance, some 1,100 at most. An insert of an entry that
    ///   weighs as much as thousands takes out as many, and a [`scheduler`](Self::scheduler) all
    ///   that ends at once. [`run_pending_tasks`](crate::Cache::run_pending_tasks) and
    ///   [`close`](crate::Cache::close) take out no more at once than the limit, but for a
    ///   receiver, for a listener that awaits, and beside a scheduler.
    ///
    /// ```
    /// use cortado::{Cache, Overflow};
    ///
    /// let cache: Cache<u32, u32> = Cache::builder()
    ///     .removal_listener(|removed| println!("{} left", removed.key()))
    ///     .notification_limit(10_000, Overflow::Discard)
    ///     .record_stats(true)
    ///     .build();
    /// cache.insert(1, 1);
    /// cache.invalidate(&1);
    /// assert_eq!(cache.stats().discarded_notifications, 0);
    /// ```
    pub fn notification_limit(mut self, limit: usize, overflow: Overflow) -> Self {
        self.config.notifications = Notifications(Some((limit, overflow)));
        self
    }

    /// Sets the executor that runs the listener, and the destructors of entries that maintenance
    /// removes, instead of the threads of operations.
    ///
    /// * Each cache has at most one job for this with the executor at a time.
    /// * The executor also runs [reloads](Self::refresh_after_write) of stale entries, one job
    ///   each, and the loads and reloads of a loader that awaits
    ///   ([`future`](crate::future::LoadingCache)). Such a one is a job each time that it is woken;
    ///   if it is woken while it is polled, the same job polls it again, up to 64 times. If it
    ///   needs a runtime's timers or I/O, the jobs have to run inside the runtime's context:
    ///   `on_tokio` (feature `tokio`) does all that.
    /// * [`run_pending_tasks`](crate::Cache::run_pending_tasks) and [`close`](crate::Cache::close)
    ///   do not rely on the executor: they do what they promise themselves.
    /// * An executor that runs jobs at once, on the caller's thread, is allowed. If it panics when
    ///   it gets a delivery, so does the operation that has called it, which is done by then. A
    ///   reload, or a load of a loader that awaits, counts as dropped then.
    /// * The [`scheduler`](Self::scheduler) does not call the executor itself: a worker thread of
    ///   the process does. So an executor that blocks holds up no other cache.
    /// * Operations drop removed values themselves where the executor is far behind: while more
    ///   than 4,096 of them wait for it, and more than the cache has entries. So an executor that
    ///   is stuck or gone does not fill the memory;
    ///   [`Stats::pending_drops`](crate::Stats::pending_drops) shows it.
    /// * An executor that drops jobs delivers nothing and reloads nothing, and no counter of
    ///   reloads shows it. Such is one with the `Handle` of a tokio runtime that has ended. Loads
    ///   run in the calls that need them then.
    /// * The executor is dropped with the cache, on the thread on which the cache ends. That may be
    ///   one of the executor's own threads, or that worker thread.
    ///
    /// Without an executor, operations deliver in passing, and the scheduler leaves the delivery to
    /// worker threads of the process. There is one worker thread as long as no delivery takes
    /// longer than 10 ms, or waits longer, while others wait. Worker threads end when they are
    /// idle.
    ///
    /// ```
    /// use cortado::{Cache, Job};
    /// use std::sync::mpsc::channel;
    /// use std::thread;
    ///
    /// // All listeners and destructors run on this thread.
    /// let (jobs, queue) = channel::<Job>();
    /// let thread = thread::spawn(move || queue.into_iter().for_each(|job| job()));
    ///
    /// let (told, removals) = channel();
    /// let cache: Cache<u32, u32> = Cache::builder()
    ///     .executor(move |job| drop(jobs.send(job)))
    ///     .removal_listener(move |_| told.send(thread::current().id()).unwrap())
    ///     .build();
    /// cache.insert(1, 1);
    /// cache.invalidate(&1);
    /// assert_eq!(removals.recv(), Ok(thread.thread().id()));
    /// ```
    pub fn executor(mut self, executor: impl Execute) -> Self {
        self.config.use_workers();
        self.config.executor = Some(Executor::Own(Arc::new(executor)));
        self
    }

    /// Runs the cache's jobs on tokio: the loads and reloads of a loader that awaits by `spawn`;
    /// the listener, destructors, and the reloads of a loader that blocks by `spawn_blocking`.
    /// Otherwise like [`executor`](Self::executor).
    ///
    /// Each job goes to the runtime of the thread that causes it. Outside of any runtime it goes to
    /// the one in which this method was called, if there was one, and is dropped if that has ended.
    /// So a cache in a `static` works in each test's runtime. A load stays in the runtime that
    /// began it. If nothing drives that runtime (a `current_thread` runtime outside of
    /// `block_on`), the load makes no progress, and the calls that wait for it go on waiting.
    ///
    /// ```
    /// use cortado::{Loaded, future::Cache};
    /// use std::time::Duration;
    ///
    /// #[tokio::main]
    /// async fn main() {
    ///     let pages = Cache::builder()
    ///         .max_capacity(10_000)
    ///         .time_to_live(Duration::from_secs(3600))
    ///         .refresh_after_write(Duration::from_secs(60))
    ///         .on_tokio()
    ///         .build_with_loader(|url: String| async move {
    ///             Ok::<_, std::io::Error>(Loaded::new(format!("body of {url}")))
    ///         });
    ///     assert_eq!(pages.get("/").await.unwrap(), "body of /");
    /// }
    /// ```
    #[cfg(feature = "tokio")]
    pub fn on_tokio(mut self) -> Self {
        self.config.use_workers();
        let present = tokio::runtime::Handle::try_current().ok();
        self.config.executor = Some(Executor::Runtime(present));
        self
    }
}
