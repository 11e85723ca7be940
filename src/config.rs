//! The settings of a cache: plain values, checked by the builder.

use crate::clock::Clock;
#[cfg(not(cortado_loom))]
use crate::executor::Workers;
use crate::executor::{Execute, Job};
use crate::expiration::Lifetimes;
use crate::wheel::Geometry;
use std::fmt;
use std::sync::Arc;

/// All settings of a cache that do not depend on the user's types.
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
    /// Seed of the eviction policy's random choices.
    pub seed: u64,
    pub scheduled: bool,
    /// Whether there is a removal listener.
    pub has_listener: bool,
    /// The limit of waiting notifications.
    pub notifications: Notifications,
    /// The executor of deliveries, if the builder was given one.
    pub executor: Option<Executor>,
}

/// The reaction of the cache when the queue of notifications reaches its
/// [limit](crate::Builder::notification_limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// After their operation, writers help to deliver or wait.
    Wait,
    /// Further notifications are discarded and counted.
    Discard,
}

/// The limit of waiting notifications and the reaction to reaching it; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifications(pub Option<(usize, Overflow)>);

impl Notifications {
    /// The limit, if `overflow` is the reaction to reaching it.
    pub fn of(self, overflow: Overflow) -> Option<usize> {
        self.0.filter(|(_, then)| *then == overflow).map(|(limit, _)| limit)
    }
}

/// The executor of a cache's jobs: the workers of the process, or one of the user's own.
#[derive(Clone, Default)]
pub enum Executor {
    #[default]
    Workers,
    Own(Arc<dyn Execute>),
}

impl Executor {
    /// Whether unrelated caches share the executor and it never runs a job inside another one. Only
    /// the workers of the process meet both conditions.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Workers)
    }

    /// Hands a job over. The caller must hold no lock.
    pub fn execute(&self, job: Job) {
        match self {
            // A model has no process, and so no workers of one. The work waits for the next caller.
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
