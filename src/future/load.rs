//! Loads.

use super::Cache;
use crate::cache::loaded;
use crate::engine::{KeySource, Owned};
use crate::entry::Entry;
use crate::loaded::{Loaded, LoaderResult};
use crate::to_key::ToKey;
use std::convert::{Infallible, identity};
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// See [`crate::Cache::get_with`]. `init` is polled only if this call makes the value, on
    /// behalf of all who wait for it.
    ///
    /// *Cancellation*: see the [module](super). If this future is dropped before `init` is
    /// ready, `init` is dropped. After that, one of the callers who wait runs its own `init`. A
    /// destructor of `init` that blocks holds up the key.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// let cache = cortado::future::Cache::new(100);
    /// assert_eq!(cache.get_with("k", async { 7 }).await, 7);
    /// assert_eq!(cache.get_with("k", async { unreachable!("it is there") }).await, 7);
    /// # });
    /// ```
    pub async fn get_with(&self, key: K, init: impl Future<Output = V>) -> V
    where
        V: Clone,
    {
        Loaded::<V>::shared(self.load_value(Owned(key), pin!(Some(init)), Loaded::new).await)
    }

    /// Like [`get_with`](Self::get_with), but clones the key only to load.
    pub async fn get_with_by_ref<Q>(&self, key: &Q, init: impl Future<Output = V>) -> V
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        Loaded::<V>::shared(self.load_value(key, pin!(Some(init)), Loaded::new).await)
    }

    /// See [`crate::Cache::get_with_if`] and [`get_with`](Self::get_with).
    pub async fn get_with_if(
        &self,
        key: K,
        init: impl Future<Output = V>,
        mut replace_if: impl FnMut(&V) -> bool,
    ) -> V
    where
        V: Clone,
    {
        let condition = Some(|_: &K, value: &V| replace_if(value));
        let init = pin!(Some(init));
        let entry = self.load_if(Owned(key), init, Loaded::new, condition).await;
        Loaded::<V>::shared(entry).into_value()
    }

    /// See [`crate::Cache::optionally_get_with`] and [`get_with`](Self::get_with).
    pub async fn optionally_get_with<F>(&self, key: K, init: F) -> Option<V>
    where
        F: Future<Output = Option<V>>,
        V: Clone,
    {
        self.load_value(Owned(key), pin!(Some(init)), |made| made.map(Loaded::new)).await.ok()
    }

    /// Like [`optionally_get_with`](Self::optionally_get_with), but clones the key only to
    /// load.
    pub async fn optionally_get_with_by_ref<F, Q>(&self, key: &Q, init: F) -> Option<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: Future<Output = Option<V>>,
        V: Clone,
    {
        self.load_value(key, pin!(Some(init)), |made| made.map(Loaded::new)).await.ok()
    }

    /// See [`crate::Cache::try_get_with`] and [`get_with`](Self::get_with).
    ///
    /// # Errors
    /// The error that `init` returned, of this call or of the one that it waited for.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// let cache: cortado::future::Cache<&str, u16> = cortado::future::Cache::new(100);
    /// let error = cache.try_get_with("port", async { "http".parse() }).await.unwrap_err();
    /// assert!(error.to_string().contains("invalid digit"));
    /// assert_eq!(cache.try_get_with("port", async { "80".parse() }).await, Ok(80));
    /// # });
    /// ```
    pub async fn try_get_with<F, E>(&self, key: K, init: F) -> Result<V, Arc<E>>
    where
        F: Future<Output = Result<V, E>>,
        E: Send + Sync + 'static,
        V: Clone,
    {
        self.load_value(Owned(key), pin!(Some(init)), |made| made.map(Loaded::new)).await
    }

    /// Like [`try_get_with`](Self::try_get_with), but clones the key only to load.
    ///
    /// # Errors
    /// As [`try_get_with`](Self::try_get_with).
    pub async fn try_get_with_by_ref<F, E, Q>(&self, key: &Q, init: F) -> Result<V, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: Future<Output = Result<V, E>>,
        E: Send + Sync + 'static,
        V: Clone,
    {
        self.load_value(key, pin!(Some(init)), |made| made.map(Loaded::new)).await
    }

    /// See [`crate::Cache::load`] and [`get_with`](Self::get_with).
    ///
    /// ```
    /// use cortado::Loaded;
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let leases = cortado::future::Cache::new(100);
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(leases.load("printer", async { Loaded::with_ttl(1, minute) }).await, 1);
    /// # });
    /// ```
    pub async fn load<R: LoaderResult<V>>(
        &self,
        key: K,
        loader: impl Future<Output = R>,
    ) -> R::Shared<V>
    where
        V: Clone,
    {
        R::shared(self.load_value(Owned(key), pin!(Some(loader)), identity).await)
    }

    /// Like [`load`](Self::load), but clones the key only to load.
    pub async fn load_by_ref<Q, R: LoaderResult<V>>(
        &self,
        key: &Q,
        loader: impl Future<Output = R>,
    ) -> R::Shared<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        R::shared(self.load_value(key, pin!(Some(loader)), identity).await)
    }

    /// See [`crate::Cache::get_many_with`]. In each round, mostly one, `loader` gets all keys that
    /// are missing and that no other call is loading. It returns a future that makes their
    /// values, and that owns what it needs of the keys.
    ///
    /// *Cancellation*: see the [module](super). If this future is dropped before that of
    /// `loader` is ready, that one is dropped. After that, callers who wait for one of the keys
    /// load it themselves. A destructor that blocks holds up the keys. If this future is dropped
    /// while a pair that was not asked for waits for a computation, that pair is dropped, too.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// let squares = cortado::future::Cache::new(100);
    /// squares.insert(3, 9).await;
    /// let load = |keys: &[&u32]| {
    ///     let missing: Vec<u32> = keys.iter().map(|key| **key).collect();
    ///     assert_eq!(missing, [1, 2]);
    ///     async move { missing.into_iter().map(|n| (n, n * n)) }
    /// };
    /// assert_eq!(squares.get_many_with([1, 2, 3], load).await, [Some(1), Some(4), Some(9)]);
    /// # });
    /// ```
    pub async fn get_many_with<I, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        loader: impl FnMut(&[&K]) -> F,
    ) -> Vec<Option<V>>
    where
        I: IntoIterator<Item = (K, V)>,
        F: Future<Output = I>,
        V: Clone,
    {
        let into_result = |made| Ok::<_, Infallible>(loaded(made));
        let (answers, wrote_nothing) =
            self.engine().load_many_async(keys, loader, into_result).await;
        self.tell_unless(wrote_nothing).await;
        answers.unwrap_or_else(|never| match *never {})
    }

    /// Like [`get_many_with`](Self::get_many_with), with a loader that may fail.
    ///
    /// # Errors
    /// As [`crate::Cache::try_get_many_with`].
    pub async fn try_get_many_with<I, E, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        loader: impl FnMut(&[&K]) -> F,
    ) -> Result<Vec<Option<V>>, Arc<E>>
    where
        I: IntoIterator<Item = (K, V)>,
        E: Send + Sync + 'static,
        F: Future<Output = Result<I, E>>,
        V: Clone,
    {
        let (answers, wrote_nothing) =
            self.engine().load_many_async(keys, loader, |result| result.map(loaded)).await;
        self.tell_unless(wrote_nothing).await;
        answers
    }

    /// The key's entry, read or loaded.
    ///
    /// A caller pins the loader, so that the futures up to here have only a pointer to it. The
    /// loader is dropped when it has ended, or when a hit needs none. That comes before listeners
    /// are told, since they may wait for what it holds; and before the result is returned, since a
    /// panic of its destructor would leak it.
    ///
    /// `result_of` turns the future's output into the loader's result.
    pub(super) async fn load_if<T, R: LoaderResult<V>>(
        &self,
        key: impl KeySource<K>,
        mut loader: Pin<&mut Option<impl Future<Output = T>>>,
        result_of: fn(T) -> R,
        replace_if: Option<impl FnMut(&K, &V) -> bool>,
    ) -> Result<Entry<K, V>, R::Reason> {
        let engine = self.engine();
        let unmade = match engine.read_or_unmade(key, replace_if) {
            Ok(entry) => {
                loader.set(None);
                // A hit writes nothing, so it is not held back.
                self.tell_listeners().await;
                return Ok(entry);
            }
            Err(unmade) => unmade,
        };
        let result = engine.make_async(&mut Some(unmade), loader, result_of).await;
        // As in `load_value`.
        self.tell_unless(!result.as_ref().is_ok_and(Entry::is_fresh)).await;
        result
    }

    /// [`load_if`](Self::load_if) for a clone of the value.
    async fn load_value<T, R: LoaderResult<V>>(
        &self,
        key: impl KeySource<K>,
        mut loader: Pin<&mut Option<impl Future<Output = T>>>,
        result_of: fn(T) -> R,
    ) -> Result<V, R::Reason>
    where
        V: Clone,
    {
        let engine = self.engine();
        let unmade = match engine.read_or_unmade_value(key) {
            Ok(value) => {
                loader.set(None);
                if !engine.tells_after_read() {
                    return Ok(value);
                }
                // The future has no room for a value.
                let value = Box::new(value);
                self.tell_listeners().await;
                return Ok(*value);
            }
            Err(unmade) => unmade,
        };
        let made = engine.make_async(&mut Some(unmade), loader, result_of).await;
        // Without a new entry it has written nothing: it has waited for another's load, or the
        // loader has made no value.
        self.tell_unless(!made.as_ref().is_ok_and(Entry::is_fresh)).await;
        made.map(Entry::into_value)
    }
}
