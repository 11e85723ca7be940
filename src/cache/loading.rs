//! Caches with a stored loader.

use super::Cache;
use crate::engine::Waited;
use crate::entry::Entry;
use crate::error::LoadError;
use crate::loaded::LoadedMany;
use crate::loader::{Loader, ReloadFailure};
use crate::to_key::ToKey;
use equivalent::Equivalent;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A [`Cache`] that makes missing values itself, by a stored [`Loader`], and reloads stale ones.
///
/// [`Builder::build_with_loader`](crate::Builder::build_with_loader) makes one. It dereferences to
/// the [`Cache`], whose reads trigger reloads, too, and load nothing.
///
/// Like a `Cache` it is a handle: cloning it is cheap, and all clones are the same cache.
pub struct LoadingCache<K, V, E, S = ahash::RandomState> {
    cache: Cache<K, V, S>,
    loader: Arc<dyn Loader<K, V, Error = E>>,
}

impl<K, V, E, S> LoadingCache<K, V, E, S> {
    pub(crate) fn new(cache: Cache<K, V, S>, loader: Arc<dyn Loader<K, V, Error = E>>) -> Self {
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
    /// Returns a clone of the key's value; if the key has none, the loader makes one.
    ///
    /// A stale value is returned at once, and one of its readers triggers a reload
    /// ([`refresh_after_write`](crate::Builder::refresh_after_write)). If this very call runs the
    /// reload ([`refresh_inline`](crate::Builder::refresh_inline)), it looks at the key again, and
    /// returns the new value, which the cache need not have kept. If the reload has failed, it
    /// returns the stale value; but if that has ended or was removed while the loader worked, or is
    /// [gone](crate::Reloaded::gone), the call loads the key, as one without a value. A load is one
    /// of [`Cache::try_get_with`]: one caller runs the loader, and the others share its outcome.
    ///
    /// *Blocking*: waits for the loader, and for a load or computation of the key that is under
    /// way, if the key has no value. A hit waits for nothing, except for the loader if this
    /// very read triggered a reload that runs inline.
    ///
    /// # Errors
    /// The loader's error in a load. A failed reload is none.
    ///
    /// # Panics
    /// If the loader panics in a load, or asks for the very key that it loads.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    ///
    /// let squares = Cache::builder().build_with_loader(|n: &u64| Ok::<_, ()>(Loaded::new(n * n)));
    /// assert_eq!(squares.get(&7), Ok(49));
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Result<V, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        match self.cache.engine().read_clone_only(key) {
            (Some(value), false) => return Ok(value),
            (Some(value), true) => {
                let Some(made) = self.cache.engine().after_own_read() else { return Ok(value) };
                // Before another value is the return value: a panic of its destructor would leak
                // that.
                drop(value);
                if let Some(present) = self.after_reload(key, made) {
                    return Ok(present.into_value());
                }
            }
            (None, true) => self.cache.engine().after_read(),
            (None, false) => {}
        }
        self.load_uncounted(key.to_key()).map(Entry::into_value)
    }

    /// Like [`get`](Self::get), but returns a handle on the entry, without a clone. It loads a
    /// missing value; [`Cache::get_entry`], by [`cache()`](Self::cache), does not.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    ///
    /// let lengths = Cache::builder()
    ///     .build_with_loader(|word: &String| Ok::<_, ()>(Loaded::new(word.len())));
    /// let entry = lengths.get_entry("four").unwrap();
    /// assert_eq!((entry.key().as_str(), *entry), ("four", 4));
    /// ```
    pub fn get_entry<Q>(&self, key: &Q) -> Result<Entry<K, V>, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        match self.cache.read_entry(key) {
            (Some(entry), None) => return Ok(entry),
            (Some(entry), Some(made)) => {
                // As in `get`.
                drop(entry);
                if let Some(present) = self.after_reload(key, made) {
                    return Ok(present);
                }
            }
            (None, _) => {}
        }
        self.load_uncounted(key.to_key())
    }

    /// See [`entry_after_reload`](crate::engine::Engine::entry_after_reload).
    fn after_reload<Q>(&self, key: &Q, made: Option<Entry<K, V>>) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let engine = self.cache.engine();
        engine.entry_after_reload((engine.hash(key), key), made)
    }

    /// Loads a key that a read has just found without a value.
    fn load_uncounted(&self, key: K) -> Result<Entry<K, V>, Arc<E>> {
        let wanted = key.clone();
        let loaded = self.cache.engine().load_after_miss(key, || self.loader.load(&wanted));
        // Before the entry is the return value: a panic of the destructor would leak it.
        drop(wanted);
        loaded
    }

    /// Returns clones of the keys' values, in the order of the keys; the values that are missing
    /// are made by one call of [`Loader::load_many`]. `None` stands for a key for which it made
    /// nothing.
    ///
    /// Otherwise like [`Cache::try_get_many_with`]. Stale values are returned, and trigger reloads.
    ///
    /// # Errors
    /// The error of the first key that has one, in the order of the keys. The values of the other
    /// keys are kept: [`Cache::get_many`] reads them. Those who wait for one of the keys get what
    /// the loader made of that key.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    ///
    /// let squares = Cache::builder().build_with_loader(|n: &u64| Ok::<_, ()>(Loaded::new(n * n)));
    /// squares.insert(3, 0);
    /// assert_eq!(squares.get_many([2, 3, 4]), Ok(vec![Some(4), Some(0), Some(16)]));
    /// ```
    pub fn get_many(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<V>>, Arc<E>>
    where
        V: Clone,
    {
        let loader =
            |keys: &[&K]| Ok(LoadedMany { pairs: self.loader.load_many(keys), absent: None });
        Ok(self.cache.engine().load_many(keys, loader, None)?.unwrap_or_default())
    }

    /// Has the key's value reloaded now, stale or not; if the key has none, has it loaded. Does not
    /// wait for the executor. Returns whether this call has begun a reload or load: false if one of
    /// the key is under way, or if too many reloads are
    /// ([`refresh_limit`](crate::Builder::refresh_limit)), or if it would run on the executor while
    /// more notifications wait than a limit allows.
    ///
    /// It runs where reloads run: on the builder's [`executor`](crate::Builder::executor), or on
    /// this thread. Readers get the old value meanwhile. It is no read of the entry.
    ///
    /// A failure leaves the old value, and is counted. If another call loads a missing key while
    /// this load waits for the executor, this load does not begin.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let version = AtomicU32::new(0);
    /// let load = move |_: &&str| Ok::<_, ()>(Loaded::new(version.fetch_add(1, Ordering::Relaxed)));
    /// let settings = Cache::builder().refresh_inline(true).build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(0));
    /// assert!(settings.refresh(&"k"));
    /// assert_eq!(settings.get(&"k"), Ok(1));
    /// ```
    pub fn refresh(&self, key: &K) -> bool {
        let loader = Arc::clone(&self.loader);
        self.cache.engine().refresh_key(key, move |key| loader.load(key))
    }

    /// Like [`get`](Self::get), with time limits, in real time, counted from the call.
    ///
    /// * A fresh value is returned at once.
    /// * If the value is stale, the call waits for its reload until `limits.soft`, and returns the
    ///   new value if it is there by then, else the stale one.
    /// * If the key has no value, the call waits for a load until `limits.hard`, and fails then.
    ///
    /// Whatever the call has given up to wait for goes on, and its value enters the cache. So the
    /// loader runs on the builder's [`executor`](crate::Builder::executor). With
    /// [`refresh_inline`](crate::Builder::refresh_inline), or without an executor, it runs on this
    /// thread, where a limit interrupts no code: only waits for other calls' loads are limited
    /// then.
    ///
    /// Inside a load, a computation, a callback or a listener of any cache, the call waits for no
    /// reload: it gets the stale value at once. So it does while the thread holds a view, if
    /// reloads run inline.
    ///
    /// On an executor, calls for one key share one job, however many of them have given up. A
    /// thread of the executor that calls this for a key without a value needs another one to be
    /// free for the load, or times out. Other methods do not wait for a job that has not begun.
    ///
    /// # Errors
    /// If there is no value: the loader has failed, or panicked on the executor, or the hard limit
    /// has come.
    ///
    /// # Panics
    /// If the loader panics on this thread, or asks so for the very key that it loads. A loader
    /// that reloads gets the stale value.
    ///
    /// ```
    /// use cortado::{Cache, Job, LoadError, LoadLimits, Loaded};
    /// use std::{sync::mpsc::channel, time::Duration};
    ///
    /// let (jobs, queue) = channel::<Job>();
    /// let squares = Cache::builder()
    ///     .executor(move |job| drop(jobs.send(job)))
    ///     .build_with_loader(|n: &u64| Ok::<_, ()>(Loaded::new(n * n)));
    /// let limits = LoadLimits { soft: Duration::ZERO, hard: Duration::from_millis(5) };
    /// // No thread runs the jobs.
    /// assert_eq!(squares.get_within(&7, limits), Err(LoadError::TimedOut));
    /// queue.recv().unwrap()();
    /// assert_eq!(squares.get_within(&7, limits), Ok(49));
    /// ```
    pub fn get_within(&self, key: &K, limits: LoadLimits) -> Result<V, LoadError<E>>
    where
        V: Clone,
    {
        // A time limit that overflows is as good as none.
        let begun = Instant::now();
        let (soft, hard) = (begun.checked_add(limits.soft), begun.checked_add(limits.hard));
        let engine = self.cache.engine();
        let (found, made) = self.cache.read_entry(key);
        if let Some(entry) = found {
            // A time limit that is `None` never comes.
            engine.await_reload(entry.node(), soft.into_iter().chain(hard).min());
            drop(entry);
            if let Some(present) = self.after_reload(key, made.flatten()) {
                return Ok(present.into_value());
            }
        }
        let loader = Arc::clone(&self.loader);
        match engine.load_until(key, move |key: &K| loader.load(key), hard) {
            Waited::Loaded(Ok(entry)) => Ok(entry.into_value()),
            Waited::Loaded(Err(error)) => Err(LoadError::Failed(error)),
            Waited::Panicked => Err(LoadError::Panicked),
            Waited::TimedOut => Err(LoadError::TimedOut),
        }
    }

    /// Returns the failure of the last reload of the key's entry. `None` if that reload succeeded,
    /// if there was none, or if the key has no living entry.
    ///
    /// Leaves no trace, like [`peek`](Cache::peek).
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static IS_UP: AtomicBool = AtomicBool::new(true);
    /// let load = |_: &&str| match IS_UP.load(Ordering::Relaxed) {
    ///     true => Ok(Loaded::new(7)),
    ///     false => Err("no answer"),
    /// };
    /// let settings = Cache::builder().refresh_inline(true).build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(7));
    /// IS_UP.store(false, Ordering::Relaxed);
    /// settings.refresh(&"k");
    /// assert_eq!(settings.get(&"k"), Ok(7)); // the old value stays
    /// let failure = settings.last_failure("k").unwrap();
    /// assert_eq!((failure.error().map(|it| **it), failure.times()), (Some("no answer"), 1));
    /// ```
    pub fn last_failure<Q>(&self, key: &Q) -> Option<ReloadFailure<E>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.engine().last_failure(key)
    }
}

/// Time limits of a call that may have to wait for a loader; see [`LoadingCache::get_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Past this, a caller takes the stale value, if there is one. (Past `hard`, if that is
    /// sooner.)
    pub soft: Duration,
    /// Past this, a call without a value fails.
    pub hard: Duration,
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

/// Compile-time check: a handle may go to another thread.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<LoadingCache<String, String, String>>();
};
