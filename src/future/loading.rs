//! Caches for tasks with a stored loader.

use super::Cache;
use crate::engine::{OnStale, Reloading, Unmade, ValueRead, asked, is_in_user_code, until};
use crate::entry::Entry;
use crate::error::LoadError;
use crate::loaded::LoadedMany;
use crate::loader::{AnyAsyncLoader, ReloadFailure};
use crate::to_key::ToKey;
use equivalent::Equivalent;
use std::convert::identity;
use std::fmt;
use std::future::Future;
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
    /// finds the value stale awaits the reload, and returns what the key has then; if it has no
    /// value, the task loads one. Other tasks get the stale value meanwhile.
    ///
    /// *Cancellation*: a load is given up if this future is dropped, and so is a reload that runs
    /// inline: another reader triggers it then. A reload on the executor goes on. The loader's
    /// future is dropped before the next one of the key begins; see the [module](super).
    ///
    /// # Errors
    /// The loader's error in a load. A failed reload is none.
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
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let loaded = match self.cache.engine().read_for_value(key) {
            ValueRead::Hit(value) if !self.cache.engine().tells_after_read() => return Ok(value),
            ValueRead::Hit(value) => {
                // The future has no room for a value.
                let value = Box::new(value);
                self.cache.tell_listeners().await;
                return Ok(*value);
            }
            ValueRead::Miss => self.load_missing(key.to_key()).await,
            ValueRead::ByHandle => self.get_entry(key).await,
        };
        loaded.map(Entry::into_value)
    }

    /// Loads a key that a read has just found without a value.
    async fn load_missing(&self, key: K) -> Result<Entry<K, V>, Arc<E>> {
        let unmade = &mut Some(Unmade::missing(key.clone()));
        let result = {
            let loader = pin!(Some(self.loader.load(&key)));
            self.cache.engine().make_async(unmade, loader, identity).await
        };
        self.cache.tell_unless(!result.as_ref().is_ok_and(Entry::is_fresh)).await;
        // Before the entry is the return value: a panic of the destructor would leak it.
        drop(key);
        result
    }

    /// Like [`get`](Self::get), but returns a handle on the entry, without a clone. It loads a
    /// missing value; [`Cache::get_entry`], by [`cache()`](Self::cache), does not.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_entry<Q>(&self, key: &Q) -> Result<Entry<K, V>, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        let engine = self.cache.engine();
        if let Some(entry) = self.cache.get_entry(key).await {
            let Some(reloading) = engine.take_stale_inline(&entry, OnStale::Reload) else {
                return Ok(entry);
            };
            if let Some(present) = self.reload(reloading, entry).await {
                return Ok(present);
            }
        }
        self.load_missing(key.to_key()).await
    }

    /// Reloads the value of this entry in this task. Returns the key's entry after that.
    async fn reload(&self, mut reloading: Reloading, entry: Entry<K, V>) -> Option<Entry<K, V>> {
        reloading.leave_no_trace();
        let engine = self.cache.engine();
        let made = {
            let answer = pin!(Some(asked(self.loader.reload(entry.key(), &entry))));
            engine.reload_by(Box::new(reloading), K::clone, answer).await
        };
        // Its caller may be a read, and the task that receives the notices.
        self.cache.tell_listeners().await;
        let present = engine.entry_after_reload((entry.hash(), entry.key()), made);
        // Before the new one is the return value: a panic of a destructor would leak it.
        drop(entry);
        present
    }

    /// Returns clones of the keys' values, in the order of the keys; the values that are missing
    /// are made by one call of [`AsyncLoader::load_many`]. `None` stands for a key for which it
    /// made nothing.
    ///
    /// Otherwise like [`Cache::try_get_many_with`]. Stale values are returned; they trigger reloads
    /// that run on an executor, and none that run inline.
    ///
    /// # Errors
    /// As [`crate::LoadingCache::get_many`].
    ///
    /// [`AsyncLoader::load_many`]: crate::AsyncLoader::load_many
    ///
    /// ```
    /// use cortado::{Loaded, future::Cache};
    ///
    /// # pollster::block_on(async {
    /// let squares = Cache::builder()
    ///     .build_with_loader(|n: u64| async move { Ok::<_, ()>(Loaded::new(n * n)) });
    /// squares.insert(3, 0).await;
    /// assert_eq!(squares.get_many([2, 3, 4]).await, Ok(vec![Some(4), Some(0), Some(16)]));
    /// # });
    /// ```
    pub async fn get_many(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<V>>, Arc<E>>
    where
        V: Clone,
    {
        let loader = |keys: &[&K]| self.loader.load_many(keys.iter().copied().cloned().collect());
        let into_result = |pairs| Ok(LoadedMany { pairs, absent: None });
        let (answers, wrote_nothing) =
            self.cache.engine().load_many_async(keys, loader, into_result).await;
        self.cache.tell_unless(wrote_nothing).await;
        answers
    }

    /// Like [`get`](Self::get), but if the value is stale, waits for its reload until `soft` is
    /// ready: a timer of the runtime's, such as `tokio::time::sleep(..)`.
    ///
    /// * A fresh value is returned at once.
    /// * If the value is stale, the call returns the new one if it is there before `soft` is ready,
    ///   else the stale one.
    /// * If the key has no value, the call waits for a load, however long. Give it the runtime's
    ///   own limit: `tokio::time::timeout(hard, cache.get_within(&key, tokio::time::sleep(soft)))`.
    ///
    /// The loader runs on the builder's [`executor`](crate::Builder::executor). There it goes on if
    /// `soft` is ready, or if this future is dropped, and its value enters the cache. With
    /// [`refresh_inline`](crate::Builder::refresh_inline), or without an executor, the loader runs
    /// in this task and is given up then: the next task that reads the stale value reloads it. The
    /// same applies to a load whose job the executor drops.
    ///
    /// Inside a load, a computation, a callback or a listener (but one that awaits) of any cache,
    /// the call waits for no reload: it gets the stale value at once. On an executor, calls
    /// for one key share one load, however many of them were dropped; other methods do not wait
    /// for one whose first job has not begun.
    ///
    /// *Cancellation*: as said above.
    ///
    /// # Errors
    /// If there is no value: the loader has failed, or has panicked on the executor.
    /// [`LoadError::TimedOut`] does not occur.
    ///
    /// # Panics
    /// If the loader panics in this task, or if it loads the key and asks so for it.
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
    pub async fn get_within<Q>(&self, key: &Q, soft: impl Future) -> Result<V, LoadError<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let engine = self.cache.engine();
        // Its destructor may panic, and would leak a value that is the return value already.
        let mut soft = pin!(Some(soft));
        if let Some(entry) = self.cache.get_entry(key).await {
            let Some(limit) = soft.as_mut().as_pin_mut().filter(|_| !is_in_user_code()) else {
                soft.set(None);
                return Ok(entry.into_value());
            };
            let made = match engine.take_stale_inline(&entry, OnStale::Reload) {
                None => {
                    engine.await_reload_async(entry.node(), limit).await;
                    drop(entry);
                    None
                }
                Some(reloading) => {
                    let reload = pin!(self.reload(reloading, entry));
                    // The cache need not have kept the new value.
                    until(reload, limit).await.flatten()
                }
            };
            soft.set(None);
            if let Some(present) = made.or_else(|| self.cache.peek(key)) {
                return Ok(present.into_value());
            }
        }
        soft.set(None);
        let loaded = engine.load_elsewhere_async(key.to_key(), &self.loader).await;
        self.cache.tell().await;
        match loaded {
            Some(Ok(entry)) => Ok(entry.into_value()),
            Some(Err(error)) => Err(LoadError::Failed(error)),
            None => Err(LoadError::Panicked),
        }
    }

    /// Reloads the key's value now, stale or not, and returns it; if the key has none, loads it.
    /// (`refresh` of a [`LoadingCache`](crate::LoadingCache) for threads does not wait, and returns
    /// whether it has begun.)
    ///
    /// The loader runs in this task, wherever other reloads run. If a reload of the key runs, the
    /// call waits for it and returns the value that is there then: all tasks that ask at the same
    /// time share one call of the loader. If a reload waits in the executor, if too many are under
    /// way ([`refresh_limit`](crate::Builder::refresh_limit)), and inside a load, a computation, a
    /// callback or a listener, the call returns the present value.
    ///
    /// *Cancellation*: a reload that this call began is given up if its future is dropped. A task
    /// that waited for it returns the old value then.
    ///
    /// # Errors
    /// The loader's error in a load. A failed reload is none: the call returns the old value. If
    /// that has ended or was removed meanwhile, or is [gone](crate::Reloaded::gone), the call loads
    /// the key.
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
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let engine = self.cache.engine();
        let Some(entry) = self.cache.peek(key) else { return self.get(key).await };
        let present = match engine.take_reload(entry.node()) {
            Some(reloading) => {
                let present = self.reload(reloading, entry).await;
                self.cache.tell().await;
                present
            }
            None => {
                engine.join_reload_async(entry.node()).await;
                // As in `reload`.
                drop(entry);
                self.cache.peek(key)
            }
        };
        match present {
            Some(present) => Ok(present.into_value()),
            None => self.get(key).await,
        }
    }

    /// See [`crate::LoadingCache::last_failure`].
    pub fn last_failure<Q>(&self, key: &Q) -> Option<ReloadFailure<E>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.engine().last_failure(key)
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
