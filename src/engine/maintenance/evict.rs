//! Eviction: the pass removes entries that exceed the capacity.
//!
//! A victim that a computation uses is set aside until the computation ends: the policy still
//! counts the entry, but does not choose it. The pass after that end lets the policy choose it
//! again. So an entry in use costs one attempt, no matter how long it is in use.
//!
//! A victim that has to stay for another reason is *postponed*: set aside until the end of the
//! pass. Such is an entry whose bucket another thread holds, or one that has only its hash in
//! common with a computed key. The latter costs an attempt per pass. (Hashes have 32 bits. If more
//! entries have that hash than a pass may evict, a pass may meet nothing else.)

use super::pass::{LEAST_EVICTIONS, MAX_DRAINED, Pass, Stuck, take_unit};
use super::unlink::Why;
use crate::engine::flights::Blocked;
use crate::eviction::Policy;
use crate::links::{Named, NodeId};
use crate::node::GONE;
use crate::primitives::seeded;

/// After this many victims whose buckets other threads hold, a pass leaves the rest to a later one.
const MAX_BUSY: u32 = 16;

/// Prefetch distance, in evictions. An eviction takes some 50 ns, less than one access to memory.
/// Unique inserts into a million entries take 0.87 to 0.91 of the time that they take with 0 (the
/// next candidate only). 4 gains no more than 2. Into 75,000 entries and fewer there is no
/// difference.
const AHEAD: usize = 2;

/// A pass that has to evict no more than this weight prefetches nothing: the evictions would begin
/// before the memory comes.
const FEW: u64 = 3;

/// Two neighbours in the window's list, from whose end the candidates come: the next candidate to
/// be prefetched, and the one after it.
type Upcoming = [NodeId; 2];

impl Pass<'_> {
    /// Evicts, whatever the expirations have cost, at most:
    ///
    /// * beside an operation, 64 entries more than were drained, or than a pass may drain: a lower
    ///   capacity or a heavy entry needs more evictions than there are writes;
    /// * in a pass that a caller asked for, as many as were drained, and the rest of its units;
    /// * in a strict one, the rest of its units.
    pub fn evict_within(&mut self, drained: usize) -> Stuck {
        let (drained, rest) = (drained as u32, self.budget.units);
        if !self.budget.is_asked_for() {
            let limit = self.upkeep.writes.capacity().min(MAX_DRAINED) as u32;
            return self.evict(&mut (drained.max(limit) + LEAST_EVICTIONS));
        }
        let drained = if self.budget.strict { 0 } else { drained };
        let mut units = drained.saturating_add(rest);
        let stuck = self.evict(&mut units);
        self.budget.spend(rest.saturating_sub(units));
        stuck
    }

    /// Evicts until the policy's weight is within its maximum, the units are used up, the policy
    /// has no victim left, or too many of the victims' buckets are held by other threads.
    ///
    /// Victims that have to stay are set aside. Otherwise the policy could name the same two again
    /// and again.
    #[inline(never)]
    fn evict(&mut self, units: &mut u32) -> Stuck {
        self.restore_released(units);
        let is_over = |policy: &Policy| policy.weight() > policy.max_weight();
        if !self.state.policy.as_ref().is_some_and(is_over) {
            return Stuck::Not;
        }
        let mut postponed = std::mem::take(&mut self.state.ids);
        let stuck = self.evict_or_postpone(&mut postponed, units);
        if let Some(policy) = &mut self.state.policy {
            postponed.drain(..).for_each(|id| policy.restore(&*self.core.pool, id));
        }
        self.state.ids = postponed;
        stuck
    }

    /// Evicts, and leaves the postponed victims in `postponed`. An attempt that takes nothing out
    /// costs no unit: a pass of few units would have none left for other work, each time.
    fn evict_or_postpone(&mut self, postponed: &mut Vec<NodeId>, units: &mut u32) -> Stuck {
        let core = self.core;
        // Whether a victim was evicted, or set aside for a computation: the next pass does not meet
        // it.
        let mut progress = false;
        let mut busy = 0;
        let (most, mut attempts) = (*units, *units);
        let is_many = |policy: &Policy| policy.weight() - policy.max_weight() > FEW;
        let looks_ahead = self.state.policy.as_ref().is_some_and(is_many);
        let mut upcoming = looks_ahead.then(|| self.look_ahead());
        let cause = |busy| if busy > 0 { Stuck::ByThreads } else { Stuck::ByComputations };
        let stuck = loop {
            let Some(policy) = &mut self.state.policy else { break Stuck::Not };
            if policy.weight() <= policy.max_weight() {
                break Stuck::Not;
            }
            if attempts == 0 {
                let none_stays = progress || postponed.is_empty();
                break if none_stays { Stuck::Not } else { cause(busy) };
            }
            let Some(Named { id, node: meta }) = policy.take_victim(&*core.pool) else {
                break cause(busy);
            };
            attempts -= 1;
            #[cfg(test)]
            (self.state.victims_named += 1);
            if let Some(upcoming) = &mut upcoming {
                self.prefetch_contenders(upcoming);
            }
            let unlinked = match meta.deadline() {
                GONE => Ok(()),
                _ => self.unlink(id.with(meta), Why::Full),
            };
            let Err(blocked) = unlinked else {
                (progress, *units) = (true, *units - 1);
                continue;
            };
            progress |= blocked == Blocked::ByComputation;
            self.keep(id, blocked, postponed);
            let is_busy = blocked == Blocked::ForNow || seeded("victims-in-use-stay-candidates");
            busy += u32::from(is_busy);
            if busy == MAX_BUSY {
                break Stuck::ByThreads;
            }
        };
        let evictions = &mut self.state.evictions_in_period;
        *evictions = evictions.saturating_add(most - attempts);
        stuck
    }

    /// Keeps a victim that has to stay.
    #[cold]
    fn keep(&mut self, id: NodeId, blocked: Blocked, postponed: &mut Vec<NodeId>) {
        let Some(policy) = &mut self.state.policy else { return };
        if seeded("victims-in-use-stay-candidates") {
            return policy.readmit(&*self.core.pool, id);
        }
        policy.set_aside(&*self.core.pool, id);
        if blocked != Blocked::ByComputation {
            postponed.push(id);
        }
    }

    /// Lets the policy choose entries again whose computations have ended, within the units.
    fn restore_released(&mut self, units: &mut u32) {
        let core = self.core;
        while core.flights.has_released() && take_unit(units) {
            if let (Some(id), Some(policy)) = (core.flights.next_released(), &mut self.state.policy)
            {
                policy.restore(&*core.pool, id);
            }
        }
    }

    /// Finds the next candidates at the end of the window's list, and prefetches the first `AHEAD`.
    #[inline]
    fn look_ahead(&self) -> Upcoming {
        let mut upcoming = [NodeId::NONE; 2];
        if let Some(policy) = &self.state.policy
            && let [Some(candidate), _] = policy.next_contenders()
        {
            upcoming = [candidate, self.before(candidate)];
            (0..AHEAD).for_each(|_| self.prefetch_candidate(policy, &mut upcoming));
        }
        upcoming
    }

    /// Prefetches one more candidate, and the main region's next victim if it is a new one.
    #[inline(always)]
    fn prefetch_contenders(&mut self, upcoming: &mut Upcoming) {
        let Some(policy) = &self.state.policy else { return };
        self.prefetch_candidate(policy, upcoming);
        if let [_, Some(victim)] = policy.next_contenders()
            && victim != self.state.prefetched
        {
            self.prefetch_contender(policy, victim);
            self.prefetch_ids([self.before(victim)]);
            self.state.prefetched = victim;
        }
    }

    /// Prefetches what the eviction of the near candidate will touch, and the node before the far
    /// one. If the list has changed meanwhile, the prefetches are useless but harmless.
    #[inline(always)]
    fn prefetch_candidate(&self, policy: &Policy, upcoming: &mut Upcoming) {
        let [near, far] = *upcoming;
        if near.may_name_node() {
            self.prefetch_contender(policy, near);
            *upcoming = [far, self.before(far)];
            self.prefetch_ids([upcoming[1]]);
        }
    }

    #[inline]
    fn prefetch_contender(&self, policy: &Policy, id: NodeId) {
        let core = self.core;
        let meta = core.pool.meta(id);
        policy.prefetch(meta.hash());
        core.index.prefetch(meta.hash());
        self.prefetch_ids([meta.timer.prev(), meta.timer.next()]);
    }

    /// The neighbour of a node in the policy's list, towards its front.
    #[inline(always)]
    fn before(&self, id: NodeId) -> NodeId {
        if id.may_name_node() { self.core.pool.meta(id).queue.prev() } else { NodeId::NONE }
    }
}
