//! The removals of a cache as a stream.

use crate::engine::{Core, Engine, removed};
use crate::entry::Removed;
use crate::error::TimedOut;
use crate::macros::debug_fields;
use crate::pool::Pool;
use crate::primitives::plain::Arc;
use crate::primitives::time::{Duration, Instant};
use crate::waiters::{Streak, poll_until};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Receives every value that leaves a cache; see [`Builder::removals`](crate::Builder::removals).
///
/// Each removal is received once, except those that
/// [`Overflow::Discard`](crate::Overflow::Discard) drops. The values of one key come in the order
/// of their removals. With the feature `stream` this is a `futures_core::Stream`.
///
/// It does not keep the cache alive. After the cache is [closed](crate::Cache::close), or its last
/// handle is dropped, it yields what is still waiting, and then `None`. As with a listener, values
/// that are inside when the last handle is dropped are not announced. A removal by a write that was
/// concurrent with `close` may come after the first `None`.
///
/// *Dropping* it drops the removals that wait. From then on the cache announces nothing, and holds
/// no writer back, until [`Cache::removals`](crate::Cache::removals) is called again: a task whose
/// receiver was lost in a panic takes another one. Removals that nobody receives are counted
/// ([`Stats::discarded_notifications`](crate::Stats::discarded_notifications)), and those that
/// happen while the receiver is replaced may be among them.
#[must_use = "removals wait for it"]
pub struct Removals<K, V> {
    receiver: Receiver<K, V>,
    streak: Streak,
}

impl<K, V> Removals<K, V> {
    pub(crate) fn take_from(engine: &Engine<K, V>) -> Option<Self> {
        engine.core.notices.receiving().filter(|receiving| receiving.take())?;
        let receiver = Receiver { core: Arc::clone(&engine.core), pool: engine.pool.share() };
        Some(Self { receiver, streak: Streak::default() })
    }

    /// Awaits the next removal. `None` means that the cache is closed or gone, and that no removal
    /// waits. (After a write that was concurrent with `close`, a removal may follow.)
    ///
    /// *Cancellation*: dropping the future loses no removal.
    ///
    /// ```
    /// use cortado::{RemovalCause, future::Cache};
    ///
    /// # pollster::block_on(async {
    /// let cache: Cache<&str, u32> = Cache::builder().removals(true).build();
    /// let mut removals = cache.removals().unwrap();
    /// cache.insert("k", 1).await;
    /// cache.insert("k", 2).await;
    /// cache.close().await;
    /// let mut causes = Vec::new();
    /// while let Some(removed) = removals.recv().await {
    ///     causes.push((*removed.value(), removed.cause()));
    /// }
    /// assert_eq!(causes, [(1, RemovalCause::Replaced), (2, RemovalCause::Explicit)]);
    /// # });
    /// ```
    pub async fn recv(&mut self) -> Option<Removed<K, V>> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Polls for the next removal. `Ready(None)` means the same as `None` of [`recv`](Self::recv).
    ///
    /// If it is pending, the waker of the last call is called when a removal waits, with no lock
    /// held, where a listener would run
    /// ([`Builder::removal_listener`](crate::Builder::removal_listener)).
    ///
    /// After 128 removals in turn it is pending once although more may wait, and wakes the task at
    /// once. So a loop over many removals lets other tasks run in between.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Removed<K, V>>> {
        if self.streak.must_yield(context) {
            return Poll::Pending;
        }
        self.streak.note(self.receiver.poll_receive(context))
    }

    /// Returns the next removal if one waits, else `None`. It does not wait, and does not tell
    /// whether the cache is closed: [`recv_within`](Self::recv_within) with a limit of zero does.
    pub fn try_recv(&mut self) -> Option<Removed<K, V>> {
        self.receiver.try_receive()
    }

    /// Waits for the next removal on this thread; `None` as for [`recv`](Self::recv). The iterator
    /// over `&mut Removals` calls this, and ends at the first `None`.
    ///
    /// *Blocking*: blocks the thread without a limit; a task takes [`recv`](Self::recv). With
    /// [`Overflow::Wait`](crate::Overflow::Wait), the thread must not write to the cache itself: no
    /// one else makes room for its writes.
    ///
    /// ```
    /// use cortado::Cache;
    ///
    /// let cache = Cache::builder().removals(true).build();
    /// let mut removals = cache.removals().unwrap();
    /// let audit = std::thread::spawn(move || {
    ///     let mut values = Vec::new();
    ///     for removed in &mut removals {
    ///         values.push(*removed.value());
    ///     }
    ///     values
    /// });
    /// cache.insert("k", 1);
    /// cache.insert("k", 2);
    /// cache.close();
    /// assert_eq!(audit.join().unwrap(), [1, 2]);
    /// ```
    pub fn recv_blocking(&mut self) -> Option<Removed<K, V>> {
        poll_until(None, |context| self.receiver.poll_receive(context)).flatten()
    }

    /// Like [`recv_blocking`](Self::recv_blocking), for no longer than `limit`, in real time.
    /// [`Duration::ZERO`] does not wait.
    ///
    /// # Errors
    /// [`TimedOut`] if none came within the limit. `Ok(None)` means the same as `None` of
    /// [`recv`](Self::recv).
    ///
    /// ```
    /// use cortado::{Cache, TimedOut};
    /// use std::time::Duration;
    ///
    /// let cache: Cache<&str, u32> = Cache::builder().removals(true).build();
    /// let mut removals = cache.removals().unwrap();
    /// assert_eq!(removals.recv_within(Duration::ZERO).err(), Some(TimedOut));
    /// drop(cache);
    /// assert!(matches!(removals.recv_within(Duration::ZERO), Ok(None)));
    /// ```
    pub fn recv_within(&mut self, limit: Duration) -> Result<Option<Removed<K, V>>, TimedOut> {
        // A limit too long for the clock is no limit.
        let deadline = Instant::now().checked_add(limit);
        poll_until(deadline, |context| self.receiver.poll_receive(context)).ok_or(TimedOut)
    }

    /// How many removals wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.receiver.core.notices.outbox.len()
    }
}

/// Takes the notices of a cache out of the outbox. It keeps the cache's state, but not the cache.
struct Receiver<K, V> {
    core: Arc<Core>,
    pool: Pool<K, V>,
}

impl<K, V> Receiver<K, V> {
    /// The next removal, if one waits.
    fn try_receive(&self) -> Option<Removed<K, V>> {
        let notice = self.core.notices.next()?;
        Some(removed(&self.core, &self.pool, notice))
    }

    /// The next removal, or `None` after the last one of a cache that is closed or gone.
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Removed<K, V>>> {
        if let Some(removed) = self.try_receive() {
            return Poll::Ready(Some(removed));
        }
        let Some(receiving) = self.core.notices.receiving() else { return Poll::Ready(None) };
        receiving.park(context.waker());
        // The end comes after the last push. So it is read before the look at the outbox.
        let is_ended = receiving.is_ended();
        match self.try_receive() {
            Some(removed) => Poll::Ready(Some(removed)),
            // The end of an earlier receiver may be dropping a notice. It wakes this one then.
            None if is_ended && self.core.notices.outbox.is_idle() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl<K, V> Drop for Receiver<K, V> {
    fn drop(&mut self) {
        if let Some(receiving) = self.core.notices.receiving() {
            receiving.give_up();
        }
        self.core.notices.drop_unreceived(&self.core);
    }
}

/// The iterator over `&mut` [`Removals`]: it waits for the next removal on this thread, as
/// [`recv_blocking`](Removals::recv_blocking) does.
#[derive(Debug)]
pub struct RemovalsIter<'r, K, V>(&'r mut Removals<K, V>);

impl<K, V> Iterator for RemovalsIter<'_, K, V> {
    type Item = Removed<K, V>;

    fn next(&mut self) -> Option<Removed<K, V>> {
        self.0.recv_blocking()
    }
}

impl<'r, K, V> IntoIterator for &'r mut Removals<K, V> {
    type Item = Removed<K, V>;
    type IntoIter = RemovalsIter<'r, K, V>;

    fn into_iter(self) -> RemovalsIter<'r, K, V> {
        RemovalsIter(self)
    }
}

#[cfg(feature = "stream")]
impl<K, V> futures_core::Stream for Removals<K, V> {
    type Item = Removed<K, V>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        self.poll_recv(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.waiting(), None)
    }
}

debug_fields!(
    /// Shows how many removals wait.
    impl[K, V] Removals<K, V>, |it| waiting: it.waiting()
);
