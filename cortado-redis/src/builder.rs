//! The settings of a cache.

use crate::codec::Codec;
use crate::key::RedisKey;
use crate::link::{Coherence, Link, LinkSettings, Server};
use crate::tier::TieredCache;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// What happens to reads while the server cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Outage {
    /// They fail.
    #[default]
    Fail,
    /// They return the local copy, if it was known to be the server's value within this time, and
    /// fail otherwise.
    ServeStale {
        /// How long ago at most.
        at_most: Duration,
    },
}

/// The settings, but for the server's.
#[derive(Clone, Debug)]
pub struct Settings {
    pub ttl: Option<Duration>,
    pub negative_ttl: Duration,
    pub local_ttl: Option<Duration>,
    pub lease: Duration,
    pub outage: Outage,
    pub stale_on_error: Duration,
    pub soft_limit: Option<Duration>,
    pub hard_limit: Option<Duration>,
    pub refresh_ahead: Duration,
    pub max_value_bytes: usize,
}

impl Settings {
    /// How long past its end a local copy is kept.
    pub fn kept(&self) -> Duration {
        let outage = match self.outage {
            Outage::Fail => Duration::ZERO,
            Outage::ServeStale { at_most } => at_most,
        };
        outage.max(self.stale_on_error)
    }
}

/// Nothing that a program waits for takes longer.
const DAY: Duration = Duration::from_secs(86_400);

type Weigher<K, V> = Box<dyn Fn(&K, Option<&V>) -> u32 + Send + Sync>;

/// The settings of a [`TieredCache`]: [`TieredCache::builder`].
#[must_use]
pub struct Builder<K, V> {
    link: LinkSettings,
    settings: Settings,
    max_capacity: u64,
    weigher: Option<Weigher<K, V>>,
    values: PhantomData<fn() -> V>,
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Builder<K, V> {
    pub(crate) fn new(server: Server, name: &str) -> Self {
        let link = LinkSettings {
            server,
            coherence: Coherence::PerKey,
            prefix: format!("{name}:").into_bytes(),
            bound: Duration::from_secs(1),
            reply_within: Duration::from_millis(500),
            connect_within: Duration::from_secs(1),
        };
        let settings = Settings {
            ttl: None,
            negative_ttl: Duration::from_secs(10),
            local_ttl: None,
            lease: Duration::from_secs(10),
            outage: Outage::Fail,
            stale_on_error: Duration::ZERO,
            soft_limit: None,
            hard_limit: None,
            refresh_ahead: Duration::ZERO,
            max_value_bytes: 64 << 20,
        };
        Self { link, settings, max_capacity: 10_000, weigher: None, values: PhantomData }
    }

    /// How many entries the local level holds, or how much they may weigh. 10,000 by default.
    pub fn max_capacity(mut self, most: u64) -> Self {
        self.max_capacity = most;
        self
    }

    /// What a local entry weighs; its value is `None` where the server has none. 1 by default.
    pub fn weigher(
        mut self,
        weigher: impl Fn(&K, Option<&V>) -> u32 + Send + Sync + 'static,
    ) -> Self {
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// How the local level learns of changes. By key, by default.
    pub fn coherence(mut self, coherence: Coherence) -> Self {
        self.link.coherence = coherence;
        self
    }

    /// With tracking: how long a local copy is used at most after the server's last sign of life.
    /// So it bounds how old a value may be when the connection dies unnoticed. A quarter of it is
    /// the interval of heartbeats in an idle connection. 1 second by default, 100 ms at the least.
    pub fn staleness_bound(mut self, bound: Duration) -> Self {
        self.link.bound = bound.clamp(Duration::from_millis(100), DAY);
        self
    }

    /// How long an answer is waited for. 500 ms by default.
    pub fn reply_within(mut self, limit: Duration) -> Self {
        self.link.reply_within = limit.min(DAY);
        self
    }

    /// How long a connection may take. 1 second by default.
    pub fn connect_within(mut self, limit: Duration) -> Self {
        self.link.connect_within = limit.min(DAY);
        self
    }

    /// The lifetime of values that are loaded or inserted without one of their own. For ever, by
    /// default.
    pub fn time_to_live(mut self, ttl: Duration) -> Self {
        self.settings.ttl = Some(ttl);
        self
    }

    /// For how long the server keeps that the origin has no value
    /// ([`optionally_load`](TieredCache::optionally_load)). 10 seconds by default; with zero,
    /// nothing is kept.
    pub fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.settings.negative_ttl = ttl;
        self
    }

    /// How long a local copy lives at most. As long as the server's value, by default.
    pub fn local_ttl(mut self, ttl: Duration) -> Self {
        self.settings.local_ttl = Some(ttl);
        self
    }

    /// For how long a process that loads a value has the key to itself. It renews this lease when
    /// half of it is over; if the process dies, others wait for the rest. 10 seconds by default.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease.clamp(Duration::from_millis(20), DAY);
        self
    }

    /// What reads do while the server cannot be asked. They fail, by default.
    pub fn outage(mut self, outage: Outage) -> Self {
        self.settings.outage = outage;
        self
    }

    /// How long past its end a value is returned in place of a loader's error, if it is still in
    /// the local level. Not at all, by default. The loader is then asked at most once a second.
    pub fn stale_on_error(mut self, at_most: Duration) -> Self {
        self.settings.stale_on_error = at_most;
        self
    }

    /// How long a load is waited for, if there is a value of which
    /// [`stale_on_error`](Self::stale_on_error) allows the use. After that the call returns this
    /// value, and the load goes on.
    pub fn soft_limit(mut self, limit: Duration) -> Self {
        self.settings.soft_limit = Some(limit);
        self
    }

    /// How long a load is waited for if there is nothing else. After that the call fails with
    /// [`LoadError::TimedOut`](crate::LoadError::TimedOut), and the load goes on.
    pub fn hard_limit(mut self, limit: Duration) -> Self {
        self.settings.hard_limit = Some(limit);
        self
    }

    /// A load that finds a value with less life left than this returns it, and begins to load the
    /// next one: it asks the server first, whether it has another value by now, then the loader. Of
    /// all processes one does so. Never, by default.
    pub fn refresh_ahead(mut self, left: Duration) -> Self {
        self.settings.refresh_ahead = left;
        self
    }

    /// Longer encoded values are errors, read or written. 64 MiB by default.
    pub fn max_value_bytes(mut self, most: usize) -> Self {
        self.settings.max_value_bytes = most;
        self
    }

    /// Builds the cache. Nothing is connected before the first operation, whose runtime has the
    /// connection's tasks then.
    #[cfg(feature = "postcard")]
    pub fn build(self) -> TieredCache<K, V>
    where
        V: serde::Serialize + serde::de::DeserializeOwned,
    {
        self.build_with_codec(crate::codec::Postcard)
    }

    /// [`build`](Self::build) with another codec.
    pub fn build_with_codec(self, codec: impl Codec<V>) -> TieredCache<K, V> {
        let mut local = cortado::Cache::builder().max_capacity(self.max_capacity);
        if let Some(weigher) = self.weigher {
            local = local.weigher(move |key: &K, slot: &crate::slot::Slot<V>| {
                weigher(key, slot.value.as_ref())
            });
        }
        let link = Link::new(self.link);
        TieredCache::new(local.build(), link, self.settings, Arc::new(codec))
    }
}
