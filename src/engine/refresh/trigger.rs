//! From a read that finds an entry stale to the start of its reload.

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::read::NodeRef;
use crate::engine::reloads::Reloading;
use crate::pool::Handle;

impl<K, V, S> Engine<K, V, S> {
    /// Takes the trigger of a living node if its soft deadline has passed. If so, the caller must
    /// call [`after_read`](Self::after_read) when it has dropped its guard.
    #[inline]
    pub fn triggers_reload(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        self.reloads.as_ref().is_some_and(|reloads| reloads.are_triggered())
            && self.trigger_if_stale(node, coarse)
    }

    #[cold]
    fn trigger_if_stale(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        let Some((reloads, refresh)) =
            self.reloads.as_ref().zip(self.pool.raw().refresh(node.id()))
        else {
            return false;
        };
        let stale_from = refresh.instant();
        if !self.core.ticker.has_passed(stale_from, coarse) {
            return false;
        }
        let take = || refresh.take(stale_from).then(|| (self.handle_on(node), stale_from));
        let read_at = self.core.ticker.now();
        match reloads.take(&self.core, take, Some(read_at)) {
            Some(reloading) => reloads.start_later(reloading),
            // A reader that is held back helps to deliver.
            None => return self.core.is_over_notification_limit(),
        }
        true
    }

    /// Takes the trigger of a node because a call asks for a reload, stale or not.
    pub fn take_reload(&self, node: &Handle<K, V>) -> Option<Reloading<K, V>> {
        let reloads = self.reloads.as_ref()?;
        let refresh = self.pool.raw().refresh(node.id())?;
        reloads.take(&self.core, || Some((node.clone(), refresh.take_any()?)), None)
    }
}
