//! Iteration.

use super::Cache;
use crate::entry::{Entry, Key};
use crate::iter::{Entries, Iter};
use std::cmp::Reverse;
use std::hash::{BuildHasher, Hash};
use std::iter::{FusedIterator, from_fn};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Iterates over the living entries, in no particular order: handles on their keys and clones
    /// of their values. [`entries`](Self::entries) clones nothing.
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
    /// cache.insert_many((0..10).map(|n| (n, n * n)));
    /// let mut sum = 0;
    /// for (n, square) in &cache {
    ///     assert_eq!(*n * *n, square);
    ///     sum += square;
    /// }
    /// assert_eq!(sum, 285);
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V>
    where
        V: Clone,
    {
        Iter(self.entries())
    }

    /// Iterates over handles on the living entries; otherwise like [`iter`](Self::iter).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k", vec![1, 2, 3]);
    /// let longest = cache.entries().max_by_key(|entry| entry.len()).unwrap();
    /// assert_eq!(*longest.key(), "k");
    /// ```
    pub fn entries(&self) -> Entries<'_, K, V> {
        Entries::new(&self.inner)
    }

    /// Returns handles on the entries that expire next, the soonest first; at most `limit`.
    ///
    /// Entries that never expire are left out. The call looks at every entry, like
    /// [`entries`](Self::entries).
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::Duration;
    ///
    /// let leases = Cache::new(100);
    /// for n in 1..=9 {
    ///     leases.insert_with_ttl(n, (), Duration::from_secs(60 * n));
    /// }
    /// let next: Vec<_> = leases.soonest_to_expire(2).iter().map(|lease| *lease.key()).collect();
    /// assert_eq!(next, [1, 2]);
    /// ```
    pub fn soonest_to_expire(&self, limit: usize) -> Vec<Entry<K, V>> {
        least(self.entries().filter(|entry| entry.expires_in().is_some()), limit, |entry| {
            entry.deadline()
        })
    }

    /// Returns handles on the entries that expire last, the latest first; at most `limit`. Entries
    /// that never expire come first. Otherwise like
    /// [`soonest_to_expire`](Self::soonest_to_expire).
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::Duration;
    ///
    /// let leases = Cache::new(100);
    /// leases.insert("for ever", ());
    /// leases.insert_with_ttl("an hour", (), Duration::from_secs(3600));
    /// leases.insert_with_ttl("a minute", (), Duration::from_secs(60));
    /// let last: Vec<_> = leases.latest_to_expire(2).iter().map(|lease| *lease.key()).collect();
    /// assert_eq!(last, ["for ever", "an hour"]);
    /// ```
    pub fn latest_to_expire(&self, limit: usize) -> Vec<Entry<K, V>> {
        least(self.entries(), limit, |entry| Reverse(entry.deadline()))
    }

    /// Iterates over clones of the keys of living entries; otherwise like [`iter`](Self::iter).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2)]);
    /// let mut keys: Vec<_> = cache.keys().collect();
    /// keys.sort();
    /// assert_eq!(keys, ["a", "b"]);
    /// ```
    pub fn keys(&self) -> impl FusedIterator<Item = K>
    where
        K: Clone,
    {
        let mut entries = self.entries();
        from_fn(move || entries.next_node().map(|node| node.key().clone())).fuse()
    }

    /// Iterates over clones of the values of living entries; otherwise like [`iter`](Self::iter).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2)]);
    /// assert_eq!(cache.values().sum::<i32>(), 3);
    /// ```
    pub fn values(&self) -> impl FusedIterator<Item = V>
    where
        V: Clone,
    {
        let mut entries = self.entries();
        from_fn(move || entries.next_node().map(|node| node.value().clone())).fuse()
    }

    /// Returns handles on the entries that the eviction policy would keep longest, the best first;
    /// at most `limit`. A cache without a bound has no such order and returns none.
    ///
    /// Entries of the last moment, which no maintenance has seen, are left out.
    ///
    /// *Blocking*: waits for a maintenance pass that is running, and holds passes up for as long as
    /// it takes to collect `limit` entries. Reads and writes go on.
    pub fn hottest(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.inner.hottest(limit)
    }

    /// Returns handles on the entries that the eviction policy would evict first, in about that
    /// order; at most `limit`. Otherwise like [`hottest`](Self::hottest).
    ///
    /// ```
    /// use cortado::{Cache, EvictionPolicy};
    ///
    /// let cache = Cache::builder().max_capacity(3).eviction_policy(EvictionPolicy::lru()).build();
    /// cache.insert_many([("a", 1), ("b", 2), ("c", 3)]);
    /// cache.run_pending_tasks();
    /// assert_eq!(*cache.coldest(1)[0].key(), "a");
    /// ```
    pub fn coldest(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.inner.coldest(limit)
    }
}

impl<'c, K: Hash + Eq, V: Clone, S: BuildHasher> IntoIterator for &'c Cache<K, V, S> {
    type Item = (Key<K, V>, V);
    type IntoIter = Iter<'c, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The `limit` entries with the least rank, in order. Holds at most twice as many at a time.
fn least<K, V, R: Ord>(
    entries: impl Iterator<Item = Entry<K, V>>,
    limit: usize,
    rank: impl Fn(&Entry<K, V>) -> R,
) -> Vec<Entry<K, V>> {
    let mut least = Vec::new();
    for entry in entries {
        least.push(entry);
        if least.len() >= limit.saturating_mul(2).max(64) {
            least.sort_by_key(&rank);
            least.truncate(limit);
        }
    }
    least.sort_by_key(&rank);
    least.truncate(limit);
    least
}
