//! The names that programs know from moka's `sync`, for a change of `use` lines.

pub use crate::builder::Builder as CacheBuilder;
pub use crate::cache::{
    Cache, KeyEntry as OwnedKeyEntrySelector, KeyEntryByRef as RefKeyEntrySelector,
};
pub use crate::error::PredicateId;
pub use crate::iter::Iter;

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;

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

    /// Returns a builder of a [`Cache`]. The number of segments is ignored.
    pub fn builder(_num_segments: usize) -> CacheBuilder<K, V> {
        Cache::builder()
    }
}

impl<K, V, S> From<Cache<K, V, S>> for SegmentedCache<K, V, S> {
    fn from(cache: Cache<K, V, S>) -> Self {
        Self(cache)
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
