//! Reads. They never wait.

use super::Cache;
use crate::entry::Entry;
use crate::expiration::Expiration;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// See [`crate::Cache::get`].
    pub async fn get<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        if self.engine().tells_after_read() {
            return self.get_entry(key).await.map(Entry::into_value);
        }
        // One call, with nothing awaited after it: the result never is in the future's state.
        self.cache.get(key)
    }

    /// See [`crate::Cache::get_entry`].
    pub async fn get_entry<Q>(&self, key: &Q) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let result = self.cache.get_entry(key);
        if self.engine().tells_after_read() {
            self.tell_all().await;
        }
        result
    }

    /// See [`crate::Cache::touch`].
    pub async fn touch<Q>(&self, key: &Q) -> bool
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let result = self.cache.touch(key);
        if self.engine().tells_after_read() {
            self.tell_all().await;
        }
        result
    }

    /// See [`crate::Cache::get_many`].
    pub async fn get_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>) -> Vec<Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized + 'q,
        V: Clone,
    {
        let result = self.cache.get_many(keys);
        if self.engine().tells_after_read() {
            self.tell_all().await;
        }
        result
    }

    /// See [`crate::Cache::peek`].
    pub fn peek<Q>(&self, key: &Q) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.peek(key)
    }

    /// See [`crate::Cache::contains_key`].
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.contains_key(key)
    }

    /// See [`crate::Cache::expires_in`].
    pub fn expires_in<Q>(&self, key: &Q) -> Expiration<Duration>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.expires_in(key)
    }

    /// See [`crate::Cache::expires_at`].
    pub fn expires_at<Q>(&self, key: &Q) -> Expiration<Instant>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.cache.expires_at(key)
    }
}
