//! Reads, which never wait, and writes; questions about a cache as a whole, and maintenance on
//! request.

use super::Cache;
use crate::async_listener::Share;
use crate::clock::{NEVER, ReadTimes, Timestamp, nanos};
use crate::compute::Replacement;
use crate::config::Policy;
use crate::engine::as_task;
use crate::entry::{Entry, Key};
use crate::error::{PredicateError, PredicateId};
use crate::expiration::Lifetime;
use crate::iter::Iter;
use crate::loaded::Loaded;
use crate::primitives::time::{Duration, Instant};
use crate::stats::Stats;
use equivalent::Equivalent;
use std::future::{Future, poll_fn, ready};
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A read that awaits the asynchronous listeners: its result, and the wait.
///
/// In a box, and dropped by a cold function, so that futures of other reads stay small and end by a
/// comparison.
struct Telling<'a, V>(Option<Box<Told<'a, V>>>);

type Told<'a, V> = (Option<V>, Pin<Box<dyn Future<Output = ()> + Send + 'a>>);

impl<V> Drop for Telling<'_, V> {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn drop_told<T>(_: T) {}

        if let Some(told) = self.0.take() {
            drop_told(told);
        }
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// See [`crate::Cache::get`].
    pub fn get<'a, Q>(&'a self, key: &'a Q) -> impl Future<Output = Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        self.reading(move |cache| cache.get(key))
    }

    /// See [`crate::Cache::get_if`].
    pub fn get_if<'a, Q>(
        &'a self,
        key: &'a Q,
        mut accept: impl FnMut(&V, ReadTimes) -> bool + 'a,
    ) -> impl Future<Output = Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        self.reading(move |cache| cache.get_if(key, &mut accept))
    }

    /// The future of a read.
    fn reading(
        &self,
        mut read: impl FnMut(&crate::Cache<K, V, S>) -> Option<V>,
    ) -> impl Future<Output = Option<V>> {
        let mut telling = Telling(None);
        poll_fn(move |context| {
            if let Some(told) = &mut telling.0 {
                return told.1.as_mut().poll(context).map(|()| told.0.take());
            }
            let result = read(&self.cache);
            if !self.engine().tells_after_read() {
                // The result never is in the future's state.
                return Poll::Ready(result);
            }
            self.poll_telling(result, &mut telling, context)
        })
    }

    #[cold]
    fn poll_telling<'a>(
        &'a self,
        result: Option<V>,
        telling: &mut Telling<'a, V>,
        context: &mut Context<'_>,
    ) -> Poll<Option<V>> {
        let told = (result, self.tell_boxed(Share::Reader));
        let (result, listeners) = &mut **telling.0.insert(Box::new(told));
        listeners.as_mut().poll(context).map(|()| result.take())
    }

    /// See [`crate::Cache::get_entry`].
    pub async fn get_entry<Q>(&self, key: &Q) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let result = self.cache.get_entry(key);
        self.tell_listeners().await;
        result
    }

    /// See [`crate::Cache::touch`].
    pub async fn touch<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        let result = self.cache.touch(key);
        self.tell_listeners().await;
        result
    }

    /// See [`crate::Cache::get_many`].
    pub async fn get_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>) -> Vec<Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized + 'q,
        V: Clone,
    {
        let result = self.cache.get_many(keys);
        self.tell_listeners().await;
        result
    }

    /// See [`crate::Cache::contains_key`].
    pub fn contains_key<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        self.cache.contains_key(key)
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// See [`crate::Cache::insert`]. Awaits a computation of the key.
    pub async fn insert(&self, key: K, value: V) {
        let engine = self.engine();
        engine.insert_async(engine.owned(key), value, Lifetime::Policy).await;
        self.tell().await;
    }

    /// See [`crate::Cache::insert_with_ttl`]. Awaits a computation of the key.
    pub async fn insert_with_ttl(&self, key: K, value: V, ttl: Duration) {
        let engine = self.engine();
        engine.insert_async(engine.owned(key), value, Lifetime::For(nanos(ttl))).await;
        self.tell().await;
    }

    /// See [`crate::Cache::insert_until`]. Awaits a computation of the key.
    pub async fn insert_until(&self, key: K, value: V, deadline: Instant) {
        let engine = self.engine();
        engine.insert_async(engine.owned(key), value, Lifetime::Until(deadline)).await;
        self.tell().await;
    }

    /// See [`crate::Cache::insert_many`]. Awaits computations of the keys. Runs the iterator to its
    /// end first.
    pub async fn insert_many<L>(&self, pairs: impl IntoIterator<Item = (K, L)>)
    where
        L: Into<Loaded<V>>,
    {
        // An iterator across an await would have to be `Send` whatever the lifetimes in its type,
        // which rustc does not know there.
        let pairs: Vec<(K, Loaded<V>)> =
            pairs.into_iter().map(|(key, value)| (key, value.into())).collect();
        for (key, loaded) in pairs {
            self.engine().insert_loaded_async(self.engine().owned(key), loaded).await;
            self.tell().await;
        }
    }

    /// See [`crate::Cache::remove`]. Awaits a computation of the key.
    pub async fn remove<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.remove_entry(key).await.map(Entry::into_value)
    }

    /// See [`crate::Cache::remove_entry`]. Awaits a computation of the key.
    pub async fn remove_entry<Q>(&self, key: &Q) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let result = self.engine().remove_async(self.engine().hashed(key)).await;
        self.tell().await;
        result
    }

    /// See [`crate::Cache::remove_if`]. Awaits a computation of the key.
    pub async fn remove_if<Q>(&self, key: &Q, condition: impl FnMut(&K, &V) -> bool) -> Option<V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        let result = self.engine().remove_if_async(self.engine().hashed(key), condition).await;
        self.tell().await;
        result.map(Entry::into_value)
    }

    /// See [`crate::Cache::invalidate`]. Awaits a computation of the key.
    pub async fn invalidate<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) {
        self.engine().remove_async(self.engine().hashed(key)).await;
        self.tell().await;
    }

    /// See [`crate::Cache::invalidate_many`]. Awaits computations of the keys. Runs the iterator to
    /// its end first.
    pub async fn invalidate_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>)
    where
        Q: Equivalent<K> + Hash + ?Sized + 'q,
    {
        let keys: Vec<_> = keys.into_iter().collect();
        for key in keys {
            self.invalidate(key).await;
        }
    }

    /// See [`crate::Cache::invalidate_all`]. It waits for no load, no computation and no delivery.
    pub fn invalidate_all(&self) {
        as_task(|| self.cache.invalidate_all());
    }

    /// See [`crate::Cache::retain`]. Awaits computations of keys whose entries are refused.
    pub async fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.engine().retain_async(keep).await;
        self.tell().await;
    }

    /// See [`crate::Cache::invalidate_entries_if`]. It does not wait: an entry whose key is being
    /// computed at that moment stays. [`retain`](Self::retain) awaits the computation.
    ///
    /// # Errors
    /// None.
    pub fn invalidate_entries_if(
        &self,
        predicate: impl FnMut(&K, &V) -> bool,
    ) -> Result<PredicateId, PredicateError> {
        self.engine().remove_without_waiting(predicate);
        Ok(PredicateId::default())
    }

    /// See [`crate::Cache::set_ttl`]. Awaits a computation of the key if that has an entry.
    /// Without one it awaits no computation, and returns false.
    pub async fn set_ttl<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q, ttl: Duration) -> bool {
        let (engine, ttl) = (self.engine(), nanos(ttl));
        let later = |now: Timestamp| now.saturating_add(ttl);
        let result = engine.set_hard_deadline_async(engine.hashed(key), later).await;
        self.tell().await;
        result
    }

    /// See [`crate::Cache::set_expires_at`]. Awaits a computation of the key if that has an entry.
    /// Without one it awaits no computation, and returns false.
    pub async fn set_expires_at<Q>(&self, key: &Q, deadline: Instant) -> bool
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let engine = self.engine();
        let until = engine.core.ticker.time_of(deadline);
        let result = engine.set_hard_deadline_async(engine.hashed(key), |_| until).await;
        self.tell().await;
        result
    }

    /// See [`crate::Cache::persist`]. Awaits a computation of the key if that has an entry.
    /// Without one it awaits no computation, and returns false.
    pub async fn persist<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        let engine = self.engine();
        let result = engine.set_hard_deadline_async(engine.hashed(key), |_| NEVER).await;
        self.tell().await;
        result
    }

    /// See [`crate::Cache::replace`]. Awaits loads and computations of the key.
    ///
    /// # Errors
    /// Returns the value if there is no living entry.
    pub async fn replace(&self, key: K, value: V) -> Result<Entry<K, V>, V> {
        self.replace_loaded(key, Loaded::new(value)).await
    }

    /// See [`crate::Cache::replace_with_ttl`]. Awaits loads and computations of the key.
    ///
    /// # Errors
    /// Returns the value if there is no living entry.
    pub async fn replace_with_ttl(
        &self,
        key: K,
        value: V,
        ttl: Duration,
    ) -> Result<Entry<K, V>, V> {
        self.replace_loaded(key, Loaded::with_ttl(value, ttl)).await
    }

    async fn replace_loaded(&self, key: K, loaded: Loaded<V>) -> Result<Entry<K, V>, V> {
        let mut replacement = Replacement::new(loaded);
        self.entry(key).and_compute_with(|old| ready(replacement.decide(old))).await;
        replacement.outcome()
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// See [`crate::Cache::iter`]. It waits for nothing.
    pub fn iter(&self) -> Iter<'_, K, V>
    where
        V: Clone,
    {
        self.cache.iter()
    }

    /// See [`crate::Cache::removals`].
    pub fn removals(&self) -> Option<crate::Removals<K, V>> {
        self.cache.removals()
    }

    /// See [`crate::Cache::run_pending_tasks`]. The work is done at the first poll, however much
    /// there is. It awaits the deliveries of other threads. What another task is telling a listener
    /// that awaits, that task awaits.
    pub async fn run_pending_tasks(&self) {
        as_task(|| self.cache.run_pending_tasks());
        self.engine().announce_waiting_async().await;
        self.tell_boxed(Share::All).await;
    }

    /// See [`crate::Cache::close`]. The work is done at the first poll, however much there is. If
    /// another thread is running the listener, the call awaits it. What another task is telling a
    /// listener that awaits, that task awaits.
    pub async fn close(&self) {
        as_task(|| self.cache.close());
        self.engine().announce_all_async().await;
        self.tell_boxed(Share::All).await;
    }
}

impl<K, V, S> Cache<K, V, S> {
    /// See [`crate::Cache::name`].
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.cache.name()
    }

    /// See [`crate::Cache::policy`].
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.cache.policy()
    }

    /// See [`crate::Cache::entry_count`].
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.cache.entry_count()
    }

    /// See [`crate::Cache::weighted_size`].
    #[must_use]
    pub fn weighted_size(&self) -> u64 {
        self.cache.weighted_size()
    }

    /// See [`crate::Cache::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.cache.stats()
    }
}

impl<'c, K: Hash + Eq, V: Clone, S: BuildHasher> IntoIterator for &'c Cache<K, V, S> {
    type Item = (Key<K, V>, V);
    type IntoIter = Iter<'c, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.cache.iter()
    }
}
