//! The place of one key: loads and computations that return handles.

use super::Cache;
use crate::compute::{CompResult, Op};
use crate::engine::made_before;
use crate::entry::Entry;
use crate::key_source::{KeySource, OwnedKey};
use crate::loaded::{Loaded, LoaderResult};
use crate::macros::debug_fields;
use crate::to_key::ToKey;
use std::convert::{Infallible, identity};
use std::future::{Future, ready};
use std::hash::{BuildHasher, Hash};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The place of one key in a cache; see [`Cache::entry`] and [`Cache::entry_by_ref`].
pub struct KeyEntry<'c, K, V, S, Src = OwnedKey<K>> {
    cache: &'c Cache<K, V, S>,
    key: Src,
}

/// The name by which moka has a [`KeyEntry`] of an owned key.
pub type OwnedKeyEntrySelector<'c, K, V, S> = KeyEntry<'c, K, V, S>;

/// The name by which moka has a [`KeyEntry`] of a key by reference.
pub type RefKeyEntrySelector<'c, K, Q, V, S> = KeyEntry<'c, K, V, S, &'c Q>;

debug_fields!(impl[K, V, S, Src: std::fmt::Debug] KeyEntry<'_, K, V, S, Src>, |it| key: it.key);

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns the place of a key, to load or compute its value atomically.
    #[must_use]
    pub fn entry(&self, key: K) -> KeyEntry<'_, K, V, S> {
        KeyEntry { cache: self, key: OwnedKey(key) }
    }

    /// Returns the place of a key that is given by reference; see [`crate::Cache::entry_by_ref`].
    #[must_use]
    pub fn entry_by_ref<'a, Q>(&'a self, key: &'a Q) -> KeyEntry<'a, K, V, S, &'a Q>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        KeyEntry { cache: self, key }
    }
}

impl<K, V, S, Src> KeyEntry<'_, K, V, S, Src>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
    Src: KeySource<K>,
{
    /// See [`crate::KeyEntry::or_insert`].
    pub async fn or_insert(self, default: V) -> Entry<K, V> {
        self.cache.load_entry(self.key, pin!(Some(ready(default))), Loaded::new).await
    }

    /// See [`crate::KeyEntry::or_insert_with_ttl`].
    pub async fn or_insert_with_ttl(self, default: V, ttl: Duration) -> Entry<K, V> {
        let loader = pin!(Some(ready(Loaded::with_ttl(default, ttl))));
        self.cache.load_entry(self.key, loader, identity::<Loaded<V>>).await
    }

    /// See [`crate::KeyEntry::or_default`].
    pub async fn or_default(self) -> Entry<K, V>
    where
        V: Default,
    {
        let loader = pin!(Some(async { V::default() }));
        self.cache.load_entry(self.key, loader, Loaded::new).await
    }

    /// See [`crate::KeyEntry::or_insert_with`] and [`Cache::get_with`].
    pub async fn or_insert_with(self, init: impl Future<Output = V>) -> Entry<K, V> {
        self.cache.load_entry(self.key, pin!(Some(init)), Loaded::new).await
    }

    /// See [`crate::KeyEntry::or_insert_with_if`].
    pub async fn or_insert_with_if(
        self,
        init: impl Future<Output = V>,
        mut replace_if: impl FnMut(&V) -> bool,
    ) -> Entry<K, V> {
        let (init, condition) = (pin!(Some(init)), Some(|value: &V, _| replace_if(value)));
        self.cache.load_by(self.key, init, made_before, Loaded::new, condition, identity).await
    }

    /// See [`crate::KeyEntry::or_optionally_insert_with`].
    pub async fn or_optionally_insert_with(
        self,
        init: impl Future<Output = Option<V>>,
    ) -> Option<Entry<K, V>> {
        self.cache.load_entry(self.key, pin!(Some(init)), |made| made.map(Loaded::new)).await
    }

    /// See [`crate::KeyEntry::or_try_insert_with`].
    ///
    /// # Errors
    /// The error that `init` returned, of this call or of the one that it waited for.
    pub async fn or_try_insert_with<F, E>(self, init: F) -> Result<Entry<K, V>, Arc<E>>
    where
        F: Future<Output = Result<V, E>>,
        E: Send + Sync + 'static,
    {
        self.cache.load_entry(self.key, pin!(Some(init)), |made| made.map(Loaded::new)).await
    }

    /// See [`crate::KeyEntry::or_load_with`].
    pub async fn or_load_with<R: LoaderResult<V>>(
        self,
        loader: impl Future<Output = R>,
    ) -> R::Shared<Entry<K, V>> {
        self.cache.load_entry(self.key, pin!(Some(loader)), identity).await
    }

    /// See [`crate::KeyEntry::and_compute_with`]. The key is owned until the future of
    /// `compute` is ready, or this future is dropped: then the entry is as before.
    ///
    /// *Cancellation*: see the [module](super). If this future is dropped, that of `compute` is
    /// dropped before the key is free. A destructor of that one that blocks holds up the key.
    ///
    /// ```
    /// use cortado::{CompResult, Op, future::Cache};
    ///
    /// # pollster::block_on(async {
    /// let counters: Cache<&str, u64> = Cache::new(100);
    /// let count = counters.entry("a").and_compute_with(|entry| async move {
    ///     Op::Put(entry.map_or(1, |n| *n + 1))
    /// });
    /// assert!(matches!(count.await, CompResult::Inserted(n) if *n == 1));
    /// # });
    /// ```
    pub async fn and_compute_with<F, Fut>(self, compute: F) -> CompResult<K, V>
    where
        F: FnOnce(Option<Entry<K, V>>) -> Fut,
        Fut: Future<Output = Op<V>>,
    {
        let Ok(result) = self.compute(compute, Ok::<_, Infallible>).await;
        result
    }

    /// See [`crate::KeyEntry::and_try_compute_with`].
    ///
    /// # Errors
    /// The error that the future of `compute` returned. The entry is as before.
    pub async fn and_try_compute_with<F, Fut, E>(self, compute: F) -> Result<CompResult<K, V>, E>
    where
        F: FnOnce(Option<Entry<K, V>>) -> Fut,
        Fut: Future<Output = Result<Op<V>, E>>,
    {
        self.compute(compute, identity).await
    }

    /// See [`crate::KeyEntry::and_upsert_with`].
    pub async fn and_upsert_with<F, Fut>(self, compute: F) -> Entry<K, V>
    where
        F: FnOnce(Option<Entry<K, V>>) -> Fut,
        Fut: Future<Output = V>,
    {
        let put = |value| Ok::<_, Infallible>(Op::Put(value));
        let Ok(result) = self.compute(compute, put).await;
        result.unwrap()
    }

    /// Computes by the future of `decide`, of whose output `op_of` makes the operation.
    async fn compute<E, F: Future>(
        self,
        decide: impl FnOnce(Option<Entry<K, V>>) -> F,
        op_of: impl Fn(F::Output) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        let engine = self.cache.engine();
        let key = engine.owned(self.key.into_key());
        let result = engine.compute_async(key, decide, op_of).await;
        self.cache.tell().await;
        result
    }
}
