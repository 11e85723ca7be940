//! A client's alarm: what runs it, on whichever scheduler.

use super::registration::Registration;
#[cfg(feature = "tokio")]
use super::tokio::TaskRegistration;
use crate::epoch::Grace;
use std::time::Duration;

/// What runs a client when its time comes.
#[derive(Debug)]
#[must_use = "dropping an alarm deregisters the client"]
pub enum Alarm {
    Thread(Registration),
    #[cfg(feature = "tokio")]
    Task(TaskRegistration),
}

impl Alarm {
    /// Runs the client when `after` has elapsed, at the latest.
    pub fn wake_within(&self, after: Duration) {
        match self {
            Self::Thread(registration) => registration.wake_within(after),
            #[cfg(feature = "tokio")]
            Self::Task(registration) => registration.wake_within(after),
        }
    }

    /// Runs the client when `after` has elapsed in real time, at the latest. A client that is
    /// inside its `run` has to return the delay that this returns: its deadlines are in real time
    /// anyway.
    pub fn come_back_in_real_time(&self, after: Duration) -> Option<Duration> {
        match self {
            Self::Thread(_) => Some(after),
            #[cfg(feature = "tokio")]
            Self::Task(registration) => {
                registration.wake_within_real_time(after);
                None
            }
        }
    }

    /// Runs the client when a grace period is over. One thread looks after the grace periods of all
    /// clients.
    pub fn wake_after(&self, grace: Grace) {
        match self {
            Self::Thread(registration) => registration.wake_after(grace),
            #[cfg(feature = "tokio")]
            Self::Task(registration) => registration.wake_after(grace),
        }
    }

    /// Deregisters the client now. Does not wait for a run that is in progress.
    pub fn cancel(&self) {
        match self {
            Self::Thread(registration) => registration.cancel(),
            #[cfg(feature = "tokio")]
            Self::Task(registration) => registration.cancel(),
        }
    }
}
