//! Questions about a cache as a whole, and maintenance on request.

use super::Cache;
use crate::async_listener::Share;
use crate::config::Policy;
use crate::engine::as_task;
use crate::entry::Key;
use crate::iter::Iter;
use crate::stats::Stats;
use std::hash::{BuildHasher, Hash};

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
