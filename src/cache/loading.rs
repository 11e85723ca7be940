//! Caches with a stored loader.

use super::Cache;
use crate::entry::Entry;
use crate::error::LoadError;
use crate::loaded::LoadedMany;
use crate::loader::{Loader, ReloadFailure};
use crate::primitives::time::{Duration, Instant};
use crate::stats::Stats;
use crate::to_key::ToKey;
use equivalent::Equivalent;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// A [`Cache`] that makes missing values itself, by a stored [`Loader`], and reloads stale ones.
///
/// [`Builder::build_with_loader`](crate::Builder::build_with_loader) makes one. The [`Cache`] below
/// it, by [`cache()`](Self::cache), has all other operations. Its reads trigger reloads, too, and
/// load nothing.
///
/// Like a `Cache` it is a handle: cloning it is cheap, and all clones are the same cache.
pub struct LoadingCache<K, V, E, S = ahash::RandomState> {
    pub(crate) cache: Cache<K, V, S>,
    pub(crate) loader: Arc<dyn Loader<K, V, Error = E>>,
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
    /// Returns a clone of the key's value; if the key has none, the loader makes one.
    ///
    /// A load runs in the call that needs it. It is one of [`Cache::try_get_with`]: one caller runs
    /// the loader, and the others share its outcome.
    ///
    /// A stale value is returned at once, and one of its readers hands a reload to the executor
    /// ([`refresh_after_write`](crate::Builder::refresh_after_write)). If the executor runs jobs at
    /// once, the reload runs in this call, which then looks at the key again:
    ///
    /// * If the key has a value, it returns that: the new one or, after a failed reload, the old
    ///   one.
    /// * If the key has none, it returns what the reload made, which the cache did not keep.
    /// * If there is neither, since the old value has ended, was removed or is
    ///   [gone](crate::Reloaded::gone), it loads the key.
    ///
    /// *Blocking*: waits for the loader, and for a load or computation of the key that is under
    /// way, if the key has no value. A hit waits for nothing but an executor that runs jobs at
    /// once.
    ///
    /// # Errors
    /// The loader's error in a load. The error of a failed reload is not returned: while the old
    /// value lives, the call returns that, also if [`make_stale`](Cache::make_stale) overtakes the
    /// reload.
    ///
    /// # Panics
    /// If the loader panics in a load, or loads or computes the key that it loads.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    ///
    /// let squares = Cache::builder().build_with_loader(|n: u64| Ok::<_, ()>(Loaded::new(n * n)));
    /// assert_eq!(squares.get(&7), Ok(49));
    /// ```
    pub fn get<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<V, Arc<E>>
    where
        V: Clone,
    {
        let engine = &self.cache.inner;
        let hashed = engine.hashed(key);
        match engine.read_clone_only(hashed) {
            (Some(value), false) => return Ok(value),
            (Some(value), true) => {
                let Some(made) = engine.after_own_read() else { return Ok(value) };
                if let Some(present) = engine.entry_after_reload(hashed, made) {
                    return Ok(present.into_value());
                }
            }
            (None, true) => engine.after_read(),
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
    ///     .build_with_loader(|word: String| Ok::<_, ()>(Loaded::new(word.len())));
    /// let entry = lengths.get_entry("four").unwrap();
    /// assert_eq!((entry.key().as_str(), *entry), ("four", 4));
    /// ```
    pub fn get_entry<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<Entry<K, V>, Arc<E>> {
        match self.cache.read_entry(key) {
            (Some(entry), None) => return Ok(entry),
            (Some(_), Some(made)) => {
                let engine = &self.cache.inner;
                if let Some(present) = engine.entry_after_reload(engine.hashed(key), made) {
                    return Ok(present);
                }
            }
            (None, _) => {}
        }
        self.load_uncounted(key.to_key())
    }

    /// Loads a key that a read has just found without a value.
    fn load_uncounted(&self, key: K) -> Result<Entry<K, V>, Arc<E>> {
        self.load_until(None, key).expect("there is no deadline")
    }

    /// [`load_uncounted`](Self::load_uncounted), which waits for another call's load no longer than
    /// until `deadline`.
    fn load_until(&self, deadline: Option<Instant>, key: K) -> Option<Result<Entry<K, V>, Arc<E>>> {
        let wanted = key.clone();
        let engine = &self.cache.inner;
        engine.load_after_miss(engine.owned(key), || self.loader.load(&wanted), deadline)
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
    /// let squares = Cache::builder().build_with_loader(|n: u64| Ok::<_, ()>(Loaded::new(n * n)));
    /// squares.insert(3, 0);
    /// assert_eq!(squares.get_many(&[2, 3, 4]), Ok(vec![Some(4), Some(0), Some(16)]));
    /// ```
    pub fn get_many<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
    ) -> Result<Vec<Option<V>>, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized + 'q,
        V: Clone,
    {
        let loader =
            |keys: &[&K]| Ok(LoadedMany { pairs: self.loader.load_many(keys), absent: None });
        self.cache.inner.load_many(keys, loader)
    }

    /// Starts a reload of the key's value, stale or not; if the key has none, a load. Returns
    /// whether this call has started one: false if one of the key is under way, if too many reloads
    /// are ([`refresh_limit`](crate::Builder::refresh_limit)), or if more notifications wait than a
    /// limit allows.
    ///
    /// It runs on the executor ([where](crate::Builder::refresh_after_write)), and this call does
    /// not wait for it. Readers get the old value meanwhile. It is no read of the entry. A failure
    /// leaves the old value, and is counted. Until the executor runs a load, another call may start
    /// one as well. The load is skipped if the key then has a value, another load or a computation.
    /// Inside user code, and under a view, a later operation hands a reload to the executor. A load
    /// goes there at once, and no limit of notifications holds it back.
    ///
    /// # Panics
    /// If it is called by a hook, a weigher or the condition of a load or removal that is asked
    /// about this key. If the key has no value, and the executor panics when it gets the load.
    ///
    /// ```
    /// use cortado::{Cache, Job, Loaded};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let version = AtomicU32::new(0);
    /// let load = move |_: &str| Ok::<_, ()>(Loaded::new(version.fetch_add(1, Ordering::Relaxed)));
    /// let settings = Cache::builder().executor(|job: Job| job()).build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(0));
    /// assert!(settings.refresh(&"k"));
    /// assert_eq!(settings.get(&"k"), Ok(1));
    /// ```
    pub fn refresh<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        let loader = Arc::clone(&self.loader);
        self.cache.inner.refresh_key(self.cache.inner.hashed(key), move |key| loader.load(key))
    }

    /// Reloads the key's value, stale or not, and returns it; if the key has none, loads it.
    ///
    /// The reload runs on the executor, and this call waits for it, or for the one that is under
    /// way already. The call returns the *old* value
    ///
    /// * if the reload fails, or [`make_stale`](Cache::make_stale) overtakes it;
    /// * if none begins: too many are under way ([`refresh_limit`](crate::Builder::refresh_limit)),
    ///   more notifications wait than [`notification_limit`](crate::Builder::notification_limit)
    ///   allows, or the key has a computation or another load under way;
    /// * inside a load, a computation, a callback or a listener of any cache, and while the thread
    ///   holds a view: there the call waits for no reload.
    ///
    /// *Blocking*: it waits for the loader without a limit. On the only thread of the executor it
    /// would wait for itself.
    ///
    /// # Errors
    /// The loader's error in a load. The error of a failed reload is not returned: while the old
    /// value lives, the call returns that, also if [`make_stale`](Cache::make_stale) overtakes the
    /// reload.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let version = AtomicU32::new(0);
    /// let load = move |_: &str| Ok::<_, ()>(Loaded::new(version.fetch_add(1, Ordering::Relaxed)));
    /// let settings = Cache::builder().build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(0));
    /// assert_eq!(settings.reload(&"k"), Ok(1));
    /// ```
    pub fn reload<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<V, Arc<E>>
    where
        V: Clone,
    {
        let engine = &self.cache.inner;
        if let Some(entry) = self.cache.peek(key) {
            engine.refresh_node(entry.node());
            engine.await_reload(entry.node(), None);
            if let Some(present) = self.cache.peek(key) {
                return Ok(present.into_value());
            }
        }
        self.get(key)
    }

    /// Like [`get`](Self::get), with time limits, in real time, counted from the call.
    ///
    /// * A value that is not stale is returned at once.
    /// * If the value is stale, the call waits for its reload until `limits.soft`, and returns the
    ///   new value if it is there by then, else the stale one. The reload goes on.
    /// * If the key has no value, and another call loads it, this one waits for that until
    ///   `limits.hard`, and fails then.
    ///
    /// A limit interrupts no code: if this call runs the loader itself, for a key without a value,
    /// it returns when the loader does, also after `limits.hard`. Loads by an
    /// [`AsyncLoader`](crate::AsyncLoader) ([`future::LoadingCache`](crate::future::LoadingCache))
    /// run on the executor, and the caller can leave them.
    ///
    /// Inside a load, a computation, a callback or a listener of any cache, or while the thread
    /// holds a view, the call waits for no reload: it gets the stale value at once.
    ///
    /// # Errors
    /// If there is no value: the loader has failed, or the hard limit has come.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use cortado::{Cache, Clock, Job, LoadLimits, Loaded};
    /// use std::{sync::mpsc::channel, time::Duration};
    ///
    /// let ((clock, hand), (jobs, queue)) = (Clock::manual(), channel::<Job>());
    /// let pages = Cache::builder()
    ///     .refresh_after_write(Duration::from_secs(60))
    ///     .executor(move |job| drop(jobs.send(job)))
    ///     .clock(clock)
    ///     .build_with_loader(|n: u64| Ok::<_, ()>(Loaded::new(n * n)));
    /// pages.insert(7, 0);
    /// hand.advance(Duration::from_secs(60));
    /// let limits = LoadLimits { soft: Duration::from_millis(5), hard: Duration::from_secs(1) };
    /// assert_eq!(pages.get_within(&7, limits), Ok(0)); // nobody has run the job
    /// queue.recv().unwrap()();
    /// assert_eq!(pages.get_within(&7, limits), Ok(49));
    /// ```
    pub fn get_within<Q>(&self, key: &Q, limits: LoadLimits) -> Result<V, LoadError<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        // A time limit that overflows is as good as none.
        let begun = Instant::now();
        let (soft, hard) = (begun.checked_add(limits.soft), begun.checked_add(limits.hard));
        let engine = &self.cache.inner;
        let (found, made) = self.cache.read_entry(key);
        if let Some(entry) = found {
            if engine.is_being_renewed(entry.node()) {
                // A time limit that is `None` never comes.
                engine.await_reload(entry.node(), soft.into_iter().chain(hard).min());
            }
            let present = engine.entry_after_reload(engine.hashed(key), made.unwrap_or_default());
            if let Some(present) = present {
                return Ok(present.into_value());
            }
        }
        let loaded = self.load_until(hard, key.to_key()).ok_or(LoadError::TimedOut)?;
        loaded.map(Entry::into_value).map_err(LoadError::Failed)
    }

    /// Returns the failure of the last reload of the key's entry. `None` if that reload succeeded,
    /// if there was none, or if the key has no living entry.
    ///
    /// Leaves no trace, like [`peek`](Cache::peek).
    ///
    /// ```
    /// use cortado::{Cache, Job, Loaded};
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static IS_UP: AtomicBool = AtomicBool::new(true);
    /// let load = |_: &str| match IS_UP.load(Ordering::Relaxed) {
    ///     true => Ok(Loaded::new(7)),
    ///     false => Err("no answer"),
    /// };
    /// let settings = Cache::builder().executor(|job: Job| job()).build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(7));
    /// IS_UP.store(false, Ordering::Relaxed);
    /// settings.refresh(&"k"); // an executor that runs jobs at once has run it
    /// assert_eq!(settings.get(&"k"), Ok(7)); // the old value stays
    /// let failure = settings.last_failure("k").unwrap();
    /// assert_eq!((failure.error.as_deref(), failure.in_a_row), (Some(&"no answer"), 1));
    /// ```
    pub fn last_failure<Q>(&self, key: &Q) -> Option<ReloadFailure<E>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.inner.last_failure(self.cache.inner.hashed(key))
    }

    /// See [`Cache::insert`].
    pub fn insert(&self, key: K, value: V) {
        self.cache.insert(key, value);
    }

    /// See [`Cache::remove`]. It loads nothing.
    pub fn remove<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.cache.remove(key)
    }

    /// See [`Cache::invalidate`].
    pub fn invalidate<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) {
        self.cache.invalidate(key);
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
    pub fn run_pending_tasks(&self) {
        self.cache.run_pending_tasks();
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
