//! Nodes in the order of the eviction policy.

use super::core::Core;
use crate::eviction::Policy;
use crate::links::NodeId;
use crate::pool::RawHandle;

impl Core {
    /// At most so many nodes, those with the best prospects first. None without a bound.
    pub fn hottest(&self, limit: usize) -> Vec<RawHandle> {
        self.ranked(|policy, add| policy.hottest(&*self.pool).take(limit).for_each(add))
    }

    /// At most so many nodes, roughly in the order in which the policy would evict them. None
    /// without a bound.
    pub fn coldest(&self, limit: usize) -> Vec<RawHandle> {
        self.ranked(|policy, add| policy.coldest(&*self.pool).take(limit).for_each(add))
    }

    fn ranked(&self, rank: impl Fn(&Policy, &mut dyn FnMut(NodeId))) -> Vec<RawHandle> {
        let mut ranked = Vec::new();
        for keeper in self.keepers() {
            // The lock keeps the cache from giving up its own counts.
            let state = keeper.upkeep.lock();
            let mut add = |id| ranked.push(RawHandle::retain(&self.pool, id));
            state.policy.iter().for_each(|policy| rank(policy, &mut add));
        }
        ranked
    }
}
