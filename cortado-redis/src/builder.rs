//! The settings of a cache.

use crate::codec::Codec;
use crate::fallback::Fallback;
use crate::key::RedisKey;
use crate::link::{Coherence, Link, LinkSettings, Server};
use crate::refresh::Refreshing;
use crate::slot::Slot;
use crate::stats::Counts;
use crate::tier::{Inner, TieredCache};
use crate::wake::Wakes;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// What happens to reads and loads while the server cannot be asked
/// ([`Error::is_outage`](crate::Error::is_outage)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Outage {
    /// They fail.
    #[default]
    Fail,
    /// They return the local copy, even an expired one, if its lifetime or the trust in it ended at
    /// most so long ago, and fail otherwise. (Trust ends with the connection, or the
    /// [staleness bound](Builder::staleness_bound) after its last answer.) Such copies count
    /// towards the local capacity.
    ServeStale {
        /// How long ago at most.
        at_most: Duration,
    },
}

/// The settings, but for the server's.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    pub ttl: Option<Duration>,
    pub negative_ttl: Duration,
    pub local_ttl: Option<Duration>,
    pub lease: Duration,
    pub outage: Outage,
    pub stale_on_error: Duration,
    pub soft_limit: Option<Duration>,
    pub hard_limit: Duration,
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

pub type Weigher<K, V> = Arc<dyn Fn(&K, Option<&V>) -> u32 + Send + Sync>;

/// The settings of a [`TieredCache`]: [`TieredCache::builder`].
#[must_use]
pub struct Builder<K, V> {
    link: LinkSettings,
    settings: Settings,
    max_capacity: u64,
    record_stats: bool,
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
            name: name.to_owned(),
            ttl: None,
            negative_ttl: Duration::from_secs(10),
            local_ttl: None,
            lease: Duration::from_secs(10),
            outage: Outage::Fail,
            stale_on_error: Duration::ZERO,
            soft_limit: None,
            hard_limit: Duration::from_secs(30),
            refresh_ahead: Duration::ZERO,
            max_value_bytes: 64 << 20,
        };
        Self {
            link,
            settings,
            max_capacity: 10_000,
            record_stats: false,
            weigher: None,
            values: PhantomData,
        }
    }

    /// How many entries the local level holds, or how much they may weigh. 10,000 by default.
    pub fn max_capacity(mut self, most: u64) -> Self {
        self.max_capacity = most;
        self
    }

    /// What a local entry weighs; its value is `None` where the server has none. 1 by default. A
    /// panic reaches the caller of the read.
    pub fn weigher(
        mut self,
        weigher: impl Fn(&K, Option<&V>) -> u32 + Send + Sync + 'static,
    ) -> Self {
        self.weigher = Some(Arc::new(weigher));
        self
    }

    /// How the local level learns of changes. By key, by default.
    pub fn coherence(mut self, coherence: Coherence) -> Self {
        self.link.coherence = coherence;
        self
    }

    /// With tracking: how long local copies are used after the last answered request was sent. So
    /// it bounds how old a value may be when the connection dies unnoticed. A quarter of it is
    /// the interval of heartbeats. When a silent server answers again, copies are, too. 1
    /// second by default, 100 ms at the least.
    pub fn staleness_bound(mut self, bound: Duration) -> Self {
        self.link.bound = bound.clamp(Duration::from_millis(100), DAY);
        self
    }

    /// How long an answer is waited for; where the server has to learn a script first, twice as
    /// long. A connection that is silent for 2 seconds, or for twice this time if that is
    /// longer, is given up. 500 ms by default.
    pub fn reply_within(mut self, limit: Duration) -> Self {
        self.link.reply_within = limit.clamp(Duration::from_millis(1), DAY);
        self
    }

    /// How long a connection may take. 1 second by default, 1 ms at the least.
    pub fn connect_within(mut self, limit: Duration) -> Self {
        self.link.connect_within = limit.clamp(Duration::from_millis(1), DAY);
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

    /// How long a lease lasts without renewal: the right of one process to load a key. A process
    /// renews it when a third is over; if it dies, others wait for the rest. 10 seconds by default.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease.clamp(Duration::from_millis(20), DAY);
        self
    }

    /// What reads do while the server cannot be asked. They fail, by default.
    pub fn outage(mut self, outage: Outage) -> Self {
        self.settings.outage = outage;
        self
    }

    /// How long past its end a value is returned in place of a loader's error, if this process has
    /// read it before. Not at all, by default. The loader is then asked at most once a second.
    ///
    /// Such values may take as much memory again as the [capacity](Self::max_capacity) allows. A
    /// removal of which this process hears only after the value's end is taken for that end, and
    /// the value may be returned all the same. (With a [`local_ttl`](Self::local_ttl) the end
    /// is taken for a removal, and the value is lost.)
    pub fn stale_on_error(mut self, at_most: Duration) -> Self {
        self.settings.stale_on_error = at_most;
        self
    }

    /// How long a load is waited for, if there is a value of which
    /// [`stale_on_error`](Self::stale_on_error) allows the use. After that the call returns this
    /// value, and its loader runs all the same, unless another one does.
    pub fn soft_limit(mut self, limit: Duration) -> Self {
        self.settings.soft_limit = Some(limit);
        self
    }

    /// How long a load is waited for if there is nothing else. After that the call fails with
    /// [`LoadError::TimedOut`](crate::LoadError::TimedOut); its own loader goes on if it runs. 30
    /// seconds by default; with `Duration::MAX` there is no limit.
    pub fn hard_limit(mut self, limit: Duration) -> Self {
        self.settings.hard_limit = limit;
        self
    }

    /// A load that finds a local copy with less life left than this returns it, and starts a
    /// refresh in a task: one process runs its loader, unless the server has a newer value by now.
    /// The loader's error is only counted. Values without a lifetime are not refreshed; with less
    /// lifetime than this, they are all the time. Never, by default.
    pub fn refresh_ahead(mut self, left: Duration) -> Self {
        self.settings.refresh_ahead = left;
        self
    }

    /// Longer encoded values are errors, read or written. 64 MiB by default.
    pub fn max_value_bytes(mut self, most: usize) -> Self {
        self.settings.max_value_bytes = most;
        self
    }

    /// Whether the local level counts its hits and misses, and times what it does, for
    /// [`Stats::local`](crate::Stats::local). It costs a hit a few nanoseconds. No, by default.
    pub fn record_stats(mut self, record: bool) -> Self {
        self.record_stats = record;
        self
    }

    /// Builds the cache. The first operation connects.
    #[cfg(feature = "postcard")]
    pub fn build(self) -> TieredCache<K, V>
    where
        V: serde::Serialize + serde::de::DeserializeOwned,
    {
        self.build_with_codec(crate::codec::Postcard)
    }

    /// [`build`](Self::build) with another codec.
    pub fn build_with_codec(self, codec: impl Codec<V>) -> TieredCache<K, V> {
        let mut local = cortado::Cache::builder()
            .name(&self.settings.name)
            .max_capacity(self.max_capacity)
            .record_stats(self.record_stats);
        if let Some(weigher) = self.weigher.clone() {
            local = local.weigher(move |key: &K, slot: &Slot<V>| weigher(key, slot.value.as_ref()));
        }
        let at_most = self.settings.stale_on_error;
        let fallback = Fallback::new(at_most, self.max_capacity, self.weigher);
        TieredCache::new(Inner {
            local: local.build().future(),
            link: Link::new(self.link),
            settings: self.settings,
            codec: Arc::new(codec),
            wakes: Wakes::new(),
            fallback,
            refreshing: Refreshing::new(),
            counts: Counts::default(),
        })
    }
}
