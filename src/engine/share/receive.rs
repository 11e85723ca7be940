//! Receiving removals, in place of listeners that are notified of them.

use crate::engine::Engine;
use crate::engine::delivery::{Receiving, removed};
use crate::engine::maintenance::Core;
use crate::entry::Removed;
use crate::pool::Pool;
use crate::primitives::plain::Arc;
use std::task::{Context, Poll};

/// Takes the notices of a cache out of the outbox. It keeps the cache's state, but not the cache.
pub struct Receiver<K, V> {
    core: Arc<Core>,
    pool: Pool<K, V>,
}

impl<K, V> Engine<K, V> {
    /// The receiver of the removals; `None` if another caller has it, or the cache has none.
    pub fn take_receiver(&self) -> Option<Receiver<K, V>> {
        let is_taken = self.core.notices.receiving().is_some_and(Receiving::take);
        is_taken.then(|| Receiver { core: Arc::clone(&self.core), pool: self.pool.share() })
    }
}

impl<K, V> Receiver<K, V> {
    /// The next removal, if one waits.
    pub fn try_receive(&mut self) -> Option<Removed<K, V>> {
        let notice = self.core.notices.next()?;
        Some(removed(&self.core, &self.pool, notice))
    }

    /// The next removal, or `None` after the last one of a cache that is closed or gone.
    pub fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Removed<K, V>>> {
        if let Some(removed) = self.try_receive() {
            return Poll::Ready(Some(removed));
        }
        let core = Arc::clone(&self.core);
        let Some(receiving) = core.notices.receiving() else { return Poll::Ready(None) };
        receiving.park(context.waker());
        // The end comes after the last push. So it is read before the look at the outbox.
        let is_ended = receiving.is_ended();
        match self.try_receive() {
            Some(removed) => Poll::Ready(Some(removed)),
            // The end of an earlier receiver may be dropping a notice. It wakes this one then.
            None if is_ended && core.notices.outbox.is_idle() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// How many removals wait.
    pub fn waiting(&self) -> usize {
        self.core.notices.outbox.len()
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
