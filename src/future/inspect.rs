//! Questions about a cache as a whole, and maintenance on request.

use super::Cache;
use crate::async_listener::Share;
use crate::config::Policy;
use crate::engine::as_task;
use crate::entry::{Entry, Key};
use crate::iter::{Entries, Iter, Keys, Values};
use crate::stats::Stats;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// See [`crate::Cache::iter`]. It waits for nothing.
    pub fn iter(&self) -> Iter<'_, K, V, S>
    where
        V: Clone,
    {
        self.cache.iter()
    }

    /// See [`crate::Cache::entries`]. It waits for nothing.
    pub fn entries(&self) -> Entries<'_, K, V, S> {
        self.cache.entries()
    }

    /// See [`crate::Cache::keys`]. It waits for nothing.
    pub fn keys(&self) -> Keys<'_, K, V, S>
    where
        K: Clone,
    {
        self.cache.keys()
    }

    /// See [`crate::Cache::values`]. It waits for nothing.
    pub fn values(&self) -> Values<'_, K, V, S>
    where
        V: Clone,
    {
        self.cache.values()
    }

    /// See [`crate::Cache::soonest_to_expire`].
    pub fn soonest_to_expire(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.cache.soonest_to_expire(limit)
    }

    /// See [`crate::Cache::latest_to_expire`].
    pub fn latest_to_expire(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.cache.latest_to_expire(limit)
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

    /// See [`crate::Cache::max_capacity`].
    #[must_use]
    pub fn max_capacity(&self) -> Option<u64> {
        self.cache.max_capacity()
    }

    /// See [`crate::Cache::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.cache.stats()
    }

    /// See [`crate::Cache::next_expiration`].
    #[must_use]
    pub fn next_expiration(&self) -> Option<Duration> {
        self.cache.next_expiration()
    }
}

impl<'c, K: Hash + Eq, V: Clone, S: BuildHasher> IntoIterator for &'c Cache<K, V, S> {
    type Item = (Key<K, V>, V);
    type IntoIter = Iter<'c, K, V, S>;

    fn into_iter(self) -> Self::IntoIter {
        self.cache.iter()
    }
}
