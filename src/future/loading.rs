//! Caches for tasks with a stored loader.

use super::Cache;
use crate::engine::race;
use crate::entry::Entry;
use crate::loader::{AnyAsyncLoader, ReloadFailure};
use crate::stats::Stats;
use crate::to_key::ToKey;
use equivalent::Equivalent;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::pin;
use std::sync::Arc;

/// A [`Cache`] for tasks that makes missing values itself, by a stored [`AsyncLoader`], and reloads
/// stale ones; see [`crate::LoadingCache`].
///
/// [`CacheBuilder::build_with_loader`](super::CacheBuilder::build_with_loader) makes one. The
/// [`Cache`] below it, by [`cache()`](Self::cache), has all other operations. Its reads load
/// nothing; they trigger reloads, reads of threads, too.
///
/// **Loads and reloads run on the executor** ([`executor`](crate::Builder::executor),
/// `on_tokio`). A call waits for its load, and dropping the call
/// cancels nothing: the loader goes on, and its value enters the cache. So a time limit that is
/// shorter than the load fills the cache all the same, and a call that is polled once and then kept
/// delays nobody. Task-locals, a `LocalSet` and the cancellation of the caller do not follow the
/// loader to the executor. Where they have to, [`Cache::load`] runs a loader in the call.
///
/// [`AsyncLoader`]: crate::AsyncLoader
pub struct LoadingCache<K, V, E, S = crate::RandomState> {
    pub(crate) cache: Cache<K, V, S>,
    pub(crate) loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
}

impl<K, V, E, S> LoadingCache<K, V, E, S> {
    /// The cache, without the loader.
    #[must_use]
    pub fn cache(&self) -> &Cache<K, V, S> {
        &self.cache
    }
}

impl<K, V, E, S> LoadingCache<K, V, E, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Returns a clone of the key's value; if the key has none, the loader makes one on the
    /// executor, and this call waits for that.
    ///
    /// All who ask for the key meanwhile share one load. A value that is inserted meanwhile is
    /// returned at once. A stale value is returned, and triggers a reload; see
    /// [`crate::LoadingCache::get`].
    ///
    /// If the executor drops the load, as a runtime does that has ended, or panics when it gets it,
    /// this call runs the loader itself.
    ///
    /// *Cancellation*: cancels nothing but the wait, unless this call runs the loader itself.
    ///
    /// # Errors
    /// The loader's error in a load. A failed reload is none.
    ///
    /// # Panics
    /// If the loader panics, in the call that has begun the load. If that call is gone, the panic
    /// is caught. The others load anew. And if the loader asks for the very key that it loads.
    ///
    /// ```
    /// use cortado::{Job, Loaded, future::Cache};
    ///
    /// # pollster::block_on(async {
    /// let squares = Cache::builder()
    ///     .executor(|job: Job| job()) // runs jobs at once; in a service `on_tokio()`
    ///     .build_with_loader(|n: u64| async move { Ok::<_, ()>(Loaded::new(n * n)) });
    /// assert_eq!(squares.get(&7).await, Ok(49));
    /// # });
    /// ```
    pub async fn get<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<V, Arc<E>>
    where
        V: Clone,
    {
        let engine = self.cache.engine();
        let made = match engine.read_clone_only(engine.hashed(key)) {
            (Some(value), false) if !engine.tells_after_read() => return Ok(value),
            (Some(value), due) => {
                // The future has no room for a value.
                let value = Box::new(value);
                let made = if due { engine.after_own_read() } else { None };
                self.cache.tell_listeners().await;
                let Some(made) = made else { return Ok(*value) };
                made
            }
            (None, true) => engine.after_own_read().unwrap_or_default(),
            (None, false) => Vec::new(),
        };
        self.after_reload_or_load(key, made).await.map(Entry::into_value)
    }

    /// Like [`get`](Self::get), but returns a handle on the entry, without a clone. It loads a
    /// missing value; [`Cache::get_entry`], by [`cache()`](Self::cache), does not.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub async fn get_entry<Q>(&self, key: &Q) -> Result<Entry<K, V>, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        let (found, made) = self.cache.sync().read_entry(key);
        self.cache.tell_listeners().await;
        match (found, made) {
            (Some(entry), None) => Ok(entry),
            (_, made) => self.after_reload_or_load(key, made.unwrap_or_default()).await,
        }
    }

    /// The key's entry, after this call has run reloads at once, which have made `made`; or else
    /// loaded.
    async fn after_reload_or_load<Q: ToKey<K> + Hash + ?Sized>(
        &self,
        key: &Q,
        made: Vec<Entry<K, V>>,
    ) -> Result<Entry<K, V>, Arc<E>> {
        let engine = self.cache.engine();
        let key = engine.hashed(key);
        if let Some(present) = engine.entry_after_reload(key, made) {
            return Ok(present);
        }
        let loaded = engine.load_executed(key.to_key(), &self.loader).await;
        self.cache.tell_unless(!loaded.as_ref().is_ok_and(Entry::is_fresh)).await;
        loaded
    }

    /// Returns clones of the keys' values, in the order of the keys; the values that are missing
    /// are made by one call of [`AsyncLoader::load_many`]. `None` stands for a key for which it
    /// made nothing.
    ///
    /// The loader runs on the executor, as in [`get`](Self::get). Otherwise like
    /// [`Cache::try_get_many_with`]. Stale values are returned, and trigger reloads.
    ///
    /// # Errors
    /// As [`crate::LoadingCache::get_many`].
    ///
    /// # Panics
    /// As [`get`](Self::get).
    ///
    /// [`AsyncLoader::load_many`]: crate::AsyncLoader::load_many
    ///
    /// ```
    /// use cortado::{Job, Loaded, future::Cache};
    ///
    /// # pollster::block_on(async {
    /// let squares = Cache::builder()
    ///     .executor(|job: Job| job())
    ///     .build_with_loader(|n: u64| async move { Ok::<_, ()>(Loaded::new(n * n)) });
    /// squares.insert(3, 0).await;
    /// assert_eq!(squares.get_many(&[2, 3, 4]).await, Ok(vec![Some(4), Some(0), Some(16)]));
    /// # });
    /// ```
    pub async fn get_many<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
    ) -> Result<Vec<Option<V>>, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized + 'q,
        V: Clone,
    {
        let loading = self.cache.engine().load_many_executed(keys, &self.loader);
        let (answers, wrote_nothing) = loading.await;
        self.cache.tell_unless(wrote_nothing).await;
        answers
    }

    /// Like [`get`](Self::get), but if the value is stale, waits for its reload until `soft` is
    /// ready: a timer of the runtime's, such as `tokio::time::sleep(..)`.
    ///
    /// * A value that is not stale is returned at once.
    /// * If the value is stale, the call returns the new one if it is there before `soft` is ready,
    ///   else the stale one. The reload goes on.
    /// * If the key has no value, the call waits for a load, however long. Give it the runtime's
    ///   own limit: `tokio::time::timeout(hard, cache.get_within(&key, tokio::time::sleep(soft)))`.
    ///   The load goes on then.
    ///
    /// Inside a load, a computation, a callback or a listener of any cache, the call waits for no
    /// reload: it gets the stale value at once.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Panics
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use cortado::{Clock, Job, Loaded, future::Cache};
    /// use std::{future::ready, sync::mpsc::channel, time::Duration};
    ///
    /// # pollster::block_on(async {
    /// let ((clock, hand), (jobs, queue)) = (Clock::manual(), channel::<Job>());
    /// let pages = Cache::builder()
    ///     .refresh_after_write(Duration::from_secs(60))
    ///     .executor(move |job| drop(jobs.send(job)))
    ///     .clock(clock)
    ///     .build_with_loader(|n: u32| async move { Ok::<_, ()>(Loaded::new(n)) });
    /// pages.insert(7, 0).await;
    /// hand.advance(Duration::from_secs(60));
    /// // As a timer that is over at once: the stale value.
    /// assert_eq!(pages.get_within(&7, ready(())).await, Ok(0));
    /// queue.recv().unwrap()();
    /// assert_eq!(pages.get_within(&7, ready(())).await, Ok(7));
    /// # });
    /// ```
    pub async fn get_within<Q>(&self, key: &Q, soft: impl Future) -> Result<V, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let engine = self.cache.engine();
        let (found, made) = self.cache.sync().read_entry(key);
        self.cache.tell_listeners().await;
        if let Some(entry) = found
            && engine.is_being_renewed(entry.node())
        {
            let _ = race(pin!(engine.await_reload_async(entry.node())), pin!(soft)).await;
        }
        let loaded = self.after_reload_or_load(key, made.unwrap_or_default()).await;
        loaded.map(Entry::into_value)
    }

    /// Starts a reload of the key's value, stale or not; if the key has none, a load. Returns
    /// whether this call has started one; see [`crate::LoadingCache::refresh`].
    pub fn refresh<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        let engine = self.cache.engine();
        engine.refresh_key_async(engine.hashed(key), &self.loader)
    }

    /// Reloads the key's value, stale or not, and returns it; if the key has none, loads it. See
    /// [`crate::LoadingCache::reload`].
    ///
    /// *Cancellation*: cancels nothing but the wait, unless this call runs the loader itself.
    ///
    /// # Errors
    /// The loader's error in a load. A failed reload is none: the call returns the old value.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use cortado::{Job, Loaded, future::Cache};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// # pollster::block_on(async {
    /// let version = AtomicU32::new(0);
    /// let settings = Cache::builder()
    ///     .executor(|job: Job| job())
    ///     .build_with_loader(move |_: &'static str| {
    ///         let version = version.fetch_add(1, Ordering::Relaxed);
    ///         async move { Ok::<_, ()>(Loaded::new(version)) }
    ///     });
    /// assert_eq!(settings.get(&"k").await, Ok(0));
    /// assert_eq!(settings.reload(&"k").await, Ok(1));
    /// # });
    /// ```
    pub async fn reload<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<V, Arc<E>>
    where
        V: Clone,
    {
        let engine = self.cache.engine();
        if let Some(entry) = self.cache.sync().peek(key) {
            engine.refresh_node(entry.node());
            engine.await_reload_async(entry.node()).await;
            drop(entry);
            self.cache.tell().await;
            if let Some(present) = self.cache.sync().peek(key) {
                return Ok(present.into_value());
            }
        }
        self.get(key).await
    }

    /// See [`crate::LoadingCache::last_failure`].
    pub fn last_failure<Q>(&self, key: &Q) -> Option<ReloadFailure<E>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.engine().last_failure(self.cache.engine().hashed(key))
    }

    /// See [`Cache::insert`].
    pub async fn insert(&self, key: K, value: V) {
        self.cache.insert(key, value).await;
    }

    /// See [`Cache::remove`]. It loads nothing.
    pub async fn remove<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.cache.remove(key).await
    }

    /// See [`Cache::invalidate`].
    pub async fn invalidate<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) {
        self.cache.invalidate(key).await;
    }

    /// See [`Cache::invalidate_all`].
    pub fn invalidate_all(&self) {
        self.cache.invalidate_all();
    }

    /// See [`Cache::contains_key`]. It loads nothing.
    pub fn contains_key<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        self.cache.contains_key(key)
    }

    /// See [`Cache::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.cache.stats()
    }

    /// See [`Cache::run_pending_tasks`].
    pub async fn run_pending_tasks(&self) {
        self.cache.run_pending_tasks().await;
    }
}

impl<K, V, E, S> Clone for LoadingCache<K, V, E, S> {
    /// Returns another handle on the same cache.
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), loader: Arc::clone(&self.loader) }
    }
}

impl<K, V, E, S> fmt::Debug for LoadingCache<K, V, E, S>
where
    Cache<K, V, S>: fmt::Debug,
{
    /// Shows what the [`Cache`] does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cache.fmt(f)
    }
}
