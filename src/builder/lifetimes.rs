//! Settings of lifetimes and of refresh.

use super::Builder;
use crate::engine::{Asking, Engine};
use crate::expiry::{Expiry, expire};
use crate::primitives::time::{Duration, Instant};

impl<K: 'static, V: 'static, C, M> Builder<K, V, C, M> {
    /// Makes entries expire this long after they were inserted or replaced.
    ///
    /// Zero turns caching off, as a lifetime of zero does for one entry: every value leaves at
    /// once, as [`Expired`](crate::RemovalCause::Expired).
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::{Duration, Instant};
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_live(Duration::from_secs(60)).clock(clock).build();
    /// cache.insert("k", 1);
    /// hand.advance(Duration::from_secs(45));
    /// cache.get("k"); // a read changes nothing
    /// assert_eq!(cache.expires_in("k"), Expiration::Due(Duration::from_secs(15)));
    /// cache.insert("k", 2); // an update starts anew
    /// assert_eq!(cache.expires_in("k"), Expiration::Due(Duration::from_secs(60)));
    /// ```
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.config.time_to_live = Some(time_to_live);
        self
    }

    /// Makes entries expire this long after they were last inserted, replaced or read.
    ///
    /// Zero turns caching off, as for [`time_to_live`](Self::time_to_live).
    ///
    /// By the system clock, an idle time of 4.3 s (2^32 ns) or more may end early by 1/1024 of it,
    /// because a read that would prolong it by less writes nothing. The lag of the clock's coarse
    /// form comes on top of that (see [precision of the clock](crate#precision-of-the-clock)).
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::{Duration, Instant};
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_idle(Duration::from_secs(60)).clock(clock).build();
    /// cache.insert("k", 1);
    /// hand.advance(Duration::from_secs(45));
    /// assert_eq!(cache.get("k"), Some(1));
    /// hand.advance(Duration::from_secs(45));
    /// assert_eq!(cache.get("k"), Some(1));
    /// hand.advance(Duration::from_secs(60));
    /// assert_eq!(cache.get("k"), None);
    /// ```
    pub fn time_to_idle(mut self, time_to_idle: Duration) -> Self {
        self.hooks.renew = Some(Engine::renew);
        self.config.time_to_idle = Some(time_to_idle);
        self
    }

    /// Sets the policy that gives each entry its lifetime: one of your own, or a ready-made one
    /// ([`expire`]).
    ///
    /// If there are fixed lifetimes too, the earliest end wins. [`Expiry`] states when the hooks of
    /// a policy run.
    pub fn expire_after(mut self, expiry: impl Expiry<K, V> + Send + Sync + 'static) -> Self
    where
        K: Eq,
    {
        self.hooks.asking = Some(Asking::OF_INSERTS);
        self.hooks.renew = Some(Engine::renew);
        self.hooks.expiry = Some(Box::new(expiry));
        self
    }

    /// Gives each new entry the lifetime that the closure returns; an update keeps what is left of
    /// the old value's life. So in a cache with a [`time_to_live`](Self::time_to_live), an update
    /// does not restart that either. Short for [`expire_after`](Self::expire_after) with
    /// [`expire::on_create`].
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::{Duration, Instant};
    ///
    /// let (clock, hand) = Clock::manual();
    /// let quota =
    ///     Cache::builder().ttl_on_create(|_, _| Some(Duration::from_secs(60))).clock(clock).build();
    /// quota.insert("alice", 1);
    /// hand.advance(Duration::from_secs(45));
    /// quota.insert("alice", 2); // the minute goes on
    /// assert_eq!(quota.expires_in("alice"), Expiration::Due(Duration::from_secs(15)));
    /// ```
    pub fn ttl_on_create<F>(self, lifetime: F) -> Self
    where
        K: Eq,
        F: Fn(&K, &V) -> Option<Duration> + Send + Sync + 'static,
    {
        self.expire_after(expire::on_create(lifetime))
    }

    /// Gives an entry the lifetime that the closure returns, at each write. `None` means that the
    /// entry never expires. Short for [`expire_after`](Self::expire_after) with
    /// [`expire::on_write`].
    ///
    /// ```
    /// use cortado::{Cache, Expiration};
    /// use std::time::{Duration, Instant};
    ///
    /// struct Token { expires_in: Duration }
    ///
    /// let tokens = Cache::<String, Token>::builder()
    ///     .ttl_on_write(|_, token| Some(token.expires_in))
    ///     .build();
    /// tokens.insert("alice".into(), Token { expires_in: Duration::ZERO });
    /// assert_eq!(tokens.expires_in("alice"), Expiration::NoEntry);
    /// ```
    pub fn ttl_on_write<F>(self, lifetime: F) -> Self
    where
        K: Eq,
        F: Fn(&K, &V) -> Option<Duration> + Send + Sync + 'static,
    {
        self.expire_after(expire::on_write(lifetime))
    }

    /// Gives an entry the lifetime that the closure returns, at each write and each read. Short for
    /// [`expire_after`](Self::expire_after) with [`expire::on_access`].
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::{Duration, Instant};
    ///
    /// let (clock, hand) = Clock::manual();
    /// // Each entry has an idle time of its own: its value, in seconds.
    /// let cache = Cache::builder()
    ///     .ttl_on_access(|_, seconds| Some(Duration::from_secs(*seconds)))
    ///     .clock(clock)
    ///     .build();
    /// cache.insert("k", 60);
    /// hand.advance(Duration::from_secs(45));
    /// cache.get("k");
    /// assert_eq!(cache.expires_in("k"), Expiration::Due(Duration::from_secs(60)));
    /// ```
    pub fn ttl_on_access<F>(self, lifetime: F) -> Self
    where
        K: Eq,
        F: Fn(&K, &V) -> Option<Duration> + Send + Sync + 'static,
    {
        self.expire_after(expire::on_access(lifetime))
    }

    /// Sets how long after its deadline an entry may stay in memory, and its notification may wait.
    ///
    /// This holds while the cache is in use or has a [`scheduler`](Self::scheduler). Lookups are
    /// exact at every resolution.
    ///
    /// *Units*: the resolution is the tick of the timer wheel, rounded down to a power of two of
    /// nanoseconds. The default is 16.8 ms (2^24 ns). The finest is 1 ms, the coarsest 1.07 s
    /// (2^30 ns).
    ///
    /// *Cost*: the scheduler wakes up once in each tick in which an entry ends, up to 60 times a
    /// second by default. Entries with longer lives are looked at again each 2.44 h (2^19 ticks, if
    /// the resolution is coarser than the default). Where time-outs need not be told at once, a
    /// resolution of a second saves both.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses a finer one.
    ///
    /// ```
    /// use cortado::{Cache, Clock, RemovalCause};
    /// use std::time::{Duration, Instant};
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder()
    ///     .time_to_live(Duration::from_secs(10))
    ///     .expiry_resolution(Duration::from_millis(10))
    ///     .record_stats(true)
    ///     .clock(clock)
    ///     .build();
    /// cache.insert("k", 1);
    /// hand.advance(Duration::from_millis(10_010));
    /// cache.get("another"); // any operation removes what is due
    /// assert_eq!(cache.stats().removed(RemovalCause::Expired), 1);
    /// ```
    pub fn expiry_resolution(mut self, resolution: Duration) -> Self {
        self.config.resolution = Some(resolution);
        self
    }
}

impl<K, V, C, M> Builder<K, V, C, M> {
    /// Makes entries *stale* this long after they were inserted or replaced: readers still get the
    /// value, and one of them triggers a reload.
    ///
    /// A stale entry is a living entry for every operation, until its lifetime is over. So give
    /// entries a longer lifetime, too ([`time_to_live`](Self::time_to_live),
    /// [`expire_after`](Self::expire_after)): between the two, values are served while a new one is
    /// made, and while making one fails.
    ///
    /// The reload is made by the cache's stored loader
    /// ([`build_with_loader`](Self::build_with_loader)). An entry that nobody reads is not
    /// reloaded. `get`, `get_entry`, `touch`, `get_many` and reads of a view trigger reloads.
    /// `peek`, `contains_key` and iteration do not. The value that a reload brings takes the
    /// old one's place, which leaves as [`Replaced`](crate::RemovalCause::Replaced). A reload
    /// is no use of the entry for the eviction policy, and no read for an idle time.
    ///
    /// A write, a removal, a computation or `invalidate_all` during a reload overtakes it: what it
    /// brings is not kept.
    ///
    /// *Where reloads run*: on the [`executor`](Self::executor) or runtime
    /// (`on_tokio`, with the feature `tokio`) of the cache. Without one, those of a
    /// [`Loader`](crate::Loader), which blocks, run on worker threads of the process: 64 of all
    /// caches at once, others wait. The read hands its reload over when it has its value.
    /// Inside a load, a computation, a callback or a listener of any cache, and while the
    /// thread holds a view, the reload waits for the next operation on the cache, or for its
    /// [`scheduler`](Self::scheduler).
    ///
    /// *Cost*: 8 bytes per entry, whether it becomes stale or not, and one comparison more in each
    /// hit.
    ///
    /// *Errors*: [`try_build`](Self::try_build) fails: a cache without a stored loader has no
    /// refresh.
    ///
    /// ```
    /// use cortado::{Cache, Clock, Job, Loaded};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let version = AtomicU32::new(0);
    /// let load = move |_: &str| Ok::<_, ()>(Loaded::new(version.fetch_add(1, Ordering::Relaxed)));
    /// let settings = Cache::builder()
    ///     .time_to_live(Duration::from_secs(3600))
    ///     .refresh_after_write(Duration::from_secs(60))
    ///     .executor(|job: Job| job()) // runs jobs at once, on the caller's thread
    ///     .clock(clock)
    ///     .build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(0));
    /// hand.advance(Duration::from_secs(60));
    /// // Stale: this call has run the reload.
    /// assert_eq!(settings.get(&"k"), Ok(1));
    /// ```
    pub fn refresh_after_write(mut self, time: Duration) -> Self {
        self.config.refresh.after_write = Some(time);
        self
    }

    /// Sets the policy that says how long after its write an entry becomes stale; `None` is never.
    /// Otherwise like [`refresh_after_write`](Self::refresh_after_write), in whose place the
    /// policy is asked.
    ///
    /// [`Loaded::refresh_after`](crate::Loaded::refresh_after) overrides it.
    ///
    /// *Callbacks*: the policy gets key, value and the present. It is asked once per value that is
    /// written, or that a reload found not modified, with no lock held. It must not write the key
    /// that it is asked about: that write panics. A panic reaches the caller of the write, and
    /// nothing is written.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::time::Duration;
    ///
    /// struct Answer { address: [u8; 4], ttl: Duration }
    ///
    /// fn resolve(host: String) -> std::io::Result<Loaded<Answer>> {
    ///     Ok(Loaded::new(Answer { address: [127, 0, 0, 1], ttl: Duration::from_secs(60) }))
    /// }
    ///
    /// // Answers are asked for anew when three quarters of their time are over.
    /// let dns = Cache::builder()
    ///     .ttl_on_write(|_, answer: &Answer| Some(answer.ttl))
    ///     .refresh_after(|_, answer: &Answer, _| Some(answer.ttl * 3 / 4))
    ///     .build_with_loader(resolve);
    /// assert_eq!(dns.get_entry("localhost").unwrap().address, [127, 0, 0, 1]);
    /// ```
    pub fn refresh_after(
        mut self,
        policy: impl Fn(&K, &V, Instant) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.refresh = Some(Box::new(policy));
        self
    }

    /// Bounds how many reloads are under way at once, those that wait for the executor included. By
    /// default 64.
    ///
    /// Beyond the limit a read triggers nothing, and the entry stays stale. That is counted
    /// ([`Stats::reloads_skipped`](crate::Stats::reloads_skipped)). A later read tries again. The
    /// same applies while more notifications wait than a
    /// [`notification_limit`](Self::notification_limit) allows.
    ///
    /// A reload has its place until its loader returns. A loader that hangs keeps the place for
    /// ever, since a thread cannot be interrupted. While all places are kept so, nothing
    /// is reloaded: stale values are served until their lifetimes are over, and
    /// [`Stats::reloads_under_way`](crate::Stats::reloads_under_way) stays at the limit. A `get` of
    /// the key past its lifetime waits for the loader that hangs;
    /// [`get_within`](crate::LoadingCache::get_within) waits for a time, and a write of the key for
    /// none. The reloads of all caches without an executor share 64 worker threads. So give
    /// loaders a time limit: that of the client of your upstream, or, if they await, that of
    /// the runtime (`tokio::time::timeout(limit, request).await`). Its error counts as any
    /// failure.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses zero.
    pub fn refresh_limit(mut self, limit: usize) -> Self {
        self.config.refresh.limit = limit;
        self
    }

    /// Sets how long after a failed reload a read may trigger the next one. By default a second.
    ///
    /// Until then the entry is read as if it were not stale. The delay also applies where the
    /// executor dropped the job of a reload, and where the key had a load or a computation when its
    /// reload was to begin.
    pub fn refresh_retry(mut self, delay: Duration) -> Self {
        self.config.refresh.retry = delay;
        self
    }
}
