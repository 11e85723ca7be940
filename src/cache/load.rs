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
    /// A clone of the key's value; if it has none, `init` makes one, and only one caller at a time
    /// runs it: the others wait and share its result.
    ///
    /// The value enters the cache as by [`insert`](Self::insert), unless the key got a value
    /// meanwhile, which is then returned instead, or unless the key was removed or the cache
    /// cleared meanwhile: then the callers get the value but it is not kept, so that a load that
    /// began before an invalidation never undoes it. A value that is not kept (also one with a
    /// lifetime of zero) is returned to all who waited for it.
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way. `init` runs on
    /// this thread with no lock held and may use the cache.
    ///
    /// # Panics
    /// A panic of `init` reaches its caller; one of those who waited runs its own `init` next.
    /// Panics if `init` asks for the very key that it loads.
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

    /// The entry of a key, to insert or compute its value atomically.
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
    /// The key's entry; if it has none, `init` makes the value. As [`Cache::get_with`], but returns
    /// a handle, whose [`is_fresh`](Entry::is_fresh) tells whether this call's `init` made it.
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

    /// Looks at the key's living entry, decides, and does so, atomically with regard to every other
    /// operation on the key: other writes wait until `compute` has returned, and the maintenance
    /// neither evicts nor removes the entry meanwhile. (Reads do not wait. If the entry expires
    /// while `compute` runs, readers no longer see it. An
    /// [`invalidate_all`](Cache::invalidate_all) does not wait either: what is put in the place
    /// of an entry that it took goes at once, as `Explicit`.)
    ///
    /// *Callbacks*: `compute` runs once, on this thread, with no lock held; it may use the cache
    /// for other keys, and read this one. [`Op::Put`] asks weigher and expiry policy as an
    /// insert does.
    ///
    /// # Panics
    /// A panic of `compute` reaches the caller and the entry is as before. Panics if `compute`
    /// writes to its own key, which would wait for itself.
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
    /// Begins a load and gives it up; false if another is in the air.
    #[doc(hidden)]
    pub fn abandon_load(&self, key: K) -> bool {
        self.engine().abandon_load(key)
    }
}
