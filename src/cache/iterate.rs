//! Iteration.

use super::Cache;
use crate::entry::Entry;
use crate::iter::{Iter, Keys, Values};
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Iterates over handles on the living entries, in no particular order.
    ///
    /// *Consistency*: weak.
    ///
    /// * A key that is there from beginning to end is returned exactly once, however often it is
    ///   updated. Its value is one that it had meanwhile.
    /// * A key that comes or goes meanwhile may or may not be returned.
    /// * Expired entries are never returned.
    ///
    /// Iteration counts as no read.
    ///
    /// *Blocking*: none. An iterator may be kept as long as you like.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// (0..10).for_each(|n| cache.insert(n, n * n));
    /// let sum: i32 = cache.iter().map(|entry| *entry.value()).sum();
    /// assert_eq!(sum, 285);
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V, S> {
        Iter::new(self.engine())
    }

    /// Iterates over clones of the keys of living entries; otherwise like [`iter`](Self::iter).
    pub fn keys(&self) -> Keys<'_, K, V, S>
    where
        K: Clone,
    {
        Keys::new(self.iter())
    }

    /// Iterates over clones of the values of living entries; otherwise like [`iter`](Self::iter).
    pub fn values(&self) -> Values<'_, K, V, S>
    where
        V: Clone,
    {
        Values::new(self.iter())
    }
}

impl<'c, K, V, S> IntoIterator for &'c Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    type Item = Entry<K, V>;
    type IntoIter = Iter<'c, K, V, S>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
