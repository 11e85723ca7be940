//! The kinds of [flights](super::flights), their outcomes, and the obstacles to a commit.

use crate::clock::Timestamp;
use crate::loaded::NoValue;
use crate::pool::RawHandle;

/// Why a commit did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The bucket changed since the search. The operation must search again.
    Changed,
    /// A load or computation in the same shard may have the key. The operation must compare keys
    /// and come back with a [`Clearance`](super::flights::Clearance).
    Flight,
    /// The load's key was written, or everything was cleared, since the load began.
    Overtaken,
    /// The key's entry is not the one that the hooks were asked about.
    EntryChanged,
}

/// What a flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightKind {
    Load,
    /// A load of a key that has a living entry, which it is to replace. Computations overtake it.
    Reload,
    /// A computation, or another operation that takes the key exclusively.
    Exclusive,
}

/// The outcome of a load, which its waiters share.
#[derive(Clone)]
pub enum LoadOutcome {
    Value(LoadedNode),
    NoValue(NoValue),
}

/// The value of a load.
#[derive(Clone)]
pub struct LoadedNode {
    pub node: RawHandle,
    /// The end of the value's life. [`NEVER`](crate::clock::NEVER) for a value that was refused
    /// (no lifetime, or too heavy): every waiter that had joined still gets it.
    pub ends: Timestamp,
    /// What the waiters are told of the end: the same, also for a value that was refused.
    pub deadline: Timestamp,
    /// True if this load's loader made the value; false if the load found an entry after it had
    /// registered.
    pub is_made: bool,
}
