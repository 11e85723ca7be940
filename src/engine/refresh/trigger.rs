//! From a read that finds an entry stale to the start of its reload.

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::read::NodeRef;
use crate::engine::reloads::{Reloading, TakenBy};
use crate::links::NodeId;
use crate::pool::Handle;

impl<K, V, S> Engine<K, V, S> {
    /// Takes the trigger of a living node if its soft deadline has passed. If so, the caller must
    /// call [`after_read`](Self::after_read) when it has dropped its guard.
    #[inline]
    pub fn triggers_reload(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        self.reloads.as_ref().is_some_and(|reloads| reloads.are_triggered())
            && self.trigger_if_stale(node.id(), coarse)
    }

    #[cold]
    fn trigger_if_stale(&self, id: NodeId, coarse: Timestamp) -> bool {
        self.reloads.as_ref().is_some_and(|it| it.trigger_if_stale(&self.core, id, coarse))
    }

    /// Takes the trigger of a node because a call asks for a reload, stale or not.
    pub fn take_reload(&self, node: &Handle<K, V>) -> Option<Reloading> {
        self.reloads.as_ref()?.take(&self.core, node.id(), TakenBy::Call)
    }
}
