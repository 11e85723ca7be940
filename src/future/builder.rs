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
    /// *Bound*: the [`notification_limit`](Self::notification_limit) counts the removals that wait
    /// for this listener, too. With [`Overflow::Discard`](crate::Overflow::Discard) further ones
    /// are dropped and counted. With [`Overflow::Wait`](crate::Overflow::Wait) a task that has
    /// written tells the listener what waits, or waits while another task does and more than the
    /// limit wait. A thread that writes is not held back for this listener, because it cannot poll
    /// one: where threads alone write, `Overflow::Discard` bounds the queue. Writes of the listener
    /// itself are not held back. It must not await the writes of other tasks on this cache.
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
