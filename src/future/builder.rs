//! Settings of a cache for tasks.

use super::{Cache, CacheBuilder, LoadingCache};
use crate::async_listener::{AsyncListener, ListenerFuture};
use crate::error::BuildError;
use crate::hash::random_state;
use crate::loader::{AnyAsyncLoader, AsyncLoader};
use crate::removal::RemovalCause;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

impl<K, V> CacheBuilder<K, V> {
    /// Makes a builder of a cache with this bound; see [`max_capacity`](Self::max_capacity).
    pub fn new(max_capacity: u64) -> Self {
        Self::unset().max_capacity(max_capacity)
    }
}

impl<K, V> Default for CacheBuilder<K, V> {
    /// Makes a builder with the default settings, without a bound.
    fn default() -> Self {
        Self::unset()
    }
}

impl<K, V> CacheBuilder<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Adds a listener that awaits. It gets clones of key and value, and the cause.
    ///
    /// The listener is called for one removal at a time, and for the removals of a key in their
    /// order. The operation of a task that ends while removals wait awaits the listener, unless
    /// another operation does: a read for one removal, a write for 64 at most. The rest is left to
    /// later operations. [`run_pending_tasks`](super::Cache::run_pending_tasks) and
    /// [`close`](super::Cache::close) await all. If an operation is dropped meanwhile, a later one
    /// goes on with the same call. An operation of a thread ([`Cache::sync`](super::Cache::sync)),
    /// the [`scheduler`](Self::scheduler), a job of the [`executor`](Self::executor), and an
    /// operation inside a load or a computation of any cache leave the removals to the next
    /// operation of a task outside of these, of which
    /// [`run_pending_tasks`](super::Cache::run_pending_tasks) is one. So a cache that is only
    /// used in the loaders of another one needs such a call now and then.
    ///
    /// *Bound*: the [`notification_limit`](Self::notification_limit) counts the removals that wait
    /// for this listener, too. With [`Overflow::Discard`](crate::Overflow::Discard) further ones
    /// are dropped and counted. With [`Overflow::Wait`](crate::Overflow::Wait) a task that has
    /// written runs the listener for what waits, or waits while another task does and more than the
    /// limit wait. A thread that writes is not held back for this listener, because it cannot poll
    /// one: where threads alone write, `Overflow::Discard` bounds the queue. Writes of the listener
    /// itself are not held back. It must not await the writes of other tasks on this cache.
    ///
    /// A panic is caught and counted, and the listener is called for the next removal.
    ///
    /// ```
    /// use cortado::future::Cache;
    ///
    /// # pollster::block_on(async {
    /// let cache: Cache<u32, String> = Cache::builder()
    ///     .async_eviction_listener(|key, value, cause| async move {
    ///         println!("{key}: {value} left: {cause}");
    ///     })
    ///     .build();
    /// cache.insert(1, "one".into()).await;
    /// cache.remove(&1).await;
    /// # });
    /// ```
    pub fn async_eviction_listener<F, R>(mut self, listener: F) -> Self
    where
        F: Fn(Arc<K>, V, RemovalCause) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let boxing =
            move |key, value, cause| -> ListenerFuture { Box::pin(listener(key, value, cause)) };
        let listener = Arc::new(AsyncListener::new(boxing));
        let queue = Arc::clone(&listener);
        self.config.backlogs.push(Arc::clone(&listener.backlog));
        self.hooks.async_listeners.push(listener);
        self.removal_listener(move |removed| queue.push(removed))
    }
}

impl<K, V> CacheBuilder<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Builds a cache for tasks that makes missing values itself, by a stored loader, and reloads
    /// stale ones; otherwise like the method of this name for threads.
    ///
    /// Its loads and reloads run on the [`executor`](Self::executor), or on tokio
    /// (`on_tokio`, feature `tokio`; also with `Clock::tokio`). One of these must be set.
    ///
    /// # Panics
    /// As [`build`](Self::build), and without a place for the loader to run.
    ///
    /// ```
    /// use cortado::{Job, Loaded, future::Cache};
    ///
    /// # pollster::block_on(async {
    /// let pages = Cache::builder().executor(|job: Job| job()).build_with_loader(
    ///     |url: String| async move { Ok::<_, ()>(Loaded::new(format!("body of {url}"))) },
    /// );
    /// assert_eq!(pages.get("/").await, Ok("body of /".to_owned()));
    /// # });
    /// ```
    #[must_use]
    #[track_caller]
    pub fn build_with_loader<L: AsyncLoader<K, V>>(
        self,
        loader: L,
    ) -> LoadingCache<K, V, L::Error> {
        BuildError::or_fail(self.try_build_with_loader(loader, random_state()))
    }

    /// Like [`build_with_loader`](Self::build_with_loader), with a hasher of your own, and returns
    /// an error instead of panicking.
    ///
    /// # Errors
    /// As [`try_build`](Self::try_build), and without a place for the loader to run.
    ///
    /// ```
    /// use cortado::{Loaded, RandomState, future::Cache};
    ///
    /// let double = |n: u32| async move { Ok::<_, ()>(Loaded::new(2 * n)) };
    /// let refused = Cache::builder().try_build_with_loader(double, RandomState::new());
    /// assert_eq!(refused.unwrap_err().setting(), "executor");
    /// ```
    pub fn try_build_with_loader<L, S>(
        mut self,
        loader: L,
        hasher: S,
    ) -> Result<LoadingCache<K, V, L::Error, S>, BuildError>
    where
        L: AsyncLoader<K, V>,
        S: BuildHasher + Send + Sync + 'static,
    {
        self.config.check_polls()?;
        let loader: Arc<dyn AnyAsyncLoader<K, V, L::Error>> = Arc::new(loader);
        self.use_loader(None);
        let cache = self.into_cache(hasher)?;
        cache.engine().start_reloads_by(Arc::clone(&loader));
        Ok(LoadingCache { cache: Cache { cache }, loader })
    }
}
