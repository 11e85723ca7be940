//! Eviction: the pass removes entries that exceed the capacity.
//!
//! A victim that a computation uses is set aside: the policy still counts the entry, but does not
//! choose it again. The end of the computation releases the entry, and the next pass makes it a
//! candidate again. So each entry in use costs one attempt, for however long it is used.

use super::budget::{Budget, Stuck};
use super::pass::Pass;
use super::unlink::UnlinkIf;
use crate::engine::flights::Kept;
use crate::eviction::Policy;
use crate::links::NodeId;
use crate::node::GONE;
use crate::primitives::seeded;
use crate::removal::RemovalCause;

/// After this many victims whose buckets other threads hold, a pass leaves the rest to a later one.
const MAX_STUCK: u32 = 16;

impl Pass<'_> {
    /// Evicts until the policy's weight is within its maximum, or the budget is used up.
    #[inline(never)]
    pub fn evict(&mut self, budget: &mut Budget) -> Stuck {
        let core = self.core;
        self.restore_released(budget);
        let mut stuck = 0;
        loop {
            let Some(policy) = &mut self.state.policy else { return Stuck::Not };
            if policy.weight() <= policy.max_weight() || !budget.take_unit() {
                return Stuck::Not;
            }
            let Some(id) = policy.take_victim(&*core.pool) else { return Stuck::ByComputations };
            self.state.evictions_in_period += 1;
            self.prefetch_victims();
            let meta = core.pool.meta(id);
            if meta.deadline() == GONE {
                continue;
            }
            let unlinked = self.unlink((id, meta), RemovalCause::Size, UnlinkIf::Always);
            let Some(policy) = &mut self.state.policy else { return Stuck::Not };
            match unlinked {
                Ok(()) => {}
                Err(Kept::ByComputation) if !seeded("victims-in-use-stay-candidates") => {
                    policy.set_aside(&*core.pool, id);
                }
                Err(_) => {
                    policy.readmit(&*core.pool, id);
                    stuck += 1;
                    if stuck == MAX_STUCK {
                        return Stuck::ByThreads;
                    }
                }
            }
        }
    }

    /// Makes entries candidates again when their computations have ended, within the budget.
    fn restore_released(&mut self, budget: &mut Budget) {
        let core = self.core;
        while core.flights.has_released() && budget.take_unit() {
            if let (Some(id), Some(policy)) = (core.flights.next_released(), &mut self.state.policy)
            {
                policy.restore(&*core.pool, id);
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
