//! Converts lifetimes to deadlines: how fixed, idle, variable and per-call lifetimes combine.
//!
//! The *hard deadline* of an entry is the instant at which the entry ends even if it is read all
//! the time. The *deadline* is the hard deadline or the end of the idle time, whichever is earlier.
//! Without an idle time both are the same, and only the deadline is kept.

use crate::clock::{Nanos, Timestamp, nanos};
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedU64;
use crate::primitives::seeded;
use crate::primitives::time::{Duration, Instant};

/// How a write says when its entry ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// By the cache's policy: `time_to_live` and the expiry hooks. The earliest end wins.
    Policy,
    /// By the cache's policy, whose hooks have answered this.
    AtMost(Nanos),
    /// After this time, in place of the policy.
    For(Nanos),
    /// At this instant, in place of the policy.
    Until(Instant),
}

/// An expiry hook's answer.
#[derive(Clone, Copy)]
pub enum HookLifetime {
    /// So long from the present; [`Nanos::FOREVER`] means for ever.
    For(Nanos),
    /// The same end as before.
    Same(Timestamp),
}

impl HookLifetime {
    pub fn end(self, now: Timestamp) -> Timestamp {
        match self {
            Self::For(lifetime) => now.saturating_add(lifetime),
            Self::Same(end) => end,
        }
    }
}

/// How a load says when its value ends, and when it is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub lifetime: Lifetime,
    /// The time until the value is stale. `None` is by the cache's settings, [`Nanos::FOREVER`] is
    /// never.
    pub refresh: Option<Nanos>,
}

impl Lease {
    /// With this lifetime. The cache's settings say when it is stale.
    pub const fn new(lifetime: Lifetime) -> Self {
        Self { lifetime, refresh: None }
    }
}

/// The fixed lifetimes of a cache that is in use. They can be changed, and order nothing: a write
/// that reads an old one happened before the change. [`Nanos::FOREVER`] stands for none.
#[derive(Debug)]
pub struct FixedLifetimes {
    live: GuardedU64,
    idle: GuardedU64,
    has_idle: bool,
}

impl FixedLifetimes {
    pub fn new(time_to_live: Option<Duration>, time_to_idle: Option<Duration>) -> Self {
        let raw = |lifetime: Option<Duration>| lifetime.map_or(Nanos::FOREVER, nanos).raw();
        Self {
            live: GuardedU64::new(raw(time_to_live)),
            idle: GuardedU64::new(raw(time_to_idle)),
            has_idle: time_to_idle.is_some(),
        }
    }

    /// Whether the cache was built with an idle time.
    #[inline]
    pub fn has_idle(&self) -> bool {
        self.has_idle
    }

    /// The present time to live and idle time.
    pub fn present(&self) -> (Option<Duration>, Option<Duration>) {
        let option = |it: Nanos| (it != Nanos::FOREVER).then(|| it.to_duration());
        (option(self.live()), option(self.idle()))
    }

    pub fn set_live(&self, live: Option<Nanos>) {
        self.live.store(live.unwrap_or(Nanos::FOREVER).raw(), Relaxed);
    }

    /// To be called only if the cache was built with an idle time.
    pub fn set_idle(&self, idle: Nanos) {
        self.idle.store(idle.raw(), Relaxed);
    }

    #[inline]
    fn live(&self) -> Nanos {
        Nanos::from_raw(self.live.load(Relaxed))
    }

    #[inline]
    fn idle(&self) -> Nanos {
        Nanos::from_raw(self.idle.load(Relaxed))
    }

    /// The hard deadline of an entry created at `created` whose variable lifetime ends at
    /// `variable`.
    #[inline]
    pub fn hard_deadline(&self, created: Timestamp, variable: Timestamp) -> Timestamp {
        created.saturating_add(self.live()).min(variable)
    }

    /// The hard deadline after a read whose hook ends the variable lifetime at `variable`.
    /// `hard_deadline` is the one before the read.
    ///
    /// The result is no later than the `time_to_live` allows, or than `hard_deadline` if a call has
    /// set a lifetime in place of the `time_to_live`. So it is never before the read itself.
    pub fn hard_deadline_after_read(
        &self,
        created: Timestamp,
        hard_deadline: Timestamp,
        variable: Timestamp,
    ) -> Timestamp {
        created.saturating_add(self.live()).max(hard_deadline).min(variable)
    }

    /// The deadline of an entry with this hard deadline. `now` is the present of the write or the
    /// read.
    #[inline]
    pub fn deadline(&self, now: Timestamp, hard_deadline: Timestamp) -> Timestamp {
        now.saturating_add(self.idle()).min(hard_deadline)
    }
}

/// A lifetime that a hook returned. [`Nanos::FOREVER`] is for ever.
#[inline]
pub fn lifetime(lifetime: Option<Duration>) -> Nanos {
    match lifetime.map(nanos) {
        Some(Nanos::FOREVER) if seeded("long-lifetimes-end") => Nanos::FOREVER / 4,
        lifetime => lifetime.unwrap_or(Nanos::FOREVER),
    }
}

/// When an entry expires, as [`Cache::expires_in`](crate::Cache::expires_in) and
/// [`Cache::expires_at`](crate::Cache::expires_at) tell it.
///
/// ```
/// use cortado::{Cache, Clock, Expiration};
/// use std::time::Duration;
///
/// let (clock, _hand) = Clock::manual();
/// let cache = Cache::builder().clock(clock).build();
/// cache.insert("for ever", 1);
/// cache.insert_with_ttl("a minute", 2, Duration::from_secs(60));
/// match cache.expires_in("a minute") {
///     Expiration::Due(left) => assert_eq!(left, Duration::from_secs(60)),
///     Expiration::Never | Expiration::NoEntry => unreachable!(),
/// }
/// assert!(cache.expires_in("for ever").has_entry());
/// assert_eq!(cache.expires_in("for ever").due(), None);
/// assert_eq!(cache.expires_in("for ever").into_options(), Some(None));
/// assert_eq!(cache.expires_in("unknown").into_options(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiration<T> {
    /// The key has no living entry.
    NoEntry,
    /// The entry never expires.
    Never,
    /// The entry expires in this time, or at this instant.
    Due(T),
}

impl<T> Expiration<T> {
    /// The time, if there is a living entry that expires.
    #[must_use]
    pub fn due(self) -> Option<T> {
        match self {
            Self::Due(time) => Some(time),
            Self::NoEntry | Self::Never => None,
        }
    }

    /// The same as nested options: `None` if there is no living entry, `Some(None)` if the entry
    /// never expires.
    #[must_use]
    pub fn into_options(self) -> Option<Option<T>> {
        match self {
            Self::NoEntry => None,
            Self::Never => Some(None),
            Self::Due(time) => Some(Some(time)),
        }
    }

    /// Whether the key has a living entry.
    #[must_use]
    pub fn has_entry(&self) -> bool {
        !matches!(self, Self::NoEntry)
    }
}
