//! A clock that a program moves.

use super::time::nanos;
use crate::primitives::Arc;
use crate::primitives::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The hand of a [`Clock::manual`](crate::Clock::manual), which moves the clock.
///
/// ```
/// use cortado::Clock;
/// use std::time::Duration;
///
/// let (_clock, hand) = Clock::manual();
/// hand.advance(Duration::from_secs(5));
/// hand.advance(Duration::from_secs(5));
/// assert_eq!(hand.now(), Duration::from_secs(10));
/// hand.set(Duration::from_secs(3));
/// assert_eq!(hand.now(), Duration::from_secs(3));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: Arc<AtomicU64>,
}

impl ManualClock {
    pub(super) fn of(time: Arc<AtomicU64>) -> Self {
        Self { time }
    }

    /// Moves the clock forward, to at most 584 years after its origin. (Caches read at most 292
    /// years.)
    pub fn advance(&self, by: Duration) {
        let by = nanos(by).raw();
        let step = |now: u64| Some(now.saturating_add(by));
        let _ = self.time.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
    }

    /// Sets the clock to a time since its origin. The time may be earlier than the current one.
    pub fn set(&self, time: Duration) {
        self.time.store(nanos(time).raw(), Ordering::Release);
    }

    /// The reading of the clock: the time since its origin.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.time.load(Ordering::Acquire))
    }
}
