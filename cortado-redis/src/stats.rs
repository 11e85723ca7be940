//! What the cache has done.

use crate::key::RedisKey;
use crate::tier::Inner;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(pub $name: AtomicU64,)+
        }

        /// What a cache has done since it was built: [`TieredCache::stats`](crate::TieredCache::stats).
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)+
            /// Messages of the server that keys have changed, flushes included.
            pub pushes: u64,
            /// Keys that they named.
            pub pushed_keys: u64,
            /// Messages that everything has changed (`FLUSHALL`).
            pub flushes: u64,
            /// Connections made.
            pub connects: u64,
            /// Connections lost. There is a connection if these are one less than those made.
            pub losses: u64,
            /// Requests to the server, without heartbeats.
            pub exchanges: u64,
            /// Those that failed.
            pub failures: u64,
            /// Of the local level, in its own terms: an entry is a value of the server's, or that
            /// it has none. A read that asks the server has missed here more than once. Most
            /// counts need [`record_stats`](crate::Builder::record_stats).
            pub local: cortado::Stats,
        }

        impl Counts {
            fn stats(&self) -> Stats {
                Stats {
                    $($name: self.$name.load(Ordering::Relaxed),)+
                    ..Stats::default()
                }
            }
        }

        #[cfg(feature = "metrics")]
        impl Stats {
            /// Each count, under its name as a metric.
            pub(crate) fn named(&self) -> Vec<(&'static str, u64)> {
                vec![
                    $((concat!("cortado_redis.", stringify!($name)), self.$name),)+
                    ("cortado_redis.pushes", self.pushes),
                    ("cortado_redis.pushed_keys", self.pushed_keys),
                    ("cortado_redis.flushes", self.flushes),
                    ("cortado_redis.connects", self.connects),
                    ("cortado_redis.losses", self.losses),
                    ("cortado_redis.exchanges", self.exchanges),
                    ("cortado_redis.failures", self.failures),
                ]
            }
        }
    };
}

counts! {
    /// Reads of the server for a key: what the local level missed.
    fetches,
    /// Those that found a value.
    found,
    /// Loaders that ran, refreshes included.
    loads,
    /// Loaders that failed.
    load_failures,
    /// Loaded values that were not stored, because the key was written or removed meanwhile.
    overtaken_loads,
    /// Waits for a load of another process, or for one of this that began before.
    lease_waits,
    /// Stale values that were returned.
    stale_served,
    /// Loaders that ran ahead of a value's end, those that failed included.
    refreshes,
    /// Writes, removals and changes of lifetimes.
    writes,
    /// Those that failed, and loaded values whose storing did.
    write_failures,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    pub fn stats(&self) -> Stats {
        let link = &self.link.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            pushes: of(&link.pushes),
            pushed_keys: of(&link.pushed_keys),
            flushes: of(&link.flushes),
            connects: of(&link.connects),
            losses: of(&link.losses),
            exchanges: of(&link.exchanges),
            failures: of(&link.failures),
            local: self.local.sync().stats(),
            ..self.counts.stats()
        }
    }
}
