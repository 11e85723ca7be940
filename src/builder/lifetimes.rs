//! Settings of lifetimes.

use super::Builder;
use crate::expiry::{Expiry, expire};
use std::hash::Hash;
use std::time::Duration;

impl<K, V, C> Builder<K, V, C>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Makes entries expire this long after they were inserted or replaced.
    ///
    /// Zero turns caching off, as a lifetime of zero does for one entry: every value leaves at
    /// once, as [`Expired`](crate::RemovalCause::Expired).
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = Some(time_to_live);
        self
    }

    /// Makes entries expire this long after they were last inserted, replaced or read.
    ///
    /// Zero turns caching off, as for [`time_to_live`](Self::time_to_live).
    ///
    /// By the system clock, an idle time of 4.3 s or more may end early by 1/1024 of it, because a
    /// read that would prolong it by less writes nothing. The lag of the clock's coarse form comes
    /// on top of that (see [precision of the clock](crate#precision-of-the-clock)).
    pub fn time_to_idle(mut self, time_to_idle: Duration) -> Self {
        self.time_to_idle = Some(time_to_idle);
        self
    }

    /// Sets the policy that gives each entry its lifetime: one of your own, or a ready-made one
    /// ([`expire`](crate::expire)).
    ///
    /// If there are fixed lifetimes too, the earliest end wins. [`Expiry`] states when the hooks of
    /// a policy run.
    pub fn expire_after(mut self, expiry: impl Expiry<K, V> + Send + Sync + 'static) -> Self {
        self.hooks.expiry = Some(Box::new(expiry));
        self
    }

    /// Gives each new entry the lifetime that the closure returns; an update keeps what is left of
    /// it. Short for [`expire_after`](Self::expire_after) with [`expire::on_create`].
    pub fn ttl_on_create<F>(self, lifetime: F) -> Self
    where
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
        F: Fn(&K, &V) -> Option<Duration> + Send + Sync + 'static,
    {
        self.expire_after(expire::on_write(lifetime))
    }

    /// Gives an entry the lifetime that the closure returns, at each write and each read. Short for
    /// [`expire_after`](Self::expire_after) with [`expire::on_access`].
    pub fn ttl_on_access<F>(self, lifetime: F) -> Self
    where
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
    /// nanoseconds. The default is 1.07 s (2^30 ns), which is also the coarsest. The finest is 1
    /// ms.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses a finer one.
    pub fn expiry_resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }
}
