//! Settings of lifetimes.

use super::Builder;
use crate::engine::{Asking, Engine};
use crate::expiry::{Expiry, expire};
use std::time::Duration;

impl<K: 'static, V: 'static, C, M> Builder<K, V, C, M> {
    /// Makes entries expire this long after they were inserted or replaced.
    ///
    /// Zero turns caching off, as a lifetime of zero does for one entry: every value leaves at
    /// once, as [`Expired`](crate::RemovalCause::Expired).
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::Duration;
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
    /// use std::time::Duration;
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
    /// use std::time::Duration;
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
    /// use std::time::Duration;
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
    /// use std::time::Duration;
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
    /// use std::time::Duration;
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
