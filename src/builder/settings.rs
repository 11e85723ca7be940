//! The settings that do not depend on the types of keys and values. Compiled once, for all caches
//! of a program.

use super::refresh_settings::Refresh;
use crate::clock::{Clock, nanos};
use crate::config::{Config, EvictionPolicy, Executor, Notifications};
use crate::engine::HookFacts;
use crate::error::BuildError;
use crate::expiration::Lifetimes;
use crate::primitives::atomic::AtomicUsize;
use crate::primitives::plain::Arc;
use crate::wheel::Geometry;
use std::time::Duration;

/// The finest tick that [`Builder::expiry_resolution`](crate::Builder::expiry_resolution) accepts.
const FINEST: Duration = Duration::from_millis(1);
/// A cache has room for fewer entries than this.
const MAX_ENTRIES: usize = 1 << 31;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Settings {
    pub(super) name: Option<String>,
    pub(super) max_capacity: Option<u64>,
    pub(super) eviction: EvictionPolicy,
    pub(super) initial_capacity: usize,
    pub(super) time_to_live: Option<Duration>,
    pub(super) time_to_idle: Option<Duration>,
    pub(super) resolution: Option<Duration>,
    pub(super) record_stats: bool,
    pub(super) scheduler: bool,
    pub(super) executor: Option<Executor>,
    pub(super) notifications: Notifications,
    pub(super) removals: bool,
    pub(super) reloads: Refresh,
    /// How many notices wait for each listener that awaits.
    pub(crate) backlogs: Vec<Arc<AtomicUsize>>,
    /// `None` means the system's clock.
    pub(super) clock: Option<Clock>,
}

impl Settings {
    pub(super) fn clock(&self) -> Clock {
        self.clock.clone().unwrap_or_else(Clock::system)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub(super) fn into_config(self, hooks: HookFacts) -> Result<Config, BuildError> {
        let live = self.time_to_live.map(nanos);
        let idle = self.time_to_idle.map(nanos);
        let geometry = match self.resolution {
            Some(resolution) if resolution < FINEST => {
                let reason = format!("{resolution:?} is finer than the finest, {FINEST:?}");
                return Err(BuildError::new("expiry_resolution", reason));
            }
            Some(resolution) => Geometry::with_resolution(resolution),
            None => Geometry::default(),
        };
        if self.initial_capacity >= MAX_ENTRIES {
            return Err(BuildError::new(
                "initial_capacity",
                "a cache holds fewer than 2^31 entries",
            ));
        }
        if self.removals && hooks.has_listener {
            let reason = "a cache has either a receiver of its removals or listeners";
            return Err(BuildError::new("removals", reason));
        }
        let refresh = self.reloads.settings(hooks.refreshes, self.executor.is_some())?;
        let clock = self.clock();
        Ok(Config {
            name: self.name,
            max_capacity: self.max_capacity,
            initial_capacity: self.initial_capacity,
            eviction: self.eviction,
            weighs: hooks.weighs,
            lifetimes: Lifetimes { live, idle },
            // A clock that stands still costs no more than this, unless the user asks for it.
            clock_period: self.resolution.map_or(Duration::from_secs(1), |_| geometry.tick()),
            geometry,
            record_stats: self.record_stats,
            clock,
            // A model's executions must be repeatable, so the seed is fixed.
            seed: if cfg!(cortado_loom) { 0 } else { ahash::RandomState::new().hash_one("policy") },
            scheduled: self.scheduler,
            has_listener: hooks.has_listener,
            receives: self.removals,
            backlogs: self.backlogs,
            notifications: self.notifications,
            executor: self.executor,
            refresh,
        })
    }
}
