//! Loads by a guard, for callers who cannot put their load into a closure.

use super::Cache;
use crate::engine::{Engine, PendingLoad};
use crate::entry::Entry;
use crate::loaded::Loaded;
use crate::macros::debug_fields;
use crate::to_key::ToKey;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What [`Cache::get_value_or_guard`] returns.
#[derive(Debug)]
#[must_use = "dropping the guard gives the load up"]
pub enum GuardResult<K, V, S = ahash::RandomState> {
    /// A clone of the key's value.
    Value(V),
    /// The key has no value, and this call is the one that loads it.
    Guard(LoadGuard<K, V, S>),
    /// Another call's load did not end in time.
    Timeout,
}

/// The load of one key; see [`Cache::get_value_or_guard`].
///
/// Until the guard is used or dropped, other loads of the key wait for it. Writes and reads of the
/// key do not wait. Dropping the guard gives the load up, and one of the callers who wait for it
/// loads next. (What else belongs to the load, such as a permit, is the caller's: drop it first.)
/// A guard that is leaked ([`std::mem::forget`]) blocks loads of its key until the key is written
/// or removed; loads that wait already go on waiting, up to their time limits.
///
/// A guard may go to another thread. It holds no lock and keeps no memory of removed entries. It
/// keeps the cache, as a handle on the cache does.
///
/// ```
/// use cortado::{Cache, GuardResult};
/// use std::time::Duration;
///
/// let cache: Cache<String, u32> = Cache::new(100);
/// let GuardResult::Guard(guard) = cache.get_value_or_guard("k", None) else {
///     panic!("the key has no value yet");
/// };
/// assert_eq!(guard.key(), "k");
///
/// // Another caller does not wait longer than it wants to.
/// let other = cache.get_value_or_guard("k", Some(Duration::ZERO));
/// assert!(matches!(other, GuardResult::Timeout));
///
/// let entry = guard.insert_with_ttl(7, Duration::from_secs(60));
/// assert!(entry.is_fresh());
/// ```
#[must_use = "dropping the guard gives the load up"]
pub struct LoadGuard<K, V, S = ahash::RandomState> {
    engine: Arc<Engine<K, V, S>>,
    /// `None` once the guard was used.
    load: Option<PendingLoad<K, V>>,
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns a clone of the key's value; if the key has none, returns a guard that loads it.
    ///
    /// Only one caller at a time gets the guard. The others wait until it is used or dropped, or
    /// for `timeout`, if there is one; `Some(Duration::ZERO)` does not wait at all. `timeout` is in
    /// real time, whatever the cache's [`Clock`](crate::Clock). The lookup counts as a read, like
    /// [`get`](Self::get).
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way. A thread that asks
    /// for a key whose guard it holds waits for itself: without a `timeout`, forever. A
    /// listener that asks for the key on that thread waits in the same way.
    ///
    /// ```
    /// use cortado::{Cache, GuardResult};
    ///
    /// let cache: Cache<String, u32> = Cache::new(100);
    /// let GuardResult::Guard(guard) = cache.get_value_or_guard("k", None) else {
    ///     panic!("the key has no value yet");
    /// };
    /// let value = 7; // any number of statements, with `?` and `await`
    /// guard.insert(value);
    /// assert!(matches!(cache.get_value_or_guard("k", None), GuardResult::Value(7)));
    /// ```
    pub fn get_value_or_guard<Q>(&self, key: &Q, timeout: Option<Duration>) -> GuardResult<K, V, S>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        // A time limit that overflows is as good as none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match self.engine().value_or_load(key, deadline) {
            Some(Ok(entry)) => GuardResult::Value(entry.into_value()),
            Some(Err(load)) => {
                GuardResult::Guard(LoadGuard { engine: Arc::clone(&self.engine), load: Some(load) })
            }
            None => GuardResult::Timeout,
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> LoadGuard<K, V, S> {
    /// Ends the load with this value, as [`Cache::get_with`] does: the callers who waited get it,
    /// and the cache keeps it unless the key was written, removed or cleared meanwhile.
    ///
    /// Returns the key's entry. [`is_fresh`](Entry::is_fresh) tells whether it is this value.
    ///
    /// *Callbacks*: weigher and expiry policy, as for an insert.
    pub fn insert(self, value: V) -> Entry<K, V> {
        self.insert_loaded(Loaded::new(value))
    }

    /// Ends the load with a value that has a lifetime of its own; otherwise like
    /// [`insert`](Self::insert).
    pub fn insert_with_ttl(self, value: V, ttl: Duration) -> Entry<K, V> {
        self.insert_loaded(Loaded::with_ttl(value, ttl))
    }

    fn insert_loaded(mut self, loaded: Loaded<V>) -> Entry<K, V> {
        let load = self.load.take().expect("a guard is used once");
        self.engine.finish_pending(load, loaded)
    }
}

impl<K, V, S> LoadGuard<K, V, S> {
    /// The key that is being loaded.
    #[must_use]
    pub fn key(&self) -> &K {
        self.load.as_ref().expect("a guard is used once").key()
    }
}

impl<K, V, S> Drop for LoadGuard<K, V, S> {
    fn drop(&mut self) {
        if let Some(load) = self.load.take() {
            self.engine.give_up_pending(load);
        }
    }
}

debug_fields!(impl[K: fmt::Debug, V, S] LoadGuard<K, V, S>, |it| key: it.key());
