//! Entries in the order of the eviction policy.

use crate::engine::Engine;
use crate::entry::Entry;
use crate::links::NodeId;
use crate::pool::{Handle, RawHandle};

impl<K: Eq, V, S> Engine<K, V, S> {
    /// At most so many entries, those with the best prospects first. None without a bound.
    pub fn hottest(&self, limit: usize) -> Vec<Entry<K, V>> {
        let nodes = {
            let state = self.core.upkeep.lock();
            let policy = state.policy.iter();
            let ids = policy.flat_map(|policy| policy.hottest(&*self.core.pool)).take(limit);
            ids.map(|id| self.handle_of(id)).collect()
        };
        self.still_present(nodes)
    }

    /// At most so many entries, roughly in the order in which the policy would evict them. None
    /// without a bound.
    pub fn coldest(&self, limit: usize) -> Vec<Entry<K, V>> {
        let nodes = {
            let state = self.core.upkeep.lock();
            let policy = state.policy.iter();
            let ids = policy.flat_map(|policy| policy.coldest(&*self.core.pool)).take(limit);
            ids.map(|id| self.handle_of(id)).collect()
        };
        self.still_present(nodes)
    }

    /// A count on a node that the policy holds. The maintenance lock, which the caller holds, keeps
    /// the cache from giving up its own.
    fn handle_of(&self, id: NodeId) -> Handle<K, V> {
        self.core.pool.meta(id).retain();
        self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), id))
    }

    fn still_present(&self, nodes: Vec<Handle<K, V>>) -> Vec<Entry<K, V>> {
        nodes.into_iter().filter_map(|node| self.present(node)).collect()
    }
}
