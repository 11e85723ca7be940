//! Loads.

use super::Cache;
use crate::engine::Owned;
use crate::loaded::{Loaded, LoaderResult};
use crate::to_key::ToKey;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns a clone of the key's value; if the key has none, `init` makes one.
    ///
    /// Only one caller at a time runs its `init`. The others wait and share its result. The lookup
    /// counts as a read, like [`get`](Self::get). A stale value is returned, too.
    ///
    /// *Atomicity*: the value enters the cache as by [`insert`](Self::insert), with two exceptions:
    ///
    /// * If the key got a value meanwhile, the call returns that value instead.
    /// * If the key was removed or the cache cleared meanwhile, the callers get the value, but the
    ///   cache does not keep it. So a load that began before an invalidation never undoes it.
    ///
    /// A value that is not kept (also one with a lifetime of zero) is returned to all callers that
    /// waited for it. The listener is not told of a value that was overtaken by a removal, since it
    /// was never inside. As after an insert, it is told of a value with a lifetime of zero, and of
    /// one that is too heavy.
    ///
    /// *Other loads of the key*: a call waits for every load of its key, whatever method began it.
    /// If that load made no value, a caller of this method runs its own `init` next.
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way.
    ///
    /// *Callbacks*: `init` runs on this thread, with no lock held, and may use the cache.
    ///
    /// # Panics
    /// A panic of `init` reaches its caller, and the key is as before. One of the callers who
    /// waited runs its own `init` next. Panics if `init` asks for the very key that it loads.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// assert_eq!(cache.get_with("k", || 7), 7);
    /// assert_eq!(cache.get_with("k", || unreachable!("it is there")), 7);
    /// ```
    pub fn get_with(&self, key: K, init: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        Loaded::<V>::shared(self.engine().load_value(Owned(key), loaded(init)))
    }

    /// Like [`get_with`](Self::get_with), but clones the key only to load.
    ///
    /// ```
    /// let cache: cortado::Cache<String, usize> = cortado::Cache::new(100);
    /// assert_eq!(cache.get_with_by_ref("key", || 3), 3);
    /// ```
    pub fn get_with_by_ref<Q>(&self, key: &Q, init: impl FnOnce() -> V) -> V
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        Loaded::<V>::shared(self.engine().load_value(key, loaded(init)))
    }

    /// Returns a clone of the key's value; if the key has none, or one for which `replace_if`
    /// returns true, `init` makes one.
    ///
    /// It is [`or_insert_with_if`](crate::KeyEntry::or_insert_with_if) by another name, for
    /// programs that come from moka.
    pub fn get_with_if(
        &self,
        key: K,
        init: impl FnOnce() -> V,
        replace_if: impl FnMut(&V) -> bool,
    ) -> V
    where
        V: Clone,
    {
        self.entry(key).or_insert_with_if(init, replace_if).into_value()
    }

    /// Returns a clone of the key's value; if the key has none, `init` may make one.
    ///
    /// If `init` returns `None`, nothing is cached, and every caller who waited for it gets `None`.
    /// To cache that there is no value, use an `Option` or an enum as the cache's value type.
    /// Otherwise like [`get_with`](Self::get_with).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// assert_eq!(cache.optionally_get_with("k", || None), None);
    /// assert_eq!(cache.optionally_get_with("k", || Some(7)), Some(7));
    /// assert_eq!(cache.get("k"), Some(7));
    /// ```
    pub fn optionally_get_with<F>(&self, key: K, init: F) -> Option<V>
    where
        F: FnOnce() -> Option<V>,
        V: Clone,
    {
        self.engine().load_value(Owned(key), || init().map(Loaded::new)).ok()
    }

    /// Like [`optionally_get_with`](Self::optionally_get_with), but clones the key only to
    /// load.
    ///
    /// ```
    /// let cache: cortado::Cache<String, usize> = cortado::Cache::new(100);
    /// assert_eq!(cache.optionally_get_with_by_ref("key", || None), None);
    /// ```
    pub fn optionally_get_with_by_ref<F, Q>(&self, key: &Q, init: F) -> Option<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: FnOnce() -> Option<V>,
        V: Clone,
    {
        self.engine().load_value(key, || init().map(Loaded::new)).ok()
    }

    /// Returns a clone of the key's value; if the key has none, `init` makes one or fails.
    ///
    /// If `init` fails, nothing is cached. Every caller who waited for it and has the same error
    /// type gets the same error; a caller with another one runs its own `init` next. To cache a
    /// failure, use a `Result` as the cache's value type, with a lifetime for each variant.
    /// Otherwise like [`get_with`](Self::get_with).
    ///
    /// # Errors
    /// The error that `init` returned, of this call or of the one that it waited for.
    ///
    /// ```
    /// let cache: cortado::Cache<&str, u16> = cortado::Cache::new(100);
    /// let error = cache.try_get_with("port", || "http".parse()).unwrap_err();
    /// assert!(error.to_string().contains("invalid digit"));
    /// assert_eq!(cache.try_get_with("port", || "80".parse()), Ok(80));
    /// ```
    pub fn try_get_with<F, E>(&self, key: K, init: F) -> Result<V, Arc<E>>
    where
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
        V: Clone,
    {
        self.engine().load_value(Owned(key), || init().map(Loaded::new))
    }

    /// Like [`try_get_with`](Self::try_get_with), but clones the key only to load.
    ///
    /// # Errors
    /// As [`try_get_with`](Self::try_get_with).
    ///
    /// ```
    /// let cache: cortado::Cache<String, u16> = cortado::Cache::new(100);
    /// assert_eq!(cache.try_get_with_by_ref("port", || "80".parse::<u16>()), Ok(80));
    /// ```
    pub fn try_get_with_by_ref<F, E, Q>(&self, key: &Q, init: F) -> Result<V, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
        V: Clone,
    {
        self.engine().load_value(key, || init().map(Loaded::new))
    }

    /// Returns a clone of the key's value; if the key has none, `loader` makes one and may say how
    /// long it lives.
    ///
    /// The loader returns a [`Loaded`], or an `Option` or a `Result` of it, and the call returns
    /// the same with the value in its place ([table](LoaderResult)). Otherwise like
    /// [`get_with`](Self::get_with), [`optionally_get_with`](Self::optionally_get_with) and
    /// [`try_get_with`](Self::try_get_with).
    ///
    /// ```
    /// use cortado::{Cache, Clock, Loaded};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let leases: Cache<&str, u32> = Cache::builder().clock(clock).build();
    /// let lease = leases.load("printer", || Loaded::with_ttl(1, Duration::from_secs(30)));
    /// assert_eq!(lease, 1);
    /// hand.advance(Duration::from_secs(30));
    /// assert_eq!(leases.load("printer", || Some(Loaded::new(2))), Some(2));
    /// ```
    pub fn load<R: LoaderResult<V>>(&self, key: K, loader: impl FnOnce() -> R) -> R::Shared<V>
    where
        V: Clone,
    {
        R::shared(self.engine().load_value(Owned(key), loader))
    }

    /// Like [`load`](Self::load), but clones the key only to load.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::time::Duration;
    ///
    /// let leases: Cache<String, u32> = Cache::new(100);
    /// let lease = leases.load_by_ref("printer", || Loaded::with_ttl(1, Duration::from_secs(30)));
    /// assert_eq!(lease, 1);
    /// ```
    pub fn load_by_ref<Q, R: LoaderResult<V>>(
        &self,
        key: &Q,
        loader: impl FnOnce() -> R,
    ) -> R::Shared<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        R::shared(self.engine().load_value(key, loader))
    }
}

/// The value of a loader that says nothing of its lifetime.
pub(super) fn loaded<V>(init: impl FnOnce() -> V) -> impl FnOnce() -> Loaded<V> {
    move || Loaded::new(init())
}
