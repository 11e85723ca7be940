//! Loads by a guard, for callers who cannot put their load into a closure.

use super::Cache;
use crate::engine::{PendingLoad, WithHasher};
use crate::entry::Entry;
use crate::loaded::Loaded;
use crate::macros::debug_fields;
use crate::to_key::ToKey;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

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

debug_fields!(impl[K: fmt::Debug, V, S] LoadGuard<K, V, S>, |it| key: it.key());
