//! What a timer counts.

use crate::clock::nanos;
use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use crate::stats::{Durations, Histogram};
use std::time::Duration;

/// What a timer has done so far. If jobs run meanwhile, the counts may be a few jobs apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerStats {
    /// Jobs that were accepted. A series counts once.
    pub added: u64,
    /// Runs that have begun.
    pub fired: u64,
    /// Jobs that were cancelled before their (next) run, those of a shutdown included.
    pub cancelled: u64,
    /// Runs that panicked.
    pub panicked: u64,
    /// Runs that the executor has dropped.
    pub rejected: u64,
    /// How often the timer's thread woke up.
    pub wake_ups: u64,
    /// How long after their planned time runs began.
    pub lateness: Durations,
}

#[derive(Debug, Default)]
pub struct Counters {
    pub added: AtomicU64,
    pub fired: AtomicU64,
    pub cancelled: AtomicU64,
    pub panicked: AtomicU64,
    pub rejected: AtomicU64,
    pub wake_ups: AtomicU64,
    lateness: Histogram,
}

impl Counters {
    pub fn add(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Relaxed);
    }

    pub fn fire(&self, late: Duration) {
        Self::add(&self.fired, 1);
        self.lateness.record(nanos(late));
    }

    pub fn snapshot(&self) -> TimerStats {
        TimerStats {
            added: self.added.load(Relaxed),
            fired: self.fired.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            panicked: self.panicked.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            wake_ups: self.wake_ups.load(Relaxed),
            lateness: self.lateness.snapshot(),
        }
    }
}
