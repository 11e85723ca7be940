//! What a pass takes out of its own accord: what is due, and what is too much.

use super::budget::{Budget, UNITS_PER_LOOK};
use super::maintenance::Work;
use crate::links::NIL;
use crate::node::GONE;
use crate::policy::Policy;
use crate::pool::{FARTHEST, Timers};
use crate::removal::RemovalCause;
use crate::sync::seeded;
use crate::wheel::Poll;

/// How many removals of what is due are prepared together.
const EXPIRED_AT_ONCE: usize = 16;
/// Victims that a pass finds to be in use by computations, or in buckets that others hold, before
/// it leaves the rest to a later one.
const MAX_STUCK: u32 = 16;

impl Work<'_> {
    /// Brings the wheel to the present and removes what is due, within the budget.
    #[inline(never)]
    pub(super) fn expire(&mut self, budget: &mut Budget) {
        let timers = self.timers();
        let wheel = &mut self.state.wheel;
        while wheel.clock().saturating_add(FARTHEST) < self.now {
            wheel.advance(&timers, wheel.clock() + FARTHEST);
        }
        wheel.advance(&timers, self.now);
        if budget.is_exact() {
            wheel.recall_current(&timers);
        }
        // In batches, so that the lines which the removals touch are all on their way at once.
        let mut due = [NIL; EXPIRED_AT_ONCE];
        let mut count = due.len();
        while count == due.len() {
            count = 0;
            while count < due.len()
                && let Some(id) = self.next_due(&timers, budget)
            {
                self.prefetch_unlink(id);
                due[count] = id;
                count += 1;
            }
            due[..count].iter().for_each(|&id| self.expire_one(id));
        }
    }

    /// The next of the wheel's ids that are due, within the budget.
    fn next_due(&mut self, timers: &Timers<'_>, budget: &mut Budget) -> Option<u32> {
        while budget.take() {
            let mut visits = UNITS_PER_LOOK;
            let poll = self.state.wheel.poll(timers, &mut visits);
            budget.spend(UNITS_PER_LOOK - visits);
            match poll {
                Poll::Due(id) => return Some(id),
                Poll::Exhausted => {}
                Poll::Idle => break,
            }
        }
        None
    }

    /// Begins to load what taking the node out of the index and the policy's lists will touch.
    fn prefetch_unlink(&self, id: u32) {
        let meta = self.core.pool.meta(id);
        self.core.index.prefetch(meta.hash());
        self.prefetch_ids([meta.queue.prev(), meta.queue.next()]);
    }

    fn expire_one(&mut self, id: u32) {
        let meta = self.core.pool.meta(id);
        let mut judged = meta.deadline();
        while judged != GONE && judged <= self.now {
            let claim = (!seeded("expirer-ignores-extensions")).then_some(judged);
            if self.unlink((id, meta), RemovalCause::Expired, claim) {
                return;
            }
            let before = std::mem::replace(&mut judged, meta.deadline());
            if before == judged {
                break;
            }
            // Claimed by a reader just now, or extended.
        }
        if judged != GONE {
            // Extended, in use by a computation, or in a bucket that another thread holds: back
            // onto the wheel, where a deadline that has passed comes up again within a
            // tick.
            self.schedule(id, meta);
        }
    }

    /// Evicts until the policy is within its bound, within the budget. True if a computation was in
    /// the way: what is still too much then has to wait for it.
    #[inline(never)]
    pub(super) fn evict(&mut self, budget: &mut Budget) -> bool {
        let core = self.core;
        let mut stuck = 0;
        loop {
            let Some(policy) = &mut self.state.policy else { return false };
            if policy.weight() <= policy.max_weight() || !budget.take() {
                return false;
            }
            let Some(id) = policy.victim(&*core.pool) else { return false };
            self.state.evicted += 1;
            self.look_ahead();
            let meta = core.pool.meta(id);
            if meta.deadline() != GONE
                && !self.unlink((id, meta), RemovalCause::Size, None)
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

    /// Begins to load what the next evictions will touch: the nodes next in line, and what hangs on
    /// the first of them.
    fn look_ahead(&mut self) {
        let Some(policy) = &self.state.policy else { return };
        let losers = policy.next_losers().map(|id| id.unwrap_or(NIL));
        let before = std::mem::replace(&mut self.state.losers, losers);
        for id in losers {
            if id != NIL && id != before[0] && id != before[1] {
                self.ask_for_loser(policy, id);
            }
        }
    }

    #[inline]
    fn ask_for_loser(&self, policy: &Policy, id: u32) {
        let core = self.core;
        let meta = core.pool.meta(id);
        policy.prefetch(meta.hash());
        core.index.prefetch(meta.hash());
        self.prefetch_ids([meta.timer.prev(), meta.timer.next(), meta.queue.prev()]);
    }
}
