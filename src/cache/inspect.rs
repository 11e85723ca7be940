//! What can be asked about a cache.

use super::Cache;
use crate::clock::NEVER;
use crate::stats::Stats;
use std::time::Duration;

impl<K, V, S> Cache<K, V, S> {
    /// The name that the builder gave it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.engine().name()
    }

    /// How many entries there are, as of the last maintenance: writes of the last moment may not be
    /// counted yet, and expired entries count until they are removed. After
    /// [`run_pending_tasks`](Self::run_pending_tasks) it is exact.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.engine().core.entries()
    }

    /// The weight of all entries together; otherwise as [`entry_count`](Self::entry_count), which
    /// it equals without a weigher.
    #[must_use]
    pub fn weighted_size(&self) -> u64 {
        self.engine().core.weight()
    }

    /// The bound that the builder set; `None` without one.
    #[must_use]
    pub fn max_capacity(&self) -> Option<u64> {
        let core = &self.engine().core;
        core.bounded.then_some(core.max_capacity)
    }

    /// What the cache has done so far, if the builder said `record_stats(true)`; otherwise only its
    /// size.
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

    /// How long until the maintenance has an entry to expire, as of the last maintenance: at the
    /// latest one tick ([`expiry_resolution`](crate::Builder::expiry_resolution)) after the
    /// earliest deadline, possibly earlier where deadlines are far or were extended. `None` if
    /// nothing is to expire. For a program that runs
    /// [`run_pending_tasks`](Self::run_pending_tasks) on a timer of its own.
    #[must_use]
    pub fn next_expiration(&self) -> Option<Duration> {
        let core = &self.engine().core;
        let due = core.next_due();
        (due != NEVER).then(|| Duration::from_nanos(due.saturating_sub(core.ticker.now())))
    }
}
