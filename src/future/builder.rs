//! Settings of a cache for tasks.

use super::CacheBuilder;
use crate::async_listener::{AsyncListener, ListenerFuture};
use crate::removal::RemovalCause;
use std::hash::Hash;
use std::sync::Arc;

impl<K, V> CacheBuilder<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Adds a listener that awaits. It gets clones of key and value, and the cause.
    ///
    /// One removal is told at a time, and the removals of a key in their order. The operation of a
    /// task that ends while removals wait awaits the listener, unless another operation is at it.
    /// If that operation is dropped, a later one goes on with the removal that was being told. An
    /// operation of a thread ([`Cache::sync`](super::Cache::sync)) and the
    /// [`scheduler`](Self::scheduler) leave the removals to the next operation of a task, of
    /// which [`run_pending_tasks`](super::Cache::run_pending_tasks) is one.
    ///
    /// *Bound*: with [`Overflow::Discard`](crate::Overflow::Discard), the
    /// [`notification_limit`](Self::notification_limit) counts the removals that wait for this
    /// listener, too. With [`Overflow::Wait`](crate::Overflow::Wait) it does not: a thread could
    /// not make room, so that queue has no bound then.
    ///
    /// A panic is caught and counted, and the next removal is told.
    ///
    /// ```
    /// use cortado::future::{Cache, FutureExt};
    ///
    /// # pollster::block_on(async {
    /// let cache: Cache<u32, String> = Cache::builder()
    ///     .async_eviction_listener(|key, value, cause| {
    ///         async move { println!("{key}: {value} left: {cause}") }.boxed()
    ///     })
    ///     .build();
    /// cache.insert(1, "one".into()).await;
    /// cache.remove(&1).await;
    /// # });
    /// ```
    pub fn async_eviction_listener<F>(mut self, listener: F) -> Self
    where
        F: Fn(Arc<K>, V, RemovalCause) -> ListenerFuture + Send + Sync + 'static,
    {
        let listener = Arc::new(AsyncListener::new(listener));
        let queue = Arc::clone(&listener);
        self.backlogs.push(Arc::clone(listener.backlog()));
        self.hooks.async_listeners.push(listener);
        self.removal_listener(move |removed| queue.push(removed))
    }
}
