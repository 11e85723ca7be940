//! What a builder has settled on: plain values, checked.

use crate::clock::Clock;
#[cfg(not(cortado_loom))]
use crate::executor::Workers;
use crate::executor::{Execute, Job};
use crate::expiration::Lifetimes;
use crate::wheel::Geometry;
use std::fmt;
use std::sync::Arc;

/// Everything about a cache that is not a type of the user's.
#[derive(Debug)]
pub struct Config {
    pub name: Option<String>,
    pub max_capacity: Option<u64>,
    pub initial_capacity: usize,
    /// Whether there is a weigher.
    pub weighs: bool,
    pub lifetimes: Lifetimes,
    pub geometry: Geometry,
    pub record_stats: bool,
    pub clock: Clock,
    /// Seeds the policy's coins.
    pub seed: u64,
    pub scheduled: bool,
    /// Whether removals are announced to a listener.
    pub announces: bool,
    /// How many notices may wait, and what happens to more.
    pub notifications: Notifications,
    /// Where deliveries run, if the builder was told.
    pub executor: Option<Executor>,
}

/// What happens when as many notifications wait for the listener as
/// [`Builder::notification_limit`](crate::Builder::notification_limit) allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Writers help to deliver, or wait, after their operation.
    Wait,
    /// Further notifications are discarded and counted.
    Discard,
}

/// How many notices may wait, and what happens to more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifications(pub Option<(usize, Overflow)>);

impl Notifications {
    /// The limit, if this is what happens there.
    pub fn of(self, overflow: Overflow) -> Option<usize> {
        self.0.filter(|(_, then)| *then == overflow).map(|(limit, _)| limit)
    }
}

/// Where jobs run: with the process's workers, or where the user says.
#[derive(Clone, Default)]
pub enum Executor {
    #[default]
    Workers,
    Own(Arc<dyn Execute>),
}

impl Executor {
    /// Whether caches that have nothing to do with each other have their jobs here, and none runs
    /// inside another.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Workers)
    }

    /// Hands a job over. With no lock held.
    pub fn execute(&self, job: Job) {
        match self {
            // A model has no process, and so no workers of one: the work waits for the next caller.
            #[cfg(cortado_loom)]
            Self::Workers => drop(job),
            #[cfg(not(cortado_loom))]
            Self::Workers => Workers::global().execute(job),
            Self::Own(executor) => executor.execute(job),
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workers => "Workers",
            Self::Own(_) => "Own",
        })
    }
}
