//! Eviction: the pass removes entries that exceed the capacity.

use super::budget::Budget;
use super::pass::Pass;
use super::unlink::Judged;
use crate::eviction::Policy;
use crate::links::NodeId;
use crate::node::GONE;
use crate::removal::RemovalCause;

/// A pass leaves the rest to a later one after this many victims that computations use, or whose
/// buckets other threads hold.
const MAX_STUCK: u32 = 16;

impl Pass<'_> {
    /// Evicts until the policy is within its bound, within the budget. True if computations are in
    /// the way: the remaining excess then has to wait for them.
    #[inline(never)]
    pub fn evict(&mut self, budget: &mut Budget) -> bool {
        let core = self.core;
        let mut stuck = 0;
        loop {
            let Some(policy) = &mut self.state.policy else { return false };
            if policy.weight() <= policy.max_weight() || !budget.take_unit() {
                return false;
            }
            let Some(id) = policy.take_victim(&*core.pool) else { return false };
            self.state.evictions_in_period += 1;
            self.prefetch_victims();
            let meta = core.pool.meta(id);
            if meta.deadline() != GONE
                && !self.unlink((id, meta), RemovalCause::Size, Judged::Anyhow)
                && let Some(policy) = &mut self.state.policy
            {
                policy.readmit(&*core.pool, id);
                stuck += 1;
                if stuck == MAX_STUCK {
                    return true;
                }
            }
        }
    }

    /// Prefetches what the next evictions will touch: the next candidates, and what their removal
    /// will touch.
    fn prefetch_victims(&mut self) {
        let Some(policy) = &self.state.policy else { return };
        let candidates = policy.next_contenders().map(|id| id.unwrap_or(NodeId::NONE));
        let before = std::mem::replace(&mut self.state.prefetched, candidates);
        for id in candidates {
            if id != NodeId::NONE && id != before[0] && id != before[1] {
                self.prefetch_victim(policy, id);
            }
        }
    }

    #[inline]
    fn prefetch_victim(&self, policy: &Policy, id: NodeId) {
        let core = self.core;
        let meta = core.pool.meta(id);
        policy.prefetch(meta.hash());
        core.index.prefetch(meta.hash());
        self.prefetch_ids([meta.timer.prev(), meta.timer.next(), meta.queue.prev()]);
    }
}
