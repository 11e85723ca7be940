//! The place of one key: loads and computations that return handles.

use super::Cache;
use crate::compute::{CompResult, Op};
use crate::engine::OnStale;
use crate::entry::Entry;
use crate::loaded::{Loaded, LoaderResult};
use crate::to_key::ToKey;
use std::convert::{Infallible, identity};
use std::fmt;
use std::future::{Future, ready};
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;

/// The type of a condition that is not there.
pub(super) type Never<K, V> = fn(&K, &V) -> bool;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns the place of a key, to load or compute its value atomically.
    #[must_use]
    pub fn entry(&self, key: K) -> KeyEntry<'_, K, V, S> {
        KeyEntry { cache: self, key }
    }

    /// Returns the place of a key that is given by reference; see [`crate::Cache::entry_by_ref`].
    #[must_use]
    pub fn entry_by_ref<'a, Q>(&'a self, key: &'a Q) -> KeyEntryByRef<'a, K, Q, V, S>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        KeyEntryByRef { cache: self, key }
    }
}

/// The place of one key in a cache; see [`Cache::entry`].
pub struct KeyEntry<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    key: K,
}

/// The place of one key in a cache, with the key by reference; see [`Cache::entry_by_ref`].
pub struct KeyEntryByRef<'c, K, Q: ?Sized, V, S> {
    cache: &'c Cache<K, V, S>,
    key: &'c Q,
}

impl<K: fmt::Debug, V, S> fmt::Debug for KeyEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntry").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<K, Q: fmt::Debug + ?Sized, V, S> fmt::Debug for KeyEntryByRef<'_, K, Q, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyEntryByRef").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The two methods in which the two kinds of places differ.
macro_rules! differences {
    ($read:ident, $read_value:ident, $owned:expr) => {
        /// A caller pins the loader, so that the futures up to here have only a pointer to it. The
        /// loader is dropped when it has ended, or when a hit needs none: before listeners are
        /// told, which may wait for what it holds, and before the result is the return value, which
        /// a panic of its destructor would leak.
        /// `result_of` makes the loader's result of what the future returns.
        pub(super) async fn load_if<T, R: LoaderResult<V>>(
            self,
            (mut loader, result_of): (Pin<&mut Option<impl Future<Output = T>>>, fn(T) -> R),
            judge: (Option<impl FnMut(&K, &V) -> bool>, OnStale),
        ) -> Result<Entry<K, V>, R::Reason> {
            let engine = self.cache.engine();
            let unmade = match engine.$read(self.key, judge) {
                Ok(entry) => {
                    loader.set(None);
                    // A hit writes nothing, so it is not held back.
                    self.cache.tell_listeners().await;
                    return Ok(entry);
                }
                Err(unmade) => unmade,
            };
            let result = engine.make_async(&mut Some(unmade), loader, result_of).await;
            self.cache.tell().await;
            result
        }

        /// The same for a clone of the value. A stale one may be reloaded.
        pub(super) async fn load_value<T, R: LoaderResult<V>>(
            self,
            (mut loader, result_of): (Pin<&mut Option<impl Future<Output = T>>>, fn(T) -> R),
        ) -> Result<V, R::Reason>
        where
            V: Clone,
        {
            let engine = self.cache.engine();
            let unmade = match engine.$read_value(self.key) {
                Ok(value) => {
                    loader.set(None);
                    if !engine.tells_after_read() {
                        return Ok(value);
                    }
                    // The future has no room for a value.
                    let value = Box::new(value);
                    self.cache.tell_listeners().await;
                    return Ok(*value);
                }
                Err(unmade) => unmade,
            };
            let made = engine.make_async(&mut Some(unmade), loader, result_of).await;
            self.cache.tell().await;
            made.map(Entry::into_value)
        }

        async fn compute<E, F: Future>(
            self,
            decide: impl FnOnce(Option<Entry<K, V>>) -> F,
            op_of: impl Fn(F::Output) -> Result<Op<V>, E>,
        ) -> Result<CompResult<K, V>, E> {
            let key = $owned(self.key);
            let result = self.cache.engine().compute_async(key, decide, op_of).await;
            self.cache.tell().await;
            result
        }
    };
}

macro_rules! operations {
    () => {
        /// See [`crate::KeyEntry::or_insert`].
        pub async fn or_insert(self, default: V) -> Entry<K, V> {
            let loader = (pin!(Some(ready(default))), Loaded::new as fn(V) -> _);
            Loaded::<V>::shared(self.load_if(loader, (None::<Never<K, V>>, OnStale::Keep)).await)
        }

        /// See [`crate::KeyEntry::or_default`].
        pub async fn or_default(self) -> Entry<K, V>
        where
            V: Default,
        {
            let loader = (pin!(Some(async { V::default() })), Loaded::new as fn(V) -> _);
            Loaded::<V>::shared(self.load_if(loader, (None::<Never<K, V>>, OnStale::Keep)).await)
        }

        /// See [`crate::KeyEntry::or_insert_with`] and [`Cache::get_with`].
        pub async fn or_insert_with(self, init: impl Future<Output = V>) -> Entry<K, V> {
            let loader = (pin!(Some(init)), Loaded::new as fn(V) -> _);
            Loaded::<V>::shared(self.load_if(loader, (None::<Never<K, V>>, OnStale::Reload)).await)
        }

        /// See [`crate::KeyEntry::or_insert_with_if`].
        pub async fn or_insert_with_if(
            self,
            init: impl Future<Output = V>,
            mut replace_if: impl FnMut(&V) -> bool + Send,
        ) -> Entry<K, V> {
            let loader = (pin!(Some(init)), Loaded::new as fn(V) -> _);
            let condition = move |_: &K, value: &V| replace_if(value);
            Loaded::<V>::shared(self.load_if(loader, (Some(condition), OnStale::Keep)).await)
        }

        /// See [`crate::KeyEntry::or_optionally_insert_with`].
        pub async fn or_optionally_insert_with(
            self,
            init: impl Future<Output = Option<V>>,
        ) -> Option<Entry<K, V>> {
            let loader = (pin!(Some(init)), (|value| value.map(Loaded::new)) as fn(Option<V>) -> _);
            Option::<Loaded<V>>::shared(
                self.load_if(loader, (None::<Never<K, V>>, OnStale::Reload)).await,
            )
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
            let loader =
                (pin!(Some(init)), (|made| made.map(Loaded::new)) as fn(Result<V, E>) -> _);
            self.load_if(loader, (None::<Never<K, V>>, OnStale::Reload)).await
        }

        /// See [`crate::KeyEntry::or_load_with`].
        pub async fn or_load_with<R: LoaderResult<V>>(
            self,
            loader: impl Future<Output = R>,
        ) -> R::Shared<Entry<K, V>> {
            R::shared(
                self.load_if(
                    (pin!(Some(loader)), identity),
                    (None::<Never<K, V>>, OnStale::Reload),
                )
                .await,
            )
        }

        /// See [`crate::KeyEntry::and_compute_with`]. The key is owned until the future of
        /// `compute` is ready, or this future is dropped: then the entry is as before.
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
        pub async fn and_try_compute_with<F, Fut, E>(
            self,
            compute: F,
        ) -> Result<CompResult<K, V>, E>
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
    };
}

impl<K, V, S> KeyEntry<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    differences!(read_or_unmade, read_or_unmade_value, identity);
    operations!();
}

impl<K, Q, V, S> KeyEntryByRef<'_, K, Q, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    Q: ToKey<K> + Hash + ?Sized,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    differences!(read_or_unmade_by_ref, read_or_unmade_value_by_ref, ToKey::to_key);
    operations!();
}
