//! The names that programs know from moka's `sync`, for a change of `use` lines.

pub use crate::cache::Cache;
pub use crate::error::PredicateId;
pub use crate::iter::Iter;

use crate::builder::{BuildTarget, Builder, sealed};
use crate::cache::KeyEntry;
use crate::error::PredicateError;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;

/// The builder of a [`Cache`]; `C` is the type of cache that it builds.
pub type CacheBuilder<K, V, C = Cache<K, V>> = Builder<K, V, C>;

/// The name by which moka has a [`KeyEntry`] of an owned key.
pub type OwnedKeyEntrySelector<'c, K, V, S> = KeyEntry<'c, K, V, S>;

/// The name by which moka has a [`KeyEntry`] of a key by reference.
pub type RefKeyEntrySelector<'c, K, Q, V, S> = KeyEntry<'c, K, V, S, &'c Q>;

/// A cache that moka would split into segments. Here it is one [`Cache`], to which it
/// dereferences: its locks are those of single buckets.
///
/// ```
/// use cortado::sync::SegmentedCache;
///
/// let cache: SegmentedCache<&str, u32> = SegmentedCache::new(10_000, 8);
/// cache.insert("k", 1);
/// assert_eq!(cache.get("k"), Some(1));
///
/// let built = SegmentedCache::<&str, u32>::builder(8).max_capacity(10_000).build();
/// let cache = SegmentedCache::from(built);
/// assert_eq!(cache.policy().num_segments(), 1);
/// ```
pub struct SegmentedCache<K, V, S = crate::RandomState>(Cache<K, V, S>);

impl<K, V> SegmentedCache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Makes a cache; see [`Cache::new`]. The number of segments is ignored.
    #[must_use]
    pub fn new(max_capacity: u64, _num_segments: usize) -> Self {
        Self(Cache::new(max_capacity))
    }

    /// Returns a builder, which configures a cache. The number of segments is ignored.
    pub fn builder(_num_segments: usize) -> Builder<K, V, Self> {
        Builder::unset()
    }
}

impl<K, V> sealed::Sealed for SegmentedCache<K, V> {}

impl<K, V> BuildTarget<K, V> for SegmentedCache<K, V> {
    type Hashed<S> = SegmentedCache<K, V, S>;

    fn of_cache<S>(cache: Cache<K, V, S>) -> SegmentedCache<K, V, S> {
        SegmentedCache(cache)
    }
}

impl<K, V> CacheBuilder<K, V> {
    /// Makes the builder one of a [`SegmentedCache`]. The number of segments is ignored: a cache is
    /// not split.
    pub fn segments(self, _num_segments: usize) -> Builder<K, V, SegmentedCache<K, V>> {
        self.retarget()
    }
}

impl<K: Hash + Eq, V: Clone, S: BuildHasher> SegmentedCache<K, V, S> {
    /// See [`Cache::get_with`].
    #[deprecated(note = "use `get_with`")]
    pub fn get_or_insert_with(&self, key: K, init: impl FnOnce() -> V) -> V {
        self.0.get_with(key, init)
    }

    /// See [`Cache::try_get_with`].
    ///
    /// # Errors
    /// As [`Cache::try_get_with`].
    #[deprecated(note = "use `try_get_with`")]
    pub fn get_or_try_insert_with<F, E>(&self, key: K, init: F) -> Result<V, Arc<E>>
    where
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
    {
        self.0.try_get_with(key, init)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> SegmentedCache<K, V, S> {
    /// Like [`Cache::invalidate_entries_if`], with `()` in place of the id, as in moka.
    ///
    /// # Errors
    /// None.
    pub fn invalidate_entries_if(
        &self,
        predicate: impl FnMut(&K, &V) -> bool,
    ) -> Result<(), PredicateError> {
        self.0.invalidate_entries_if(predicate).map(drop)
    }
}

impl<K, V, S> Deref for SegmentedCache<K, V, S> {
    type Target = Cache<K, V, S>;

    fn deref(&self) -> &Cache<K, V, S> {
        &self.0
    }
}

impl<K, V, S> Clone for SegmentedCache<K, V, S> {
    /// Returns another handle on the same cache.
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, V, S> fmt::Debug for SegmentedCache<K, V, S>
where
    Cache<K, V, S>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'c, K: Hash + Eq, V: Clone, S: BuildHasher> IntoIterator for &'c SegmentedCache<K, V, S> {
    type Item = (crate::Key<K, V>, V);
    type IntoIter = Iter<'c, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
