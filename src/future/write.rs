//! Writes.

use super::Cache;
use crate::clock::{NEVER, Timestamp, nanos};
use crate::compute::Replacement;
use crate::engine::as_task;
use crate::entry::Entry;
use crate::error::{PredicateError, PredicateId};
use crate::expiration::Lifetime;
use crate::loaded::Loaded;
use equivalent::Equivalent;
use std::future::ready;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

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
