//! Loads and computations.

use super::Cache;
use crate::compute::{CompResult, Op};
use crate::entry::Entry;
use std::fmt;
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Returns a clone of the key's value; if the key has none, `init` makes one.
    ///
    /// Only one caller at a time runs its `init`. The others wait and share its result. The lookup
    /// counts as a read, like [`get`](Self::get).
    ///
    /// *Atomicity*: the value enters the cache as by [`insert`](Self::insert), with two exceptions:
    ///
    /// * If the key got a value meanwhile, the call returns that value instead.
    /// * If the key was removed or the cache cleared meanwhile, the callers get the value, but the
    ///   cache does not keep it. So a load that began before an invalidation never undoes it.
    ///
    /// A value that is not kept (also one with a lifetime of zero) is returned to all callers who
    /// waited for it. The listener is not told of a value that was never inside.
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way.
    ///
    /// *Callbacks*: `init` runs on this thread, with no lock held, and may use the cache.
    ///
    /// # Panics
    /// A panic of `init` reaches its caller, and the key is as before. One of the callers who
    /// waited runs its own `init` next. Panics if `init` asks for the very key that it loads.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// assert_eq!(cache.get_with("k", || 7), 7);
    /// assert_eq!(cache.get_with("k", || unreachable!("it is there")), 7);
    /// ```
    pub fn get_with(&self, key: K, init: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        self.engine().load(key, init).into_value()
    }

    /// Returns the place of a key, to insert or compute its value atomically.
    #[must_use]
    pub fn entry(&self, key: K) -> KeyEntry<'_, K, V, S> {
        KeyEntry { cache: self, key }
    }
}

/// The place of one key in a cache; see [`Cache::entry`].
pub struct KeyEntry<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    key: K,
}

impl<K, V, S> KeyEntry<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Returns a handle on the key's entry; if the key has none, `init` makes the value.
    ///
    /// [`is_fresh`](Entry::is_fresh) tells whether this call's `init` made it. Otherwise like
    /// [`Cache::get_with`], but without a clone.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// let first = cache.entry("k").or_insert_with(|| 1);
    /// let second = cache.entry("k").or_insert_with(|| 2);
    /// assert!(first.is_fresh() && !second.is_fresh());
    /// assert_eq!(*second, 1);
    /// ```
    pub fn or_insert_with(self, init: impl FnOnce() -> V) -> Entry<K, V> {
        self.cache.engine().load(self.key, init)
    }

    /// Looks at the key's living entry, decides, and does what was decided, atomically.
    ///
    /// *Atomicity*: holds with regard to every other operation on the key. Other writes wait until
    /// `compute` has returned, and the maintenance neither evicts nor removes the entry meanwhile.
    /// Terms:
    ///
    /// * Reads do not wait. If the entry expires while `compute` runs, readers no longer see it.
    /// * An [`invalidate_all`](Cache::invalidate_all) does not wait either. If it took the entry, a
    ///   value that is put in the entry's place goes at once, as `Explicit`.
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way.
    ///
    /// *Callbacks*: `compute` runs once, on this thread, with no lock held. It may use the cache
    /// for other keys, and may read this one. [`Op::Put`] asks weigher and expiry policy as an
    /// insert does.
    ///
    /// # Panics
    /// A panic of `compute` reaches the caller, and the entry is as before. Panics if `compute`
    /// writes to its own key, since that write would wait for itself.
    ///
    /// ```
    /// use cortado::{Cache, CompResult, Op};
    ///
    /// let counters: Cache<&str, u64> = Cache::new(100);
    /// let count = |key| {
    ///     counters.entry(key).and_compute_with(|entry| Op::Put(entry.map_or(1, |n| *n + 1)))
    /// };
    /// assert!(matches!(count("a"), CompResult::Inserted(_)));
    /// assert!(matches!(count("a"), CompResult::ReplacedWith(n) if *n == 2));
    /// ```
    pub fn and_compute_with(
        self,
        compute: impl FnOnce(Option<Entry<K, V>>) -> Op<V>,
    ) -> CompResult<K, V> {
        self.cache.engine().compute(self.key, compute)
    }
}

impl<K: fmt::Debug, V, S> fmt::Debug for KeyEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntry").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(cortado_loom)]
impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Begins a load and abandons it; returns false if another flight of the key is in progress.
    #[doc(hidden)]
    pub fn abandon_load(&self, key: K) -> bool {
        self.engine().abandon_load(key)
    }
}
