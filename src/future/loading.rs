//! Caches for tasks with a stored loader.

use super::Cache;
use crate::engine::{Failed, Panics, Reloading, asked};
use crate::entry::Entry;
use crate::loaded::Reason;
use crate::loader::{AnyAsyncLoader, ReloadFailure};
use equivalent::Equivalent;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;

/// A [`Cache`] for tasks that makes missing values itself, by a stored [`AsyncLoader`], and reloads
/// stale ones; see [`crate::LoadingCache`].
///
/// [`CacheBuilder::build_with_loader`](super::CacheBuilder::build_with_loader) makes one. It
/// dereferences to the [`Cache`], whose reads load nothing. They trigger reloads, if these run on
/// an executor: reads of threads, too.
///
/// [`AsyncLoader`]: crate::AsyncLoader
pub struct LoadingCache<K, V, E, S = crate::RandomState> {
    cache: Cache<K, V, S>,
    loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
}

impl<K, V, E, S> LoadingCache<K, V, E, S> {
    pub(crate) fn new(cache: Cache<K, V, S>, loader: Arc<dyn AnyAsyncLoader<K, V, E>>) -> Self {
        Self { cache, loader }
    }

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
    /// See [`crate::LoadingCache::get`].
    ///
    /// Where reloads run inline ([`refresh_inline`](crate::Builder::refresh_inline)), the task that
    /// finds the value stale awaits the reload and returns the new value, or the stale one if the
    /// reload fails. Other tasks get the stale value meanwhile.
    ///
    /// *Cancellation*: a load is given up if this future is dropped, and so is a reload that runs
    /// inline: another reader triggers it then. A reload on the executor goes on.
    ///
    /// # Errors
    /// The loader's error. A failed reload is none: the old value is returned.
    ///
    /// ```
    /// use cortado::{Loaded, future::Cache};
    ///
    /// # pollster::block_on(async {
    /// let squares = Cache::builder()
    ///     .build_with_loader(|n: u64| async move { Ok::<_, ()>(Loaded::new(n * n)) });
    /// assert_eq!(squares.get(&7).await, Ok(49));
    /// # });
    /// ```
    pub async fn get<Q>(&self, key: &Q) -> Result<V, Arc<E>>
    where
        Q: Equivalent<K> + Hash + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        self.get_entry(key).await.map(Entry::into_value)
    }

    /// Like [`get`](Self::get), but returns a handle on the entry, without a clone.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_entry<Q>(&self, key: &Q) -> Result<Entry<K, V>, Arc<E>>
    where
        Q: Equivalent<K> + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let engine = self.cache.engine();
        let Some(entry) = self.cache.get_entry(key).await else {
            let key: K = key.to_owned();
            let loaded = self.loader.load(&key);
            let result = engine.load_after_miss_async(key.clone(), loaded).await;
            self.cache.tell().await;
            return result;
        };
        let Some(reloading) = engine.take_stale_inline(&entry) else { return Ok(entry) };
        Ok(self.reload(reloading, &entry).await.unwrap_or(entry))
    }

    /// Reloads the value of this entry in this task.
    async fn reload(
        &self,
        mut reloading: Reloading<K, V>,
        entry: &Entry<K, V>,
    ) -> Option<Entry<K, V>> {
        reloading.leave_no_trace();
        let answer = pin!(asked(self.loader.reload(entry.key(), entry)));
        let engine = self.cache.engine();
        let made =
            engine.reload_async(Box::new(reloading), K::clone, (answer, Panics::Count)).await;
        self.cache.tell().await;
        made
    }

    /// Returns clones of the keys' values, in the order of the keys; values that are missing are
    /// loaded, one after the other.
    ///
    /// # Errors
    /// The first error of the loader.
    pub async fn get_many<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
    ) -> Result<Vec<V>, Arc<E>>
    where
        Q: Equivalent<K> + Hash + ToOwned<Owned = K> + ?Sized + 'q,
        V: Clone,
    {
        let mut values = Vec::new();
        for key in keys {
            values.push(self.get(key).await?);
        }
        Ok(values)
    }

    /// Reloads the key's value now, stale or not, and returns it; if the key has none, loads it.
    ///
    /// The loader runs in this task, wherever other reloads run. If a reload or load of the key is
    /// under way, or too many reloads are, the call returns what a read finds.
    ///
    /// *Cancellation*: the reload is given up if this future is dropped.
    ///
    /// # Errors
    /// The loader's error, if the key has no value. A failed reload returns the old value.
    ///
    /// ```
    /// use cortado::{Loaded, future::Cache};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// # pollster::block_on(async {
    /// let version = AtomicU32::new(0);
    /// let settings = Cache::builder().build_with_loader(move |_: &'static str| {
    ///     let version = version.fetch_add(1, Ordering::Relaxed);
    ///     async move { Ok::<_, ()>(Loaded::new(version)) }
    /// });
    /// assert_eq!(settings.get(&"k").await, Ok(0));
    /// assert_eq!(settings.refresh(&"k").await, Ok(1));
    /// # });
    /// ```
    pub async fn refresh<Q>(&self, key: &Q) -> Result<V, Arc<E>>
    where
        Q: Equivalent<K> + Hash + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        let engine = self.cache.engine();
        let Some(entry) = self.cache.peek(key) else { return self.get(key).await };
        let Some(reloading) = engine.take_reload(entry.node()) else {
            return Ok(entry.into_value());
        };
        let made = self.reload(reloading, &entry).await;
        // "Not modified" makes no entry, and a removal leaves none.
        Ok(made.unwrap_or(entry).into_value())
    }

    /// See [`crate::LoadingCache::last_failure`].
    pub fn last_failure<Q>(&self, key: &Q) -> Option<ReloadFailure<E>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let engine = self.cache.engine();
        let Failed { reason, at, times } = engine.last_failure(key)?;
        let error = reason.as_ref().and_then(<Arc<E> as Reason>::adopt);
        Some(ReloadFailure { error, at: engine.core.ticker.instant_of(at), times })
    }
}

impl<K, V, E, S> Clone for LoadingCache<K, V, E, S> {
    /// Returns another handle on the same cache.
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), loader: Arc::clone(&self.loader) }
    }
}

impl<K, V, E, S> Deref for LoadingCache<K, V, E, S> {
    type Target = Cache<K, V, S>;

    fn deref(&self) -> &Cache<K, V, S> {
        &self.cache
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
