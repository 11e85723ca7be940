//! How far the maintenance is, for everybody else.

use super::shared::Core;
use super::state::Maintenance;
use crate::clock::NEVER;
use crate::primitives::MutexGuard;
use crate::primitives::atomic::Ordering;
use crate::scheduler::Alarm;
use std::time::Duration;

impl Core {
    /// The maintenance lock, for a caller that must have it.
    pub fn lock_maintenance(&self) -> MutexGuard<'_, Maintenance> {
        self.upkeep.lock()
    }

    /// The number of entries, as of the last pass.
    pub fn entries(&self) -> u64 {
        self.upkeep.published.entries.load(Ordering::Relaxed)
    }

    /// The weight of all entries, as of the last pass.
    pub fn weight(&self) -> u64 {
        self.upkeep.published.weight.load(Ordering::Relaxed)
    }

    /// How long until a pass has something to expire; `None` if nothing is to expire.
    pub fn next_expiration(&self) -> Option<Duration> {
        let due = self.upkeep.published.next_due();
        (due != NEVER).then(|| due.saturating_since(self.ticker.now()).to_duration())
    }

    /// Dead nodes that the cache still has its count on.
    pub fn unreclaimed(&self) -> usize {
        self.upkeep.published.unreclaimed.load(Ordering::Relaxed)
    }

    /// Writes that are spilled beside the stripes of the write buffer.
    pub fn spilled_writes(&self) -> usize {
        self.upkeep.writes.spill.count()
    }

    /// How many spilled writes a pass takes out.
    pub fn spill_portion(&self) -> usize {
        self.upkeep.writes.portion()
    }

    /// Registers the cache with the scheduler.
    pub fn set_alarm(&self, alarm: Box<dyn Alarm>) {
        let _ = self.upkeep.alarm.set(alarm);
    }

    /// How many generations have begun since the last one up to which everything was swept.
    pub fn unswept(&self) -> u64 {
        self.hot.generation().raw().saturating_sub(self.upkeep.published.swept().raw())
    }

    /// Makes every node inserted before this call invisible. Does nothing and returns false if that
    /// would leave more than `unswept` generations to be swept.
    pub fn next_generation(&self, unswept: u64) -> bool {
        self.hot.next_generation(self.upkeep.published.swept(), unswept)
    }
}
