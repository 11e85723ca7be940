//! Instants and lengths of time, in nanoseconds. Both are numbers of 64 bits, and cost no more.

use crate::macros::number;
use std::ops::{Add, Div, Sub};
use std::time::Duration;

/// An instant: so many nanoseconds after the origin of a clock.
///
/// The [module above](super) says which numbers are instants of a cache. The wheel takes any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Timestamp(u64);
number!(Timestamp(u64));

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Nanos(u64);
number!(Nanos(u64));

impl Timestamp {
    /// The instant `by` later, but no later than the last number.
    #[inline(always)]
    #[must_use]
    pub const fn saturating_add(self, by: Nanos) -> Self {
        Self(self.0.saturating_add(by.0))
    }

    /// The instant `by` earlier, but no earlier than zero.
    #[inline(always)]
    #[must_use]
    pub const fn saturating_sub(self, by: Nanos) -> Self {
        Self(self.0.saturating_sub(by.0))
    }

    /// The instant `by` later, on a circle.
    #[inline(always)]
    #[must_use]
    pub const fn wrapping_add(self, by: Nanos) -> Self {
        Self(self.0.wrapping_add(by.0))
    }

    /// The time since `earlier`; zero if that is later.
    #[inline(always)]
    pub const fn saturating_since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time since `earlier`, on a circle.
    #[inline(always)]
    pub const fn wrapping_since(self, earlier: Self) -> Nanos {
        Nanos(self.0.wrapping_sub(earlier.0))
    }
}

/// The instant that much later. The sum must not overflow.
impl Add<Nanos> for Timestamp {
    type Output = Self;

    #[inline(always)]
    fn add(self, by: Nanos) -> Self {
        Self(self.0 + by.0)
    }
}

/// The time since an instant, which must not be later.
impl Sub for Timestamp {
    type Output = Nanos;

    #[inline(always)]
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0 - earlier.0)
    }
}

impl Nanos {
    pub const ZERO: Self = Self(0);

    /// 584 years, which is more than the distance between any two instants. As a lifetime it means
    /// for ever.
    pub const FOREVER: Self = Self(u64::MAX);

    #[inline(always)]
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// The difference, which must not be negative.
impl Sub for Nanos {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Div<u64> for Nanos {
    type Output = Self;

    #[inline(always)]
    fn div(self, by: u64) -> Self {
        Self(self.0 / by)
    }
}

/// Nanoseconds of `duration`, saturating to [`Nanos::FOREVER`].
#[inline]
pub fn nanos(duration: Duration) -> Nanos {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    Nanos(whole.saturating_add(u64::from(duration.subsec_nanos())))
}
