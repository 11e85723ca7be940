//! Building a cache.

use super::Builder;
use crate::cache::Cache;
use crate::engine::WithHasher;
use crate::error::BuildError;
use ahash::RandomState;
use std::hash::{BuildHasher, Hash};

/// A type of cache that a [`Builder`] builds: [`Cache`], [`future::Cache`](crate::future::Cache) or
/// [`sync::SegmentedCache`](crate::sync::SegmentedCache). The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "no builder builds `{Self}`",
    note = "it builds `cortado::Cache<K, V>`, `future::Cache<K, V>`, `sync::SegmentedCache<K, V>`"
)]
pub trait BuildTarget<K, V>: sealed::Sealed {
    /// The same type of cache with another hasher.
    type Hashed<S>;

    #[doc(hidden)]
    fn of_cache<S>(cache: Cache<K, V, S>) -> Self::Hashed<S>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl<K, V> sealed::Sealed for Cache<K, V> {}

impl<K, V> BuildTarget<K, V> for Cache<K, V> {
    type Hashed<S> = Cache<K, V, S>;

    fn of_cache<S>(cache: Cache<K, V, S>) -> Cache<K, V, S> {
        cache
    }
}

impl<K, V, C, M> Builder<K, V, C, M>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    C: BuildTarget<K, V>,
{
    /// Builds the cache with the default hasher: aHash with random keys, which resists attacks by
    /// colliding keys.
    ///
    /// # Panics
    /// If [`try_build`](Self::try_build) returns an error: a setting makes no sense, or the
    /// scheduler's thread cannot be started. The message names the setting.
    #[must_use]
    pub fn build(self) -> C
    where
        C: BuildTarget<K, V, Hashed<RandomState> = C>,
    {
        self.build_with_hasher(RandomState::new())
    }

    /// Builds the cache like [`build`](Self::build), but returns an error instead of panicking.
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
    pub fn try_build(self) -> Result<C, BuildError>
    where
        C: BuildTarget<K, V, Hashed<RandomState> = C>,
    {
        self.try_build_with_hasher(RandomState::new())
    }

    /// Builds the cache like [`build`](Self::build), with a hasher of your own.
    ///
    /// A weak hasher costs speed and, if its results can be foreseen, resistance against attacks.
    /// It never costs correctness.
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
    pub fn build_with_hasher<S>(self, hasher: S) -> C::Hashed<S>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        self.try_build_with_hasher(hasher).unwrap_or_else(|error| error.fail())
    }

    /// Builds the cache like [`try_build`](Self::try_build), with a hasher of your own.
    ///
    /// # Errors
    /// As [`try_build`](Self::try_build).
    pub fn try_build_with_hasher<S>(self, hasher: S) -> Result<C::Hashed<S>, BuildError>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        Ok(C::of_cache(self.into_cache(hasher)?))
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, C, M> Builder<K, V, C, M> {
    /// Checks the settings and makes the cache for threads.
    pub(crate) fn into_cache<S>(self, hasher: S) -> Result<Cache<K, V, S>, BuildError>
    where
        S: Send + Sync + 'static,
    {
        let Self { mut config, hooks, target: _ } = self;
        config.weighs = hooks.weigher.is_some();
        config.has_listener = !hooks.listeners.is_empty();
        config.refresh.has_policy = hooks.refresh.is_some();
        config.check()?;
        WithHasher::new(&config, hooks, hasher)
            .map(Cache::of_engine)
            .map_err(|error| BuildError::new("scheduler", format!("its thread: {error}")))
    }
}
