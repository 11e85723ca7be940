//! What the scheduler knows of a client.

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
