//! The pass's first part: applying what reads and writes have recorded.
//!
//! A batch is taken out whole and gone through twice. The first time only prefetches, some events
//! ahead of the second, which applies. An event touches the nodes beside its own in two lists, a
//! line of the sketch and a line of the memory of leavers, all of them anywhere in memory.
//! Without the prefetches these misses cost two to four times the rest.

use super::pass::{MAX_DRAINED, Pass};
use crate::buffer::read::ReadBuffer;
use crate::buffer::write::{DrainLimits, Drained};
use crate::engine::event::Event;
use crate::links::{Named, NodeId};
use crate::node::{GONE, Meta, NO_PERIOD, ended_at, state};
use crate::pool::RefreshMark;
use crate::primitives::seeded;

/// Prefetch distance, in events.
const AHEAD: usize = 8;

/// A pass takes out so many spilled events at least. (In a small cache these are only events of
/// reads, which have no weight.)
const LEAST_SPILLED: usize = 64;

impl Pass<'_> {
    /// Applies what reads and writes recorded. Both buffers are bounded. Returns how many writes it
    /// applied, and whether more are left or came meanwhile.
    #[inline(never)]
    pub fn drain(&mut self) -> Drained {
        let mut events = std::mem::take(&mut self.state.events);
        if self.state.policy.is_some() {
            events.clear();
            self.upkeep.reads.drain(self.upkeep.reads.capacity(), &mut events);
            self.for_each_prefetched(
                &events,
                |pass, read| pass.prefetch_read(ReadBuffer::id_of(read)),
                |pass, read| pass.apply_read(ReadBuffer::id_of(read)),
            );
            events.clear();
        }
        // Spilled writes come on top of the stripes only if a caller asked for all recorded writes.
        let writes = &self.upkeep.writes;
        let (portion, mut stripes) = (writes.portion(), writes.capacity());
        if !self.budget.is_asked_for() {
            stripes = stripes.min(MAX_DRAINED).saturating_sub(portion.min(writes.spill.count()));
        }
        let limits = DrainLimits { stripes, spill: portion.max(LEAST_SPILLED) };
        let drained = writes.drain(&mut events, limits, self.budget.patience, |batch| {
            self.for_each_prefetched(batch, Self::prefetch_write, Self::apply);
        });
        self.state.events = events;
        drained
    }

    #[inline(always)]
    fn for_each_prefetched(
        &mut self,
        events: &[u64],
        prefetch: impl Fn(&Self, u64),
        mut apply: impl FnMut(&mut Self, u64),
    ) {
        events.iter().take(AHEAD).for_each(|&event| prefetch(self, event));
        for (n, &event) in events.iter().enumerate() {
            if let Some(&next) = events.get(n + AHEAD) {
                prefetch(self, next);
            }
            apply(self, event);
        }
    }

    #[inline]
    pub fn prefetch_ids<const N: usize>(&self, ids: [NodeId; N]) {
        for id in ids {
            if id.may_name_node() {
                self.core.pool.prefetch(id);
            }
        }
    }

    fn prefetch_read(&self, id: NodeId) {
        let meta = self.core.pool.meta(id);
        self.prefetch_ids([meta.queue.prev(), meta.queue.next()]);
        if let Some(policy) = &self.state.policy {
            policy.prefetch_frequency(meta.hash());
        }
    }

    fn prefetch_write(&self, event: u64) {
        match Event::unpack(event) {
            Event::Added(id, hash) => {
                self.core.pool.prefetch(id);
                if let Some(policy) = &self.state.policy {
                    policy.prefetch(hash);
                }
            }
            Event::Removed(id) | Event::Replaced { old: id, .. } | Event::Rescheduled(id) => {
                let meta = self.core.pool.meta(id);
                // An old event may lead to a free node, whose links are not ids of nodes.
                if meta.state() & state::LINKED != 0 {
                    let (queue, timer) = (&meta.queue, &meta.timer);
                    self.prefetch_ids([queue.prev(), queue.next(), timer.prev(), timer.next()]);
                }
            }
        }
    }

    fn apply_read(&mut self, id: NodeId) {
        let meta = self.core.pool.meta(id);
        let reads = &mut self.state.reads_in_period;
        *reads = reads.saturating_add(1);
        if meta.state() & state::LINKED != 0
            && let Some(policy) = &mut self.state.policy
        {
            policy.record_hit(&*self.core.pool, id);
        }
    }

    pub fn apply(&mut self, event: u64) {
        match Event::unpack(event) {
            Event::Added(id, _) => self.added(id),
            Event::Removed(id) => self.removed(id),
            Event::Replaced { new, old, later } => self.replaced(new, old, later),
            // A stale event does no harm: `schedule` leaves a node alone that is not linked. If
            // the node belongs to another entry by now, it is scheduled at that entry's deadline.
            Event::Rescheduled(id) => self.schedule(id, self.core.pool.meta(id)),
        }
    }

    /// The node was published.
    fn added(&mut self, id: NodeId) {
        let meta = self.core.pool.meta(id);
        if meta.state() & state::REMOVED != 0 && !seeded("added-after-removed") {
            // The pass drained its removal first.
            meta.set_state(state::ADDED);
            self.push_dead(id, meta);
            return;
        }
        let deadline = meta.deadline();
        if deadline == GONE {
            // It was unlinked meanwhile. The event of that is on its way.
            meta.set_state(state::ADDED);
            return;
        }
        meta.set_state(state::ADDED | state::LINKED);
        if let Some(policy) = &mut self.state.policy {
            policy.add(&*self.core.pool, id.with(meta));
        } else {
            self.state.unbounded.count += 1;
            self.state.unbounded.weight += u64::from(meta.weight());
        }
        let timers = self.timers();
        self.state.wheel.insert(&timers, id.with(&meta.timer), timers.show(ended_at(deadline)));
        self.sweep_if_old(id, meta);
    }

    /// The node was published in place of another node. If that node is linked, and the removal of
    /// the new node was not drained before, the new node takes over the position in the policy's
    /// list and, if it ends no earlier, on the wheel. It does so even if it has left the index by
    /// now: its own event, `Removed` or `Replaced`, is still to be drained.
    fn replaced(&mut self, new: NodeId, old: NodeId, later: bool) {
        let pool = &*self.core.pool;
        let (meta, before) = (pool.meta(new), pool.meta(old));
        if before.state() & state::LINKED == 0 || meta.state() & state::REMOVED != 0 {
            self.added(new);
            self.removed(old);
            return;
        }
        meta.set_state(state::ADDED | state::LINKED);
        before.clear_state(state::LINKED);
        if self.state.policy.is_none() {
            self.state.unbounded.weight += u64::from(meta.weight());
            self.state.unbounded.weight -= u64::from(before.weight());
        }
        if pool.refresh(old).is_some_and(RefreshMark::was_reloaded) {
            self.replace_reloaded(new.with(meta), old.with(before));
        } else if let Some(policy) = &mut self.state.policy {
            // An update counts as a use at most once per period, as a read does. But it always
            // counts if the weights differ or the policy does not have the old node.
            let period = self.core.hot.record_period();
            // (An LRU promises the order of the last uses, so there every update counts.)
            let recorded = (period == NO_PERIOD || before.record_period() == period)
                && !policy.counts_every_update();
            meta.set_record_period(period);
            if !recorded || !policy.replace_uncounted(pool, before, new.with(meta)) {
                let reads = &mut self.state.reads_in_period;
                *reads = reads.saturating_add(1);
                policy.replace(pool, old, new);
            }
        }
        // A deadline that was made earlier since needs a new place. Its event may have been drained
        // before the node was linked.
        let in_place = later && !meta.was_shortened();
        let timers = self.timers();
        if !(in_place && self.state.wheel.replace(&timers, &before.timer, new.with(&meta.timer))) {
            self.state.wheel.cancel(&timers, &before.timer);
            self.schedule(new, meta);
        }
        self.sweep_if_old(new, meta);
        self.note_removed(old, before);
    }

    /// Puts a node that a reload has made into the policy's list, in the place of the node that it
    /// replaced. A reload is no use of the entry, so it does not count as a hit.
    #[cold]
    fn replace_reloaded(&mut self, new: Named<&Meta>, old: Named<&Meta>) {
        let Some(policy) = &mut self.state.policy else { return };
        let pool = &*self.core.pool;
        new.node.set_record_period(old.node.record_period());
        if seeded("reloads-count-as-uses") {
            return policy.replace(pool, old.id, new.id);
        }
        policy.replace_reloaded(pool, old.id, new.id);
    }

    /// Sweeps a node of an older generation, whose bucket the sweep may have passed just before the
    /// node was published.
    #[inline]
    fn sweep_if_old(&mut self, id: NodeId, meta: &Meta) {
        let is_old = self.core.hot.is_cleared(meta) && !seeded("added-skips-the-sweep");
        if is_old && (self.budget.strict || self.sweep_one(id).is_err()) {
            // Once more through the index.
            self.state.sweep = None;
            self.state.swept = self.state.swept.min(self.core.hot.generation().before());
        }
    }

    /// A writer took the node out of the index.
    fn removed(&mut self, id: NodeId) {
        let meta = self.core.pool.meta(id);
        self.unlink_lists(meta);
        self.note_removed(id, meta);
    }

    /// Notes that the node, which is on no list any more, has left the index.
    #[inline]
    pub fn note_removed(&mut self, id: NodeId, meta: &Meta) {
        meta.set_state(state::REMOVED);
        if meta.state() & state::ADDED != 0 || seeded("removed-before-added") {
            self.push_dead(id, meta);
        }
    }

    /// Takes the node off the wheel and the policy's lists, if it is on them.
    pub fn unlink_lists(&mut self, meta: &Meta) {
        if meta.state() & state::LINKED == 0 {
            return;
        }
        meta.clear_state(state::LINKED);
        self.state.wheel.cancel(&self.timers(), &meta.timer);
        if let Some(policy) = &mut self.state.policy {
            policy.remove(&*self.core.pool, meta);
        } else {
            self.state.unbounded.count -= 1;
            self.state.unbounded.weight -= u64::from(meta.weight());
        }
    }

    /// Puts the node into the wheel's bucket for its deadline.
    pub fn schedule(&mut self, id: NodeId, meta: &Meta) {
        let deadline = meta.deadline();
        if meta.state() & state::LINKED != 0 && deadline != GONE {
            let timers = self.timers();
            let deadline = timers.show(ended_at(deadline));
            self.state.wheel.schedule(&timers, id.with(&meta.timer), deadline);
        }
    }
}
