//! Loads: by closures; and by a guard, for callers who cannot put their load into a closure.

use super::Cache;
use crate::clock::ReadTimes;
use crate::engine::{PendingLoad, WithHasher};
use crate::entry::Entry;
use crate::key_source::OwnedKey;
use crate::loaded::{Loaded, LoaderResult};
use crate::macros::debug_fields;
use crate::to_key::ToKey;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns a clone of the key's value; if the key has none, `loader` makes one, and may say how
    /// long it lives.
    ///
    /// The loader returns a [`Loaded`], or an `Option` or a `Result` of it, and the call returns
    /// the same with the value in its place ([table](LoaderResult)). With `None` and with an error
    /// nothing is cached. (To cache that there is no value, or a failure, use an `Option`, an enum
    /// or a `Result` as the cache's value type, with a lifetime for each variant.)
    ///
    /// Only one caller at a time runs its `loader`. The others wait and share its result. The
    /// lookup counts as a read, like [`get`](Self::get). A stale value is returned, too.
    ///
    /// *Atomicity*: the value enters the cache as by [`insert`](Self::insert), with two exceptions:
    ///
    /// * If the key got a value meanwhile, the call returns that value instead.
    /// * If the key was removed or the cache cleared meanwhile, the callers get the value, but the
    ///   cache does not keep it. So a load that began before an invalidation never undoes it.
    ///
    /// A value that is not kept (also one with a lifetime of zero) is returned to all callers that
    /// waited for it. The listener is not told of a value that was overtaken by a removal, since it
    /// was never inside. As after an insert, it is told of a value with a lifetime of zero, and of
    /// one that is too heavy.
    ///
    /// *Other loads of the key*: a call waits for every load of its key, whatever method began it.
    /// If that load made no value, and its `None` or error does not fit what this call returns,
    /// this call runs its own `loader` next. An error fits if it has the same type.
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way.
    /// [`within`](Self::within) limits such a wait.
    ///
    /// *Callbacks*: `loader` runs on this thread, with no lock held, and may use the cache.
    ///
    /// # Panics
    /// A panic of `loader` reaches the caller of `load`, and the key is as before. One of the
    /// callers that waited runs its own `loader` next. Also panics if `loader` loads or
    /// computes its own key; it may read, insert or remove that key.
    ///
    /// ```
    /// use cortado::{Cache, Clock, Loaded};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let leases: Cache<&str, u32> = Cache::builder().clock(clock).build();
    /// let lease = leases.load("printer", || Loaded::with_ttl(1, Duration::from_secs(30)));
    /// assert_eq!(lease, 1);
    /// hand.advance(Duration::from_secs(30));
    /// assert_eq!(leases.load("printer", || Some(Loaded::new(2))), Some(2));
    /// ```
    pub fn load<R: LoaderResult<V>>(&self, key: K, loader: impl FnOnce() -> R) -> R::Shared<V>
    where
        V: Clone,
    {
        R::shared(self.inner.load_value(self.inner.source(OwnedKey(key)), loader))
    }

    /// Like [`load`](Self::load), but clones the key only to load.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::time::Duration;
    ///
    /// let leases: Cache<String, u32> = Cache::new(100);
    /// let lease = leases.load_by_ref("printer", || Loaded::with_ttl(1, Duration::from_secs(30)));
    /// assert_eq!(lease, 1);
    /// ```
    pub fn load_by_ref<Q, R: LoaderResult<V>>(
        &self,
        key: &Q,
        loader: impl FnOnce() -> R,
    ) -> R::Shared<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        R::shared(self.inner.load_value(self.inner.source(key), loader))
    }

    /// Returns a clone of the key's value; if the key has none, or one for which `replace_if`
    /// returns true, `loader` makes one, and may say how long it lives.
    ///
    /// `loader` gets the entry that its value will replace, or `None`. If it makes no value, that
    /// entry stays, and the call returns the loader's `None` or error.
    ///
    /// If `replace_if` returns true, the read counts as a miss, records no use, prolongs no life
    /// and triggers no reload. The exception is an entry that another call writes while
    /// `replace_if` is called: that entry is read first, and judged then. If `replace_if`
    /// returns false, a stale value is returned like any other. The key is cloned only to load.
    /// Otherwise like [`load`](Self::load).
    ///
    /// *Atomicity*: the value replaces the entry that was judged. If the key has got another one
    /// meanwhile, that one is judged: the call returns it if `replace_if` returns false, and else
    /// its own value, which the cache does not keep. A value that another call loads while this one
    /// waits for it is not judged.
    ///
    /// *Callbacks*: `replace_if` runs on this thread, with no lock held, once for each entry of the
    /// key that the call meets. It must not write the key: that write panics. It has the opposite
    /// sense of the condition of [`get_if`](Self::get_if).
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    ///
    /// let versions: Cache<&str, u32> = Cache::new(100);
    /// let at_least = |version: u32| {
    ///     versions.load_if(
    ///         &"config",
    ///         |old| Ok::<_, &str>(Loaded::new(old.map_or(1, |old| *old + 1))),
    ///         |found, _times| *found < version,
    ///     )
    /// };
    /// assert_eq!(at_least(1), Ok(1));
    /// assert_eq!(at_least(1), Ok(1));
    /// assert_eq!(at_least(2), Ok(2));
    /// ```
    pub fn load_if<Q, R: LoaderResult<V>>(
        &self,
        key: &Q,
        loader: impl FnOnce(Option<Entry<K, V>>) -> R,
        mut replace_if: impl FnMut(&V, ReadTimes) -> bool,
    ) -> R::Shared<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let entry = self.inner.load(self.inner.source(key), loader, Some(&mut replace_if));
        R::shared(entry.map(Entry::into_value))
    }
}

/// # Loads by moka's names
///
/// Each is a [`load`](Self::load) whose value lives as the cache's settings say. `..by_ref` clones
/// the key only to load.
impl<K: Hash + Eq, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// [`load`](Self::load) by a closure that makes the value.
    pub fn get_with(&self, key: K, init: impl FnOnce() -> V) -> V {
        self.load(key, || Loaded::new(init()))
    }

    /// [`load_by_ref`](Self::load_by_ref) by a closure that makes the value.
    pub fn get_with_by_ref<Q>(&self, key: &Q, init: impl FnOnce() -> V) -> V
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        self.load_by_ref(key, || Loaded::new(init()))
    }

    /// A load with a condition, as [`load_if`](Self::load_if) is, by a closure that makes the
    /// value.
    #[deprecated(note = "use `load_if`, or `entry(key).or_insert_with_if(..)`")]
    pub fn get_with_if(
        &self,
        key: K,
        init: impl FnOnce() -> V,
        replace_if: impl FnMut(&V) -> bool,
    ) -> V {
        self.entry(key).or_insert_with_if(init, replace_if).into_value()
    }

    /// [`load`](Self::load) by a closure that may make a value.
    pub fn optionally_get_with<F>(&self, key: K, init: F) -> Option<V>
    where
        F: FnOnce() -> Option<V>,
    {
        self.load(key, || init().map(Loaded::new))
    }

    /// [`load_by_ref`](Self::load_by_ref) by a closure that may make a value.
    pub fn optionally_get_with_by_ref<F, Q>(&self, key: &Q, init: F) -> Option<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: FnOnce() -> Option<V>,
    {
        self.load_by_ref(key, || init().map(Loaded::new))
    }

    /// [`load`](Self::load) by a closure that makes the value or fails.
    ///
    /// # Errors
    /// The error that `init` returned, of this call or of the one that it waited for.
    pub fn try_get_with<F, E>(&self, key: K, init: F) -> Result<V, Arc<E>>
    where
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
    {
        self.load(key, || init().map(Loaded::new))
    }

    /// [`load_by_ref`](Self::load_by_ref) by a closure that makes the value or fails.
    ///
    /// # Errors
    /// As [`try_get_with`](Self::try_get_with).
    pub fn try_get_with_by_ref<F, E, Q>(&self, key: &Q, init: F) -> Result<V, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
    {
        self.load_by_ref(key, || init().map(Loaded::new))
    }
}

/// The load of one key; see [`Cache::get_value_or_guard`].
///
/// Until the guard is used or dropped, other loads of the key wait for it, and so do `or_insert`
/// and the computations (`and_compute_with` and the like). Reads, inserts and removals do not.
/// Dropping the guard gives the load up, and one of the callers who wait for it loads next. (What
/// else belongs to the load, such as a permit, is the caller's: drop it first.) A guard that is
/// leaked ([`std::mem::forget`]) blocks loads of its key until the key is written or removed; loads
/// that wait already go on waiting.
///
/// A guard may go to another thread. It holds no lock and keeps no memory of removed entries. It
/// keeps the cache, as a handle on the cache does.
///
/// ```
/// use cortado::{Cache, Loaded, TimedOut};
/// use std::time::Duration;
///
/// let cache: Cache<String, u32> = Cache::new(100);
/// let guard = cache.get_value_or_guard("k").expect_err("the key has no value yet");
/// assert_eq!(guard.key(), "k");
///
/// // Another caller does not wait longer than it wants to.
/// let limit = Duration::ZERO;
/// let other = cache.within(limit, async |cache| cache.get_value_or_guard("k").await);
/// assert!(matches!(other, Err(TimedOut)));
///
/// let entry = guard.insert(Loaded::with_ttl(7, Duration::from_secs(60)));
/// assert!(entry.is_fresh());
/// ```
#[must_use = "dropping the guard gives the load up"]
pub struct LoadGuard<K, V, S = ahash::RandomState> {
    cache: Arc<WithHasher<K, V, S>>,
    /// `None` once the guard was used.
    load: Option<PendingLoad<K, V>>,
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns a clone of the key's value; if the key has none, returns a guard that loads it.
    ///
    /// Only one caller at a time gets the guard. The others wait until it is used or dropped;
    /// [`within`](Self::within) limits such a wait. The lookup counts as a read, like
    /// [`get`](Self::get).
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way. A thread that asks
    /// for a key whose guard it holds waits for itself, for ever. A listener that asks for the key
    /// on that thread waits in the same way. Where a
    /// [`notification_limit`](crate::Builder::notification_limit) holds writers back, it does so
    /// before this call returns the guard, and not when the guard is used.
    ///
    /// # Errors
    /// The guard, if the key has no value.
    ///
    /// ```
    /// let cache: cortado::Cache<String, u32> = cortado::Cache::new(100);
    /// let value = match cache.get_value_or_guard("k") {
    ///     Ok(value) => value,
    ///     Err(guard) => {
    ///         let value = 7; // any number of statements, with `?` and `await`
    ///         guard.insert(value).into_value()
    ///     }
    /// };
    /// assert_eq!((value, cache.get("k")), (7, Some(7)));
    /// ```
    pub fn get_value_or_guard<Q>(&self, key: &Q) -> Result<V, LoadGuard<K, V, S>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        match self.inner.value_or_load(self.inner.hashed(key)) {
            Ok(entry) => Ok(entry.into_value()),
            Err(load) => Err(LoadGuard::new(self, load)),
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> LoadGuard<K, V, S> {
    /// Ends the load with this value, as [`Cache::get_with`] does: the callers who waited get it,
    /// and the cache keeps it unless the key was written, removed or cleared meanwhile.
    ///
    /// Returns the key's entry. [`is_fresh`](Entry::is_fresh) tells whether it is this value.
    ///
    /// *Blocking*: waits for no load, no computation and no delivery; for the rest as
    /// [`Cache::insert`]. A listener that awaits is told by the next operation of a task.
    ///
    /// *Callbacks*: weigher and expiry policy, as for an insert.
    ///
    /// # Panics
    /// A panic of the weigher, the expiry policy or the clock reaches the caller. The load is given
    /// up, and the key is as before.
    pub fn insert(mut self, value: impl Into<Loaded<V>>) -> Entry<K, V> {
        let load = self.load.take().expect("a guard is used once");
        self.cache.finish_pending(load, value.into())
    }
}

impl<K, V, S> LoadGuard<K, V, S> {
    pub(crate) fn new(cache: &Cache<K, V, S>, load: PendingLoad<K, V>) -> Self {
        Self { cache: Arc::clone(&cache.inner), load: Some(load) }
    }

    /// The key that is being loaded.
    #[must_use]
    pub fn key(&self) -> &K {
        self.load.as_ref().expect("a guard is used once").key()
    }
}

impl<K, V, S> Drop for LoadGuard<K, V, S> {
    fn drop(&mut self) {
        if let Some(load) = self.load.take() {
            self.cache.give_up_pending(load);
        }
    }
}

debug_fields!(impl[K: std::fmt::Debug, V, S] LoadGuard<K, V, S>, |it| key: it.key());
