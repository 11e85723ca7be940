//! A client's alarm: what runs it, on whichever scheduler.

use crate::epoch::Grace;
use std::time::Duration;

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
