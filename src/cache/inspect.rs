//! Questions about a cache as a whole.

use super::Cache;
use crate::stats::Stats;
use std::time::Duration;

impl<K, V, S> Cache<K, V, S> {
    /// Returns the name that the builder gave the cache.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.engine().name()
    }

    /// Returns the number of entries as of the last maintenance.
    ///
    /// Writes of the last moment may not be counted yet, and expired entries count until they are
    /// removed. After [`run_pending_tasks`](Self::run_pending_tasks) the number is exact.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.engine().core.entries()
    }

    /// Returns the weight of all entries together; otherwise like
    /// [`entry_count`](Self::entry_count).
    ///
    /// Without a weigher it equals the number of entries.
    #[must_use]
    pub fn weighted_size(&self) -> u64 {
        self.engine().core.weight()
    }

    /// Returns the bound that the builder set; `None` if there is none.
    #[must_use]
    pub fn max_capacity(&self) -> Option<u64> {
        self.engine().core.capacity()
    }

    /// Returns what the cache has done so far, if the builder said `record_stats(true)`; otherwise
    /// only its size.
    ///
    /// ```
    /// use cortado::{Cache, RemovalCause};
    ///
    /// let cache = Cache::builder().max_capacity(10).record_stats(true).build();
    /// cache.insert("k", 1);
    /// cache.get("k");
    /// cache.get("other");
    /// cache.remove("k");
    /// let stats = cache.stats();
    /// assert_eq!((stats.hits, stats.misses, stats.insertions), (1, 1, 1));
    /// assert_eq!(stats.removed(RemovalCause::Explicit), 1);
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine().core.stats()
    }

    /// Returns the time until the maintenance has an entry to expire, as of the last maintenance.
    ///
    /// `None` means that nothing is to expire. The returned time ends at the latest one tick
    /// ([`expiry_resolution`](crate::Builder::expiry_resolution)) after the earliest deadline. It
    /// may end earlier where deadlines are far off or were extended.
    ///
    /// It serves programs that run [`run_pending_tasks`](Self::run_pending_tasks) on a timer of
    /// their own.
    #[must_use]
    pub fn next_expiration(&self) -> Option<Duration> {
        self.engine().core.next_expiration()
    }
}
