//! Building a cache: the checks of the settings.

use super::Builder;
use crate::cache::Cache;
use crate::clock::nanos;
use crate::config::Config;
use crate::engine::{Engine, Hooks};
use crate::error::BuildError;
use crate::expiration::Lifetimes;
use crate::wheel::Geometry;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

/// The finest tick that [`Builder::expiry_resolution`] accepts.
const FINEST: Duration = Duration::from_millis(1);

/// The methods that build a cache of one type.
macro_rules! build_methods {
    ($cache:ident) => {
        impl<K, V> $crate::Builder<K, V, $cache<K, V>>
        where
            K: ::std::hash::Hash + Eq + Send + Sync + 'static,
            V: Send + Sync + 'static,
        {
            /// Builds the cache with the default hasher: aHash with random keys, which resists
            /// attacks by colliding keys.
            ///
            /// # Panics
            /// If [`try_build`](Self::try_build) returns an error: a setting makes no sense, or the
            /// scheduler's thread cannot be started. The message names the setting.
            #[must_use]
            pub fn build(self) -> $cache<K, V> {
                self.build_with_hasher(ahash::RandomState::new())
            }

            /// Builds the cache like [`build`](Self::build), but returns an error instead of
            /// panicking.
            ///
            /// # Errors
            /// If a setting makes no sense, or the scheduler's thread cannot be started.
            ///
            /// ```
            /// use cortado::Cache;
            /// use std::time::Duration;
            ///
            /// let builder = Cache::<u32, u32>::builder();
            /// let refused = builder.expiry_resolution(Duration::from_micros(1)).try_build();
            /// assert_eq!(refused.unwrap_err().setting(), "expiry_resolution");
            /// ```
            pub fn try_build(self) -> Result<$cache<K, V>, $crate::BuildError> {
                self.try_build_with_hasher(ahash::RandomState::new())
            }

            /// Builds the cache like [`build`](Self::build), with a hasher of your own.
            ///
            /// A weak hasher costs speed and, if its results can be foreseen, resistance against
            /// attacks. It never costs correctness.
            ///
            /// # Panics
            /// As [`build`](Self::build).
            ///
            /// ```
            /// use cortado::Cache;
            /// use std::hash::RandomState;
            ///
            /// // The hash function of the standard library.
            /// let cache: Cache<&str, u32, RandomState> =
            ///     Cache::builder().max_capacity(100).build_with_hasher(RandomState::new());
            /// cache.insert("k", 1);
            /// assert_eq!(cache.get("k"), Some(1));
            /// ```
            #[must_use]
            pub fn build_with_hasher<S>(self, hasher: S) -> $cache<K, V, S>
            where
                S: ::std::hash::BuildHasher + Send + Sync + 'static,
            {
                match self.try_build_with_hasher(hasher) {
                    Ok(cache) => cache,
                    Err(error) => panic!("{error}"),
                }
            }

            /// Builds the cache like [`try_build`](Self::try_build), with a hasher of your own.
            ///
            /// # Errors
            /// As [`try_build`](Self::try_build).
            pub fn try_build_with_hasher<S>(
                self,
                hasher: S,
            ) -> Result<$cache<K, V, S>, $crate::BuildError>
            where
                S: ::std::hash::BuildHasher + Send + Sync + 'static,
            {
                Ok($cache::from_engine(self.into_engine(hasher)?))
            }
        }
    };
}
pub(crate) use build_methods;

build_methods!(Cache);

impl<K, V, C> Builder<K, V, C>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Checks the settings and makes the engine of a cache.
    pub(crate) fn into_engine<S>(self, hasher: S) -> Result<Arc<Engine<K, V, S>>, BuildError>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        let (config, hooks) = self.into_config()?;
        Engine::new(config, hooks, hasher)
            .map_err(|error| BuildError::new("scheduler", format!("its thread: {error}")))
    }

    fn into_config(self) -> Result<(Config, Hooks<K, V>), BuildError> {
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
        const MOST: usize = 1 << 31;
        if self.initial_capacity >= MOST {
            return Err(BuildError::new(
                "initial_capacity",
                "a cache holds fewer than 2^31 entries",
            ));
        }
        if self.removals && !self.hooks.listeners.is_empty() {
            let reason = "a cache has either a receiver of its removals or listeners";
            return Err(BuildError::new("removals", reason));
        }
        let refresh = self.reloads.settings(&self.hooks, self.executor.is_some())?;
        let config = Config {
            name: self.name,
            max_capacity: self.max_capacity,
            initial_capacity: self.initial_capacity,
            eviction: self.eviction,
            weighs: self.hooks.weigher.is_some(),
            lifetimes: Lifetimes { live, idle },
            // A clock that stands still costs no more than this, unless the user asks for it.
            clock_period: self.resolution.map_or(Duration::from_secs(1), |_| geometry.tick()),
            geometry,
            record_stats: self.record_stats,
            clock: self.clock,
            // A model's executions must be repeatable, so the seed is fixed.
            seed: if cfg!(cortado_loom) { 0 } else { ahash::RandomState::new().hash_one("policy") },
            scheduled: self.scheduler,
            has_listener: !self.hooks.listeners.is_empty(),
            receives: self.removals,
            backlogs: self.backlogs,
            notifications: self.notifications,
            executor: self.executor,
            refresh,
        };
        Ok((config, self.hooks))
    }
}
