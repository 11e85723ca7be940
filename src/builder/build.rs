//! Building a cache.

use super::Builder;
use crate::cache::Cache;
use crate::engine::Engine;
use crate::error::BuildError;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

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
                self.try_build_with_hasher(hasher).unwrap_or_else(|error| error.fail())
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
        let Self { mut config, hooks, target: _ } = self;
        config.weighs = hooks.weigher.is_some();
        config.has_listener = !hooks.listeners.is_empty();
        config.refresh.has_policy = hooks.refresh.is_some();
        config.check()?;
        Engine::new(config, hooks, hasher)
            .map_err(|error| BuildError::new("scheduler", format!("its thread: {error}")))
    }
}
