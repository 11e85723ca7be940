//! Eviction: the pass removes entries that exceed the capacity.
//!
//! A victim that a computation uses is set aside: the policy still counts the entry, but does not
//! choose it again. The end of the computation releases the entry, and the next pass makes it a
//! candidate again. So each entry in use costs one attempt, for however long it is used. An entry
//! whose hash a computed key has costs an attempt per pass. (Hashes have 32 bits. If more entries
//! have that hash than a pass may evict, a pass may meet nothing else.)

use super::budget::{LEAST_EVICTIONS, Stuck, take_unit};
use super::pass::{Pass, drain_limit};
use super::unlink::UnlinkIf;
use crate::engine::flights::Kept;
use crate::eviction::Policy;
use crate::links::NodeId;
use crate::node::GONE;
use crate::primitives::seeded;
use crate::removal::RemovalCause;

/// After this many victims whose buckets other threads hold, a pass leaves the rest to a later one.
const MAX_BUSY: u32 = 16;

impl Pass<'_> {
    /// Evicts. Evictions keep up with the writes that were drained, whatever the expirations cost.
    /// A pass that a caller asked for evicts no more than that and the rest of its units. Any
    /// other pass evicts more, since a capacity that was lowered, or a heavy entry, asks for that.
    pub fn evict_within(&mut self, drained: usize) -> Stuck {
        let (drained, rest) = (drained as u32, self.budget.units);
        if !self.budget.is_asked_for() {
            let limit = drain_limit(self.core.upkeep.writes.capacity()) as u32;
            return self.evict(&mut (drained.max(limit) + LEAST_EVICTIONS));
        }
        let drained = if self.budget.strict { 0 } else { drained };
        let mut units = drained.saturating_add(rest);
        let stuck = self.evict(&mut units);
        self.budget.spend(rest.saturating_sub(units));
        stuck
    }

    /// Evicts until the policy's weight is within its maximum, or the units are used up.
    ///
    /// A victim that has to stay for now is set aside for the rest of the pass. Otherwise two of
    /// them could be each other's successors, and the pass would meet nothing else.
    #[inline(never)]
    fn evict(&mut self, units: &mut u32) -> Stuck {
        self.restore_released(units);
        let mut postponed = std::mem::take(&mut self.state.ids);
        let stuck = self.evict_or_postpone(&mut postponed, units);
        if let Some(policy) = &mut self.state.policy {
            postponed.drain(..).for_each(|id| policy.restore(&*self.core.pool, id));
        }
        self.state.ids = postponed;
        stuck
    }

    /// Evicts, and leaves the victims that have to stay for now in `postponed`.
    fn evict_or_postpone(&mut self, postponed: &mut Vec<NodeId>, units: &mut u32) -> Stuck {
        let core = self.core;
        // Whether the policy has fewer candidates for the next pass than it had for this one.
        let mut progress = false;
        let mut busy = 0;
        let stuck = |busy| if busy > 0 { Stuck::ByThreads } else { Stuck::ByComputations };
        loop {
            let Some(policy) = &mut self.state.policy else { return Stuck::Not };
            if policy.weight() <= policy.max_weight() {
                return Stuck::Not;
            }
            if !take_unit(units) {
                return if progress || postponed.is_empty() { Stuck::Not } else { stuck(busy) };
            }
            let Some(id) = policy.take_victim(&*core.pool) else { return stuck(busy) };
            let evictions = &mut self.state.evictions_in_period;
            *evictions = evictions.saturating_add(1);
            #[cfg(test)]
            (self.state.victims_named += 1);
            self.prefetch_victims();
            let meta = core.pool.meta(id);
            let unlinked = match meta.deadline() {
                GONE => Ok(()),
                _ => self.unlink((id, meta), RemovalCause::Size, UnlinkIf::Always),
            };
            progress |= matches!(unlinked, Ok(()) | Err(Kept::ByComputation));
            let (Some(policy), Err(kept)) = (&mut self.state.policy, unlinked) else { continue };
            if seeded("victims-in-use-stay-candidates") {
                policy.readmit(&*core.pool, id);
                busy += 1;
            } else {
                policy.set_aside(&*core.pool, id);
                match kept {
                    Kept::ByComputation => {}
                    Kept::BesideComputation => postponed.push(id),
                    Kept::ForNow => {
                        postponed.push(id);
                        busy += 1;
                    }
                }
            }
            if busy == MAX_BUSY {
                return Stuck::ByThreads;
            }
        }
    }

    /// Makes entries candidates again when their computations have ended, within the units.
    fn restore_released(&mut self, units: &mut u32) {
        let core = self.core;
        while core.flights.has_released() && take_unit(units) {
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
