//! What the scheduler knows of a client, and the client of the scheduler.

use crate::clock::{NEVER, Timestamp};
use crate::epoch::Grace;
use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use crate::primitives::guarded::GuardedU64;
use std::time::Duration;

/// A client of the scheduler: anything that has work to do at certain times.
pub trait Scheduled: Send + Sync {
    /// Does the work that is due. Returns the delay after which the client wants to run again;
    /// `None` means when it is armed again.
    fn run(&self) -> Option<Duration>;
}

/// What runs a client when its time comes. Dropping it deregisters the client.
pub trait Alarm: Send + Sync {
    /// Runs the client when `after` has elapsed, at the latest. The run sees everything that the
    /// caller did before this call.
    fn wake_within(&self, after: Duration);

    /// Runs the client when `after` has elapsed in real time, at the latest. A client that is
    /// inside its `run` has to return the delay that this returns: its deadlines are in real time
    /// anyway.
    fn come_back_in_real_time(&self, after: Duration) -> Option<Duration>;

    /// Runs the client when a grace period is over. One thread looks after the grace periods of all
    /// clients. A client waits for one grace period at a time: while it waits for one, this does
    /// nothing.
    fn wake_after(&self, grace: Grace);

    /// Deregisters the client now. Does not wait for a run that is in progress.
    fn cancel(&self);
}

/// The number of a client, in the order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct ClientId(pub u64);

/// What one client waits for.
#[derive(Debug)]
pub(super) struct Armed {
    /// The deadline, as other threads may read it without the lock.
    at: AtomicU64,
    /// The grace period that it waits for, if it does. Under the lock.
    grace: GuardedU64,
}

impl Armed {
    pub fn new() -> Self {
        Self { at: AtomicU64::new(NEVER.raw()), grace: GuardedU64::new(Grace::to_word(None)) }
    }

    pub fn get(&self) -> Timestamp {
        Timestamp::from_raw(self.at.load(Relaxed))
    }

    pub fn set(&self, at: Timestamp) {
        self.at.store(at.raw(), Relaxed);
    }

    pub fn grace(&self) -> Option<Grace> {
        Grace::from_word(self.grace.load(Relaxed))
    }

    pub fn set_grace(&self, grace: Option<Grace>) {
        self.grace.store(Grace::to_word(grace), Relaxed);
    }
}
