//! Doors of a cache, for tests, fuzzers and benches.

use crate::cache::Cache;
use crate::pool::RawPool;

impl<K, V, S> Cache<K, V, S> {
    /// Runs all maintenance, then recounts every invariant. The cache must be at rest.
    ///
    /// # Panics
    /// If an invariant does not hold.
    #[doc(hidden)]
    pub fn audit(&self) {
        if let Err(why) = self.engine().audit() {
            panic!("audit: {why}");
        }
    }

    /// Returns whether reads ask the expiry policy.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn has_read_hook(&self) -> bool {
        self.engine().has_read_hook()
    }

    /// Returns the pool, which holds the memory of the cache's nodes.
    #[doc(hidden)]
    #[must_use]
    pub fn pool(&self) -> &RawPool {
        &self.engine().core.pool
    }

    /// Returns how many retired tables of the index still have memory.
    #[doc(hidden)]
    #[must_use]
    pub fn retired_tables(&self) -> usize {
        self.engine().core.index.retired_tables()
    }

    /// Returns how many buckets the index has, and how many of them have an overflow, be it empty
    /// or not.
    #[doc(hidden)]
    #[must_use]
    pub fn overflows(&self) -> (usize, usize) {
        let (index, guard) = (&self.engine().core.index, crate::epoch::pin());
        (index.buckets(&guard), index.overflows(&guard))
    }
}
