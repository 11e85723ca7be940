//! How the maintenance of a cache asks the scheduler for its turns.

use super::upkeep::PASS_DELAY;
use crate::config::Config;
use crate::primitives::atomic::Ordering;
use crate::primitives::guarded::GuardedU32;
use crate::scheduler::Alarm;
use std::sync::OnceLock;
use std::time::Duration;

/// The scheduler waits no longer than this for what will not wake it: a computation, or an executor
/// that may have lost a job.
pub const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// After this many runs in which a computation is in the way, the scheduler looks half as often
/// each time. Until then its runs follow each other by [`PASS_DELAY`].
const EAGER_RUNS: u32 = 4;

/// See the [module](self).
pub struct Schedule {
    pub is_scheduled: bool,
    pub alarm: OnceLock<Box<dyn Alarm>>,
    /// How often the scheduler reads a clock that it cannot sleep by.
    pub clock_period: Duration,
    /// Consecutive runs of the scheduler that waited for a computation in vain.
    idle_runs: GuardedU32,
}

impl Schedule {
    pub fn new(config: &Config) -> Self {
        Self {
            is_scheduled: config.scheduled,
            alarm: OnceLock::new(),
            clock_period: config.clock_period(),
            idle_runs: GuardedU32::new(0),
        }
    }

    /// Asks the scheduler, if the cache has one, for a pass within `delay`.
    #[inline]
    pub fn wake_within(&self, delay: Duration) {
        if self.is_scheduled
            && let Some(alarm) = self.alarm.get()
        {
            alarm.wake_within(delay);
        }
    }

    /// Has the scheduler come back from a wait for other threads. Returns the delay if the run that
    /// asks for it has to return it. See [`Alarm::come_back_in_real_time`].
    pub fn come_back_in_real_time(&self, delay: Duration) -> Option<Duration> {
        self.alarm.get().map_or(Some(delay), |alarm| alarm.come_back_in_real_time(delay))
    }

    /// How long to wait for a computation: a short time at first, then twice as long each time, up
    /// to [`LONGEST_DELAY`].
    pub fn back_off(&self) -> Duration {
        let runs = self.idle_runs.load(Ordering::Relaxed);
        self.idle_runs.store(runs.saturating_add(1), Ordering::Relaxed);
        let doublings = runs.saturating_sub(EAGER_RUNS).min(16);
        (PASS_DELAY * (1 << doublings)).min(LONGEST_DELAY)
    }

    /// No computation is in the way.
    pub fn end_back_off(&self) {
        self.idle_runs.store(0, Ordering::Relaxed);
    }
}
