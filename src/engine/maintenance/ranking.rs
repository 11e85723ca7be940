//! Nodes in the order of the eviction policy.

use crate::engine::core::Core;
use crate::links::NodeId;
use crate::pool::RawHandle;
use crate::primitives::Arc;

impl Core {
    /// At most so many nodes, those with the best prospects first. None without a bound.
    pub fn hottest(&self, limit: usize) -> Vec<RawHandle> {
        let state = self.upkeep.lock();
        let ids = state.policy.iter().flat_map(|policy| policy.hottest(&*self.pool));
        ids.take(limit).map(|id| self.handle_of(id)).collect()
    }

    /// At most so many nodes, roughly in the order in which the policy would evict them. None
    /// without a bound.
    pub fn coldest(&self, limit: usize) -> Vec<RawHandle> {
        let state = self.upkeep.lock();
        let ids = state.policy.iter().flat_map(|policy| policy.coldest(&*self.pool));
        ids.take(limit).map(|id| self.handle_of(id)).collect()
    }

    /// A count on a node that the policy holds. The maintenance lock, which the caller holds, keeps
    /// the cache from giving up its own.
    fn handle_of(&self, id: NodeId) -> RawHandle {
        self.pool.meta(id).retain();
        RawHandle::from_count(Arc::clone(&self.pool), id)
    }
}
