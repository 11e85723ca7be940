//! Times as conditions of reads get them.

use super::time::Timestamp;
use std::ops::Sub;
use std::time::Duration;

/// A time by a cache's clock, in eight bytes. A program keeps such times, and compares them in the
/// condition of [`get_if`](crate::Cache::get_if).
///
/// [`Cache::clock_now`](crate::Cache::clock_now) reads the present, and
/// [`Cache::clock_time`](crate::Cache::clock_time) converts an `Instant`. Compare only
/// times of the same cache. As a `u64` it fits an atomic; the number means nothing in another
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockTime(u64);

impl ClockTime {
    #[inline]
    pub(crate) const fn new(time: Timestamp) -> Self {
        Self(time.raw())
    }
}

impl From<ClockTime> for u64 {
    fn from(time: ClockTime) -> Self {
        time.0
    }
}

impl From<u64> for ClockTime {
    /// A number that came from a `ClockTime`. Zero is before all times.
    fn from(time: u64) -> Self {
        Self(time)
    }
}

impl Sub for ClockTime {
    type Output = Duration;

    /// The time that has passed between the two. Zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// What a read knows of the time, as conditions get it ([`get_if`](crate::Cache::get_if),
/// [`load_if`](crate::Cache::load_if)).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReadTimes {
    /// The time of the read. By the system's clock on Linux this is a coarse reading, 1 to 10 ms
    /// old as a rule ([precision](crate#precision-of-the-clock)). By any other clock it is
    /// precise.
    pub now: ClockTime,
    /// When the value was written, or when a reload found it not modified: a reading of the clock
    /// from just before. By the system's clock on Linux it is a coarse one, too, unless the
    /// lifetime is under 4.3 seconds; a precise one may be later than `now`.
    ///
    /// So a value that was written before a call of [`clock_now`](crate::Cache::clock_now) never
    /// seems to be written after it. A value that is written less than the age of a coarse reading
    /// after the call may seem to be written before.
    pub written: ClockTime,
}

impl ReadTimes {
    #[inline]
    pub(crate) const fn new(now: Timestamp, written: Timestamp) -> Self {
        Self { now: ClockTime::new(now), written: ClockTime::new(written) }
    }
}
