//! What the local level holds, and what it may be used for.

use crate::link::{Link, Trusted};
use crate::wire::Stamp;
use std::time::{Duration, Instant};

/// A value that was read from the server or written to it, or that it has none. A hit copies it
/// and what is beside it, so that is little.
#[derive(Clone)]
pub struct Slot<V> {
    /// `None`: the server has no value, or one that says that the origin has none.
    pub value: Option<V>,
    /// Which version it is, if the server has it.
    pub stamp: Option<Stamp>,
    /// The end of its life on the server, counted from before it was asked, by the local level's
    /// clock.
    pub fresh_until: u64,
    /// By which connection.
    pub generation: u32,
    /// How many milliseconds before that end a load asks for the next value, too; 0 for never.
    refresh_ahead: u32,
}

impl<V> Slot<V> {
    /// The slot of a value whose lifetime is yet to be known.
    pub fn new(generation: u32, value: Option<V>, stamp: Option<Stamp>) -> Self {
        Self { value, stamp, fresh_until: 0, generation, refresh_ahead: 0 }
    }

    /// With the end of its life, and how long before it the next value is asked for.
    pub fn until(self, fresh_until: u64, refresh_ahead: Duration) -> Self {
        let millis = refresh_ahead.as_nanos().div_ceil(1_000_000);
        Self { fresh_until, refresh_ahead: u32::try_from(millis).unwrap_or(u32::MAX), ..self }
    }

    /// Whether it is time to ask for the next value.
    #[inline]
    pub fn is_ending(&self, now: impl Fn() -> u64) -> bool {
        let ahead = u64::from(self.refresh_ahead) * 1_000_000;
        ahead != 0 && now() >= self.fresh_until.saturating_sub(ahead)
    }
}

/// As near to the end of a value's life, the coarse time of a read is not enough.
const NEAR: u64 = 128_000_000;

impl<V> Slot<V> {
    /// Whether it is the server's value, and alive.
    #[inline]
    pub fn is_good(&self, trusted: Trusted, now: u64, precise: impl Fn() -> u64) -> bool {
        let until = trusted.until.min(self.fresh_until);
        if trusted.generation != self.generation || now >= until {
            return false;
        }
        until - now >= NEAR || precise() < until
    }
}

/// The life of a value on the server, as its script says it.
pub fn life(pttl: i64) -> Option<Duration> {
    u64::try_from(pttl).ok().map(Duration::from_millis)
}

/// A life as the server counts it: to the millisecond, and at least one.
pub fn whole(life: Duration) -> Duration {
    let millis = life.as_millis().clamp(1, 1 << 52);
    Duration::from_millis(u64::try_from(millis).unwrap_or(1 << 52))
}

/// An instant so far away that no process lives to see it.
pub fn far(from: Instant) -> Instant {
    from + Duration::from_secs(100 * 365 * 86_400)
}

/// Milliseconds for the server: at least one; `0` stands for ever.
pub fn millis(life: Option<Duration>) -> Vec<u8> {
    let millis = life.map_or(0, |life| whole(life).as_millis());
    millis.to_string().into_bytes()
}

/// Until when a value was known to be the server's.
pub fn known_until<V>(link: &Link, slot: &Slot<V>) -> Option<u64> {
    Some(link.known_until(slot.generation)?.min(slot.fresh_until))
}
