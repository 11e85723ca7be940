//! The place of one key: loads and computations that return handles.

use super::Cache;
use crate::compute::{CompResult, Op};
use crate::entry::Entry;
use crate::key_source::{KeySource, OwnedKey};
use crate::loaded::{Loaded, LoaderResult};
use crate::macros::debug_fields;
use crate::to_key::ToKey;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

/// The place of one key in a cache; see [`Cache::entry`] and [`Cache::entry_by_ref`].
///
/// `Src` is where the key comes from: by value, or a reference to a borrowed form of it.
pub struct KeyEntry<'c, K, V, S, Src = OwnedKey<K>> {
    cache: &'c Cache<K, V, S>,
    key: Src,
}

debug_fields!(impl[K, V, S, Src: std::fmt::Debug] KeyEntry<'_, K, V, S, Src>, |it| key: it.key);

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns the place of a key, to load or compute its value atomically.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// let entry = cache.entry("k").or_insert(7);
    /// assert_eq!((*entry.key(), *entry.value()), ("k", 7));
    /// ```
    #[must_use]
    pub fn entry(&self, key: K) -> KeyEntry<'_, K, V, S> {
        KeyEntry { cache: self, key: OwnedKey(key) }
    }

    /// Returns the place of a key that is given by reference.
    ///
    /// A hit makes no key. A load makes one on a miss, and a computation makes one at once.
    /// Otherwise like [`entry`](Self::entry).
    ///
    /// ```
    /// let cache: cortado::Cache<String, u32> = cortado::Cache::new(100);
    /// assert_eq!(*cache.entry_by_ref("k").or_insert(7), 7);
    /// assert_eq!(cache.get("k"), Some(7));
    /// ```
    #[must_use]
    pub fn entry_by_ref<'a, Q>(&'a self, key: &'a Q) -> KeyEntry<'a, K, V, S, &'a Q>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        KeyEntry { cache: self, key }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, Src: KeySource<K>> KeyEntry<'_, K, V, S, Src> {
    /// Returns a handle on the key's entry; if the key has none, inserts `default`.
    ///
    /// A stale value is returned, and `default` does not replace it. Otherwise like
    /// [`or_insert_with`](Self::or_insert_with).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// assert_eq!(*cache.entry("k").or_insert(1), 1);
    /// assert_eq!(*cache.entry("k").or_insert(2), 1);
    /// ```
    pub fn or_insert(self, default: V) -> Entry<K, V> {
        self.or_load_with(|| Loaded::new(default))
    }

    /// Returns a handle on the key's entry; if the key has none, inserts `default` with a lifetime
    /// of its own, as [`insert_with_ttl`](Cache::insert_with_ttl) gives it.
    ///
    /// With a `ttl` of zero the cache does not keep the value. Otherwise like
    /// [`or_insert`](Self::or_insert).
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::Duration;
    ///
    /// let seen: Cache<&str, ()> = Cache::new(100);
    /// let is_first = |request| {
    ///     seen.entry(request).or_insert_with_ttl((), Duration::from_secs(3600)).is_fresh()
    /// };
    /// assert!(is_first("a") && !is_first("a"));
    /// ```
    pub fn or_insert_with_ttl(self, default: V, ttl: Duration) -> Entry<K, V> {
        self.or_load_with(|| Loaded::with_ttl(default, ttl))
    }

    /// Returns a handle on the key's entry; if the key has none, inserts the type's default.
    ///
    /// A stale value is returned, and not replaced. Otherwise like
    /// [`or_insert_with`](Self::or_insert_with).
    ///
    /// ```
    /// let counters: cortado::Cache<&str, u64> = cortado::Cache::new(100);
    /// assert_eq!(*counters.entry("k").or_default(), 0);
    /// ```
    pub fn or_default(self) -> Entry<K, V>
    where
        V: Default,
    {
        self.or_load_with(|| Loaded::new(V::default()))
    }

    /// Returns a handle on the key's entry; if the key has none, `init` makes the value.
    ///
    /// [`is_fresh`](Entry::is_fresh) tells whether this call's `init` made it. Otherwise like
    /// [`Cache::get_with`], but without a clone.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// let first = cache.entry("k").or_insert_with(|| 1);
    /// let second = cache.entry("k").or_insert_with(|| 2);
    /// assert!(first.is_fresh() && !second.is_fresh());
    /// assert_eq!(*second, 1);
    /// ```
    pub fn or_insert_with(self, init: impl FnOnce() -> V) -> Entry<K, V> {
        self.or_load_with(|| Loaded::new(init()))
    }

    /// Returns a handle on the key's entry; if the key has none, or one for which `replace_if`
    /// returns true, `init` makes the value.
    ///
    /// A value that another call loads while this one waits for it is not judged. A stale value
    /// for which `replace_if` returns false is returned, and not reloaded. If the key gets a
    /// value meanwhile for which `replace_if` returns true, the call returns its own, and the
    /// cache does not keep it. Otherwise like [`or_insert_with`](Self::or_insert_with).
    ///
    /// *Callbacks*: `replace_if` runs on this thread, with no lock held, once for each entry of
    /// the key that the call meets. It must not write the key: that write panics.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("version", 1);
    /// let entry = cache.entry("version").or_insert_with_if(|| 2, |version| *version < 2);
    /// assert!(entry.is_old_value_replaced());
    /// assert_eq!(*entry, 2);
    /// ```
    pub fn or_insert_with_if(
        self,
        init: impl FnOnce() -> V,
        mut replace_if: impl FnMut(&V) -> bool,
    ) -> Entry<K, V> {
        let (engine, init) = (&self.cache.inner, |_| Loaded::new(init()));
        let mut condition = |value: &V, _| replace_if(value);
        Loaded::<V>::shared(engine.load(engine.source(self.key), init, Some(&mut condition)))
    }

    /// Returns a handle on the key's entry; if the key has none, `init` may make the value.
    ///
    /// Otherwise like [`Cache::optionally_get_with`], but without a clone.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// assert!(cache.entry("k").or_optionally_insert_with(|| None).is_none());
    /// let entry = cache.entry("k").or_optionally_insert_with(|| Some(7)).unwrap();
    /// assert_eq!(*entry, 7);
    /// ```
    pub fn or_optionally_insert_with(
        self,
        init: impl FnOnce() -> Option<V>,
    ) -> Option<Entry<K, V>> {
        self.or_load_with(|| init().map(Loaded::new))
    }

    /// Returns a handle on the key's entry; if the key has none, `init` makes the value or
    /// fails.
    ///
    /// Otherwise like [`Cache::try_get_with`], but without a clone.
    ///
    /// # Errors
    /// The error that `init` returned, of this call or of the one that it waited for.
    ///
    /// ```
    /// let cache: cortado::Cache<&str, u16> = cortado::Cache::new(100);
    /// assert!(cache.entry("port").or_try_insert_with(|| "http".parse::<u16>()).is_err());
    /// let entry = cache.entry("port").or_try_insert_with(|| "80".parse::<u16>()).unwrap();
    /// assert_eq!((*entry, entry.is_fresh()), (80, true));
    /// ```
    pub fn or_try_insert_with<F, E>(self, init: F) -> Result<Entry<K, V>, Arc<E>>
    where
        F: FnOnce() -> Result<V, E>,
        E: Send + Sync + 'static,
    {
        self.or_load_with(|| init().map(Loaded::new))
    }

    /// Returns a handle on the key's entry; if the key has none, `loader` makes the value and
    /// may say how long it lives.
    ///
    /// Otherwise like [`Cache::load`], but without a clone.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::time::Duration;
    ///
    /// let leases: Cache<&str, u32> = Cache::new(100);
    /// let lease =
    ///     leases.entry("printer").or_load_with(|| Loaded::with_ttl(1, Duration::from_secs(30)));
    /// assert_eq!((*lease, lease.expires_in()), (1, Some(Duration::from_secs(30))));
    /// ```
    pub fn or_load_with<R: LoaderResult<V>>(
        self,
        loader: impl FnOnce() -> R,
    ) -> R::Shared<Entry<K, V>> {
        R::shared(self.cache.inner.load(self.cache.inner.source(self.key), |_| loader(), None))
    }

    /// Looks at the key's living entry, decides, and does what was decided, atomically.
    ///
    /// *Atomicity*: holds with regard to every other operation on the key. Other writes wait
    /// until `compute` has returned, and the maintenance neither evicts nor removes the entry
    /// meanwhile. Terms:
    ///
    /// * Reads do not wait. If the entry expires while `compute` runs, readers no longer see it,
    ///   and a value that is put then is a new entry, with a life of its own. Where the old end
    ///   must hold, keep it in the value.
    /// * An [`invalidate_all`](Cache::invalidate_all) does not wait either. If it took the entry, a
    ///   value that is put in the entry's place goes at once, as `Explicit`.
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way.
    ///
    /// *Callbacks*: `compute` runs once, on this thread, with no lock held. It may use the
    /// cache for other keys, and may read this one. (Two computations that each write the
    /// other's key wait for each other for ever; [`Cache::within`] limits such waits.)
    /// [`Op::Put`] asks weigher and expiry policy as an insert does.
    ///
    /// # Panics
    /// A panic of `compute` reaches the caller, and the entry is as before. Panics if `compute`
    /// writes to its own key, since that write would wait for itself.
    ///
    /// ```
    /// use cortado::{Cache, CompResult, Op};
    ///
    /// let counters: Cache<&str, u64> = Cache::new(100);
    /// let count = |key| {
    ///     counters.entry(key).and_compute_with(|entry| Op::Put(entry.map_or(1, |n| *n + 1)))
    /// };
    /// assert!(matches!(count("a"), CompResult::Inserted(_)));
    /// assert!(matches!(count("a"), CompResult::ReplacedWith(n) if *n == 2));
    /// ```
    pub fn and_compute_with<F>(self, compute: F) -> CompResult<K, V>
    where
        F: FnOnce(Option<Entry<K, V>>) -> Op<V>,
    {
        let Ok(result) = self.and_try_compute_with(|entry| Ok::<_, Infallible>(compute(entry)));
        result
    }

    /// Like [`and_compute_with`](Self::and_compute_with), but `compute` may fail. The entry is
    /// as before then.
    ///
    /// # Errors
    /// The error that `compute` returned.
    ///
    /// ```
    /// use cortado::{Cache, Op};
    ///
    /// let accounts = Cache::new(100);
    /// accounts.insert("alice", 10_u32);
    /// let withdraw = |sum| {
    ///     accounts.entry("alice").and_try_compute_with(|balance| {
    ///         let balance = balance.map_or(0, |balance| *balance);
    ///         balance.checked_sub(sum).map(Op::Put).ok_or("not enough")
    ///     })
    /// };
    /// assert_eq!(*withdraw(7).unwrap().unwrap(), 3);
    /// assert_eq!(withdraw(7).unwrap_err(), "not enough");
    /// assert_eq!(accounts.get("alice"), Some(3));
    /// ```
    pub fn and_try_compute_with<F, E>(self, compute: F) -> Result<CompResult<K, V>, E>
    where
        F: FnOnce(Option<Entry<K, V>>) -> Result<Op<V>, E>,
    {
        self.cache.inner.compute(self.cache.inner.source(self.key).into_key(), compute)
    }

    /// Inserts the value that `compute` makes from the key's living entry, and returns a handle
    /// on it.
    ///
    /// [`is_old_value_replaced`](Entry::is_old_value_replaced) tells whether there was an
    /// entry. Otherwise like [`and_compute_with`](Self::and_compute_with).
    ///
    /// ```
    /// let counters = cortado::Cache::new(100);
    /// let count = |key| counters.entry(key).and_upsert_with(|old| old.map_or(1, |n| *n + 1));
    /// assert_eq!(*count("a"), 1);
    /// assert_eq!(*count("a"), 2);
    /// ```
    pub fn and_upsert_with<F>(self, compute: F) -> Entry<K, V>
    where
        F: FnOnce(Option<Entry<K, V>>) -> V,
    {
        self.and_compute_with(|entry| Op::Put(compute(entry))).unwrap()
    }
}
