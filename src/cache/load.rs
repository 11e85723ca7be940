//! Loads.

use super::Cache;
use crate::clock::ReadTimes;
use crate::entry::Entry;
use crate::key_source::OwnedKey;
use crate::loaded::{Loaded, LoaderResult};
use crate::to_key::ToKey;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns a clone of the key's value; if the key has none, `loader` makes one, and may say how
    /// long it lives.
    ///
    /// The loader returns a [`Loaded`], or an `Option` or a `Result` of it, and the call returns
    /// the same with the value in its place ([table](LoaderResult)). With `None` and with an error
    /// nothing is cached. (To cache that there is no value, or a failure, use an `Option`, an enum
    /// or a `Result` as the cache's value type, with a lifetime for each variant.)
    ///
    /// Only one caller at a time runs its `loader`. The others wait and share its result. The
    /// lookup counts as a read, like [`get`](Self::get). A stale value is returned, too.
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
    /// If that load made no value, and its `None` or error does not fit what this call returns,
    /// this call runs its own `loader` next. An error fits if it has the same type.
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way.
    /// [`within`](Self::within) limits such a wait.
    ///
    /// *Callbacks*: `loader` runs on this thread, with no lock held, and may use the cache.
    ///
    /// # Panics
    /// A panic of `loader` reaches the caller of `load`, and the key is as before. One of the
    /// callers that waited runs its own `loader` next. Also panics if `loader` loads or
    /// computes its own key; it may read, insert or remove that key.
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
        R::shared(self.inner.load_value(self.inner.source(OwnedKey(key)), loader))
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
        R::shared(self.inner.load_value(self.inner.source(key), loader))
    }

    /// Returns a clone of the key's value; if the key has none, or one for which `replace_if`
    /// returns true, `loader` makes one, and may say how long it lives.
    ///
    /// `loader` gets the entry that its value will replace, or `None`. If it makes no value, that
    /// entry stays, and the call returns the loader's `None` or error.
    ///
    /// If `replace_if` returns true, the read counts as a miss, records no use, prolongs no life
    /// and triggers no reload. The exception is an entry that another call writes while
    /// `replace_if` is called: that entry is read first, and judged then. If `replace_if`
    /// returns false, a stale value is returned like any other. The key is cloned only to load.
    /// Otherwise like [`load`](Self::load).
    ///
    /// *Atomicity*: the value replaces the entry that was judged. If the key has got another one
    /// meanwhile, that one is judged: the call returns it if `replace_if` returns false, and else
    /// its own value, which the cache does not keep. A value that another call loads while this one
    /// waits for it is not judged.
    ///
    /// *Callbacks*: `replace_if` runs on this thread, with no lock held, once for each entry of the
    /// key that the call meets. It must not write the key: that write panics. It has the opposite
    /// sense of the condition of [`get_if`](Self::get_if).
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    ///
    /// let versions: Cache<&str, u32> = Cache::new(100);
    /// let at_least = |version: u32| {
    ///     versions.load_if(
    ///         &"config",
    ///         |old| Ok::<_, &str>(Loaded::new(old.map_or(1, |old| *old + 1))),
    ///         |found, _times| *found < version,
    ///     )
    /// };
    /// assert_eq!(at_least(1), Ok(1));
    /// assert_eq!(at_least(1), Ok(1));
    /// assert_eq!(at_least(2), Ok(2));
    /// ```
    pub fn load_if<Q, R: LoaderResult<V>>(
        &self,
        key: &Q,
        loader: impl FnOnce(Option<Entry<K, V>>) -> R,
        mut replace_if: impl FnMut(&V, ReadTimes) -> bool,
    ) -> R::Shared<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let entry = self.inner.load(self.inner.source(key), loader, Some(&mut replace_if));
        R::shared(entry.map(Entry::into_value))
    }
}

/// # Loads by moka's names
///
/// Each is a [`load`](Self::load) whose value lives as the cache's settings say. `..by_ref` clones
/// the key only to load.
impl<K: Hash + Eq, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// [`load`](Self::load) by a closure that makes the value.
    pub fn get_with(&self, key: K, init: impl FnOnce() -> V) -> V {
        self.load(key, || Loaded::new(init()))
    }

    /// [`load_by_ref`](Self::load_by_ref) by a closure that makes the value.
    pub fn get_with_by_ref<Q>(&self, key: &Q, init: impl FnOnce() -> V) -> V
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        self.load_by_ref(key, || Loaded::new(init()))
    }

    /// A load with a condition, as [`load_if`](Self::load_if) is, by a closure that makes the
    /// value.
    #[deprecated(note = "use `load_if`, or `entry(key).or_insert_with_if(..)`")]
    pub fn get_with_if(
        &self,
        key: K,
        init: impl FnOnce() -> V,
        replace_if: impl FnMut(&V) -> bool,
    ) -> V {
        self.entry(key).or_insert_with_if(init, replace_if).into_value()
    }

    /// [`load`](Self::load) by a closure that may make a value.
    pub fn optionally_get_with<F>(&self, key: K, init: F) -> Option<V>
    where
        F: FnOnce() -> Option<V>,
    {
        self.load(key, || init().map(Loaded::new))
    }

    /// [`load_by_ref`](Self::load_by_ref) by a closure that may make a value.
    pub fn optionally_get_with_by_ref<F, Q>(&self, key: &Q, init: F) -> Option<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: FnOnce() -> Option<V>,
    {
        self.load_by_ref(key, || init().map(Loaded::new))
    }

    /// [`load`](Self::load) by a closure that makes the value or fails.
    ///
    /// # Errors
    /// The error that `init` returned, of this call or of the one that it waited for.
    pub fn try_get_with<F, E>(&self, key: K, init: F) -> Result<V, Arc<E>>
    where
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
    {
        self.load(key, || init().map(Loaded::new))
    }

    /// [`load_by_ref`](Self::load_by_ref) by a closure that makes the value or fails.
    ///
    /// # Errors
    /// As [`try_get_with`](Self::try_get_with).
    pub fn try_get_with_by_ref<F, E, Q>(&self, key: &Q, init: F) -> Result<V, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
    {
        self.load_by_ref(key, || init().map(Loaded::new))
    }
}
