//! Loads.

use super::Cache;
use crate::cache::{LoadGuard, loaded};
use crate::clock::ReadTimes;
use crate::engine::{NoLoadCondition, as_task, made_before};
use crate::entry::Entry;
use crate::key_source::{KeySource, OwnedKey};
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
    /// See [`crate::Cache::load`]. `loader` is polled only if this call makes the value, on behalf
    /// of all who wait for it.
    ///
    /// *Cancellation*: see the [module](super). If this future is dropped before `loader` is ready,
    /// `loader` is dropped. After that, one of the callers who wait runs its own `loader`. A
    /// destructor of `loader` that blocks holds up the key.
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
        self.load_value(OwnedKey(key), pin!(Some(loader)), identity).await
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
        self.load_value(key, pin!(Some(loader)), identity).await
    }

    /// See [`crate::Cache::load_if`] and [`load`](Self::load). `loader` is called only if this call
    /// makes the value.
    ///
    /// ```
    /// use cortado::Loaded;
    ///
    /// # pollster::block_on(async {
    /// let versions = cortado::future::Cache::new(100);
    /// let next = |old: Option<cortado::Entry<_, u32>>| async move {
    ///     Loaded::new(old.map_or(1, |old| *old + 1))
    /// };
    /// assert_eq!(versions.load_if(&"config", next, |_, _| true).await, 1);
    /// assert_eq!(versions.load_if(&"config", next, |found, _| *found < 2).await, 2);
    /// # });
    /// ```
    pub async fn load_if<Q, R: LoaderResult<V>, F: Future<Output = R>>(
        &self,
        key: &Q,
        loader: impl FnOnce(Option<Entry<K, V>>) -> F,
        replace_if: impl FnMut(&V, ReadTimes) -> bool,
    ) -> R::Shared<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let mut loader = Some(loader);
        let begin = move |old| loader.take().map(|loader| loader(old));
        self.load_by(key, pin!(None), begin, identity, Some(replace_if), Entry::into_value).await
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
    pub async fn get_many_with<I, L, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        loader: impl FnMut(&[&K]) -> F,
    ) -> Vec<Option<V>>
    where
        I: IntoIterator<Item = (K, L)>,
        L: Into<Loaded<V>>,
        F: Future<Output = I>,
        V: Clone,
    {
        let into_result = |made| Ok::<_, Infallible>(loaded(made));
        let wanted = as_task(|| self.engine().want_all(keys.into_iter().map(OwnedKey)));
        let (answers, wrote_nothing) =
            self.engine().load_many_async(wanted, loader, into_result).await;
        self.tell_unless(wrote_nothing).await;
        answers.unwrap_or_else(|never| match *never {})
    }

    /// Like [`get_many_with`](Self::get_many_with), with a loader that may fail.
    ///
    /// # Errors
    /// As [`crate::Cache::try_get_many_with`].
    pub async fn try_get_many_with<I, L, E, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        loader: impl FnMut(&[&K]) -> F,
    ) -> Result<Vec<Option<V>>, Arc<E>>
    where
        I: IntoIterator<Item = (K, L)>,
        L: Into<Loaded<V>>,
        E: Send + Sync + 'static,
        F: Future<Output = Result<I, E>>,
        V: Clone,
    {
        let wanted = as_task(|| self.engine().want_all(keys.into_iter().map(OwnedKey)));
        let into_result = |result: Result<I, E>| result.map(loaded);
        let (answers, wrote_nothing) =
            self.engine().load_many_async(wanted, loader, into_result).await;
        self.tell_unless(wrote_nothing).await;
        answers
    }

    /// See [`crate::Cache::get_value_or_guard`]. A task that asks for a key whose guard it holds
    /// never ends.
    ///
    /// *Cancellation*: a call that is dropped has begun no load.
    ///
    /// # Errors
    /// The guard, if the key has no value.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// let cache: cortado::future::Cache<String, u32> = cortado::future::Cache::new(100);
    /// let guard = cache.get_value_or_guard("k").await.expect_err("the key has no value yet");
    /// let value = async { 7 }.await;
    /// guard.insert(value);
    /// assert_eq!(cache.get("k").await, Some(7));
    /// # });
    /// ```
    pub async fn get_value_or_guard<Q>(&self, key: &Q) -> Result<V, LoadGuard<K, V, S>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        V: Clone,
    {
        let engine = self.engine();
        let unmade = match engine.read_or_unmade_value(engine.source(key)) {
            Ok(value) => {
                self.tell_listeners().await;
                return Ok(value);
            }
            Err(unmade) => unmade,
        };
        // As in the face for threads, back-pressure comes before the load.
        self.tell().await;
        match engine.load_or_lead_async(unmade).await {
            Ok(entry) => Ok(entry.into_value()),
            Err(load) => Err(LoadGuard::new(&self.cache, load)),
        }
    }

    /// The key's entry, read, or loaded by this future.
    ///
    /// A caller pins the loader, so that the futures up to here have only a pointer to it. The
    /// loader is dropped when it has ended, or when a hit needs none. That comes before listeners
    /// are told, since they may wait for what it holds; and before the result is returned, since a
    /// panic of its destructor would leak it.
    ///
    /// `result_of` turns the future's output into the loader's result.
    pub(super) fn load_entry<T, R: LoaderResult<V>>(
        &self,
        key: impl KeySource<K>,
        loader: Pin<&mut Option<impl Future<Output = T>>>,
        result_of: fn(T) -> R,
    ) -> impl Future<Output = R::Shared<Entry<K, V>>> {
        let replace_if = None::<NoLoadCondition<V>>;
        self.load_by(key, loader, made_before, result_of, replace_if, identity)
    }

    /// [`load_entry`](Self::load_entry), also in place of an entry for which `replace_if` holds, by
    /// the future in `init`, or else by that which `begin` makes. Returns that part of the entry.
    pub(super) async fn load_by<F: Future, R: LoaderResult<V>, T>(
        &self,
        key: impl KeySource<K>,
        mut init: Pin<&mut Option<F>>,
        begin: impl FnMut(Option<Entry<K, V>>) -> Option<F>,
        result_of: fn(F::Output) -> R,
        replace_if: Option<impl FnMut(&V, ReadTimes) -> bool>,
        part_of: fn(Entry<K, V>) -> T,
    ) -> R::Shared<T> {
        let engine = self.engine();
        let unmade = match engine.read_or_unmade(engine.source(key), replace_if) {
            Ok(entry) => {
                init.set(None);
                drop(begin);
                // A hit writes nothing, so it is not held back.
                self.tell_listeners().await;
                return R::shared(Ok(part_of(entry)));
            }
            Err(unmade) => unmade,
        };
        let result = engine.make_async(&mut Some(unmade), init, begin, result_of).await;
        // As in `load_value`.
        self.tell_unless(!result.as_ref().is_ok_and(Entry::is_fresh)).await;
        R::shared(result.map(part_of))
    }

    /// [`load_entry`](Self::load_entry) for a clone of the value.
    async fn load_value<T, R: LoaderResult<V>>(
        &self,
        key: impl KeySource<K>,
        mut loader: Pin<&mut Option<impl Future<Output = T>>>,
        result_of: fn(T) -> R,
    ) -> R::Shared<V>
    where
        V: Clone,
    {
        let engine = self.engine();
        let unmade = match engine.read_or_unmade_value(engine.source(key)) {
            Ok(value) => {
                loader.set(None);
                if !engine.tells_after_read() {
                    return R::shared(Ok(value));
                }
                // The future has no room for a value.
                let value = Box::new(value);
                self.tell_listeners().await;
                return R::shared(Ok(*value));
            }
            Err(unmade) => unmade,
        };
        let made = engine.make_async(&mut Some(unmade), loader, made_before, result_of).await;
        // Without a new entry it has written nothing: it has waited for another's load, or the
        // loader has made no value.
        self.tell_unless(!made.as_ref().is_ok_and(Entry::is_fresh)).await;
        R::shared(made.map(Entry::into_value))
    }
}

/// # Loads by moka's names
///
/// See those of [`crate::Cache`](crate::Cache#loads-by-mokas-names). `init` is a future, as for
/// [`load`](Self::load).
impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// [`load`](Self::load) by a future that makes the value.
    pub async fn get_with(&self, key: K, init: impl Future<Output = V>) -> V {
        self.load_value(OwnedKey(key), pin!(Some(init)), Loaded::new).await
    }

    /// [`load_by_ref`](Self::load_by_ref) by a future that makes the value.
    pub async fn get_with_by_ref<Q>(&self, key: &Q, init: impl Future<Output = V>) -> V
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        self.load_value(key, pin!(Some(init)), Loaded::new).await
    }

    /// A load with a condition, as [`load_if`](Self::load_if) is, by a future that makes the value.
    #[deprecated(note = "use `load_if`, or `entry(key).or_insert_with_if(..)`")]
    pub async fn get_with_if(
        &self,
        key: K,
        init: impl Future<Output = V>,
        mut replace_if: impl FnMut(&V) -> bool,
    ) -> V {
        let (key, condition) = (OwnedKey(key), Some(|value: &V, _| replace_if(value)));
        let part = Entry::into_value;
        self.load_by(key, pin!(Some(init)), made_before, Loaded::new, condition, part).await
    }

    /// [`load`](Self::load) by a future that may make a value.
    pub async fn optionally_get_with<F>(&self, key: K, init: F) -> Option<V>
    where
        F: Future<Output = Option<V>>,
    {
        self.load_value(OwnedKey(key), pin!(Some(init)), |made| made.map(Loaded::new)).await
    }

    /// [`load_by_ref`](Self::load_by_ref) by a future that may make a value.
    pub async fn optionally_get_with_by_ref<F, Q>(&self, key: &Q, init: F) -> Option<V>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: Future<Output = Option<V>>,
    {
        self.load_value(key, pin!(Some(init)), |made| made.map(Loaded::new)).await
    }

    /// [`load`](Self::load) by a future that makes the value or fails.
    ///
    /// # Errors
    /// The error that `init` returned, of this call or of the one that it waited for.
    pub async fn try_get_with<F, E>(&self, key: K, init: F) -> Result<V, Arc<E>>
    where
        F: Future<Output = Result<V, E>>,
        E: Send + Sync + 'static,
    {
        self.load_value(OwnedKey(key), pin!(Some(init)), |made| made.map(Loaded::new)).await
    }

    /// [`load_by_ref`](Self::load_by_ref) by a future that makes the value or fails.
    ///
    /// # Errors
    /// As [`try_get_with`](Self::try_get_with).
    pub async fn try_get_with_by_ref<F, E, Q>(&self, key: &Q, init: F) -> Result<V, Arc<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        F: Future<Output = Result<V, E>>,
        E: Send + Sync + 'static,
    {
        self.load_value(key, pin!(Some(init)), |made| made.map(Loaded::new)).await
    }
}
