//! Building a cache.

use super::Builder;
use crate::cache::{Cache, LoadingCache};
use crate::engine::{Asking, TypedReloads, WithHasher};
use crate::error::BuildError;
use crate::hash::random_state;
use crate::loaded::NoValue;
use crate::loader::{Loader, Reload};
use ahash::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

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
    #[track_caller]
    pub fn build(self) -> C
    where
        C: BuildTarget<K, V, Hashed<RandomState> = C>,
    {
        self.build_with_hasher(random_state())
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
        self.try_build_with_hasher(random_state())
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
    #[track_caller]
    pub fn build_with_hasher<S>(self, hasher: S) -> C::Hashed<S>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        BuildError::or_fail(self.try_build_with_hasher(hasher))
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

impl<K, V> Builder<K, V, Cache<K, V>>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Builds a cache that makes missing values itself, by a stored loader, and reloads stale ones.
    ///
    /// [`refresh_after_write`](Self::refresh_after_write) and
    /// [`refresh_after`](Self::refresh_after) say when an entry is stale, and so may the loader
    /// ([`Loaded::refresh_after`](crate::Loaded::refresh_after)). Otherwise only
    /// [`refresh`](LoadingCache::refresh) and [`reload`](LoadingCache::reload) do.
    ///
    /// *Cost*: 8 bytes per entry, as with a soft deadline.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    ///
    /// ```
    /// use cortado::{Cache, Loaded, LoadingCache};
    ///
    /// let lengths: LoadingCache<String, usize, &str> =
    ///     Cache::builder().build_with_loader(|word: String| match word.len() {
    ///         0 => Err("no word"),
    ///         length => Ok(Loaded::new(length)),
    ///     });
    /// assert_eq!(lengths.get("four"), Ok(4));
    /// assert_eq!(*lengths.get("").unwrap_err(), "no word");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn build_with_loader<L: Loader<K, V>>(self, loader: L) -> LoadingCache<K, V, L::Error> {
        BuildError::or_fail(self.try_build_with_loader(loader, random_state()))
    }

    /// Like [`build_with_loader`](Self::build_with_loader), with a hasher of your own, and returns
    /// an error instead of panicking.
    ///
    /// # Errors
    /// As [`try_build`](Self::try_build).
    ///
    /// ```
    /// use cortado::{Cache, Loaded, RandomState};
    /// use std::time::Duration;
    ///
    /// let builder = Cache::<u32, u32>::builder().expiry_resolution(Duration::ZERO);
    /// let double = |n: u32| Ok::<_, ()>(Loaded::new(2 * n));
    /// let refused = builder.try_build_with_loader(double, RandomState::new());
    /// assert_eq!(refused.unwrap_err().setting(), "expiry_resolution");
    /// ```
    pub fn try_build_with_loader<L, S>(
        mut self,
        loader: L,
        hasher: S,
    ) -> Result<LoadingCache<K, V, L::Error, S>, BuildError>
    where
        L: Loader<K, V>,
        S: BuildHasher + Send + Sync + 'static,
    {
        let loader: Arc<dyn Loader<K, V, Error = L::Error>> = Arc::new(loader);
        let reload = Arc::clone(&loader);
        self.use_loader(Some(Arc::new(move |key: &K, old: &V| {
            reload.reload(key, old).map_err(|error| NoValue::Failed(Arc::new(error)))
        })));
        self.config.use_workers();
        let cache = self.into_cache(hasher)?;
        cache.engine().start_reloads();
        Ok(LoadingCache { cache, loader })
    }
}

impl<K, V, C, M> Builder<K, V, C, M>
where
    K: Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// The cache has a stored loader. `reload` calls it for a reload, unless it awaits.
    pub(crate) fn use_loader(&mut self, reload: Option<Reload<K, V>>) {
        self.hooks.asking = Some(Asking::OF_INSERTS);
        self.config.refresh.has_loader = true;
        let policy = self.hooks.refresh.take();
        let reloads = TypedReloads::new(self.config.refresh, policy, reload);
        self.hooks.reloads = Some(Box::new(reloads));
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
            .map(|inner| Cache { inner })
            .map_err(|error| BuildError::new("scheduler", format!("its thread: {error}")))
    }
}
