//! Expiration: the pass removes entries that are due.

use super::pass::{Pass, UNITS_PER_LOOK, take_unit};
use super::unlink::Why;
use crate::links::NodeId;
use crate::node::GONE;
use crate::pool::{FARTHEST, Timers};
use crate::primitives::seeded;
use crate::wheel::Poll;

/// A pass prepares this many removals of due entries together, so that their cache misses overlap.
const EXPIRY_BATCH: usize = 16;

impl Pass<'_> {
    /// Brings the wheel to the present and removes the entries that are due, within the budget.
    #[inline(never)]
    pub fn expire(&mut self) {
        let timers = self.timers();
        let wheel = &mut self.state.wheel;
        // The wheel's time is a circle: a single step must stay within a quarter of it.
        while wheel.clock().saturating_add(FARTHEST) < self.now {
            wheel.advance(&timers, wheel.clock() + FARTHEST);
        }
        wheel.advance(&timers, self.now);
        if self.budget.exact && !seeded("the-current-tick-stays") {
            wheel.recall_current(&timers);
        }
        let mut due = [NodeId::NONE; EXPIRY_BATCH];
        let mut count = due.len();
        while count == due.len() {
            count = 0;
            while count < due.len()
                && let Some(id) = self.next_due(&timers)
            {
                self.prefetch_unlink(id);
                due[count] = id;
                count += 1;
            }
            due[..count].iter().for_each(|&id| self.expire_one(id));
        }
    }

    /// The next id that is due, if the budget suffices to find it.
    fn next_due(&mut self, timers: &Timers<'_>) -> Option<NodeId> {
        while take_unit(&mut self.budget.units) {
            let mut visits = UNITS_PER_LOOK;
            let poll = self.state.wheel.poll(timers, &mut visits);
            self.budget.spend(UNITS_PER_LOOK - visits);
            match poll {
                Poll::Due(id) => return Some(id),
                Poll::Exhausted => {}
                Poll::Idle => {
                    // A look that finds nothing costs nothing: a pass of one unit still evicts.
                    self.budget.units += 1;
                    break;
                }
            }
        }
        None
    }

    /// Prefetches what the node's removal from the index and from the policy's lists will touch.
    fn prefetch_unlink(&self, id: NodeId) {
        let meta = self.core.pool.meta(id);
        self.core.index.prefetch(meta.hash());
        self.prefetch_ids([meta.queue.prev(), meta.queue.next()]);
    }

    fn expire_one(&mut self, id: NodeId) {
        let meta = self.core.pool.meta(id);
        let mut deadline = meta.deadline();
        while deadline != GONE && deadline <= self.now {
            if self.unlink(id.with(meta), Why::Expired(deadline)).is_ok() {
                return;
            }
            let before = std::mem::replace(&mut deadline, meta.deadline());
            if before == deadline {
                break;
            }
            // A reader has just claimed the deadline, or extended it.
        }
        if deadline != GONE {
            // The entry was extended, a computation uses it, or another thread holds its bucket.
            // If its deadline has passed, the wheel hands it out again within a tick.
            self.left.kept |= deadline <= self.now;
            self.schedule(id, meta);
        }
    }
}
