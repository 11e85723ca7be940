//! The pass's first part: applying what reads and writes have recorded.
//!
//! A batch is taken out whole and gone through twice, the second time some way behind the first,
//! which does nothing but ask for the cache lines that the second will need: an event touches the
//! nodes beside its own in two lists, a line of the sketch and one of the memory of rejections, all
//! of them anywhere in memory. One after the other their misses cost two to four times the rest.

use super::budget::Budget;
use super::event::Event;
use super::maintenance::{Work, drain_limit};
use crate::buffer::write::Drained;
use crate::links::{FIRST_RESERVED, NIL};
use crate::node::{GONE, Meta, NO_ERA, ended_at, life};
use crate::sync::atomic::Ordering;
use crate::sync::seeded;

/// How many events the asking is ahead.
const AHEAD: usize = 8;

impl Work<'_> {
    /// Applies what reads and writes recorded; both buffers are bounded. True if more came
    /// meanwhile.
    #[inline(never)]
    pub(super) fn drain(&mut self, budget: &Budget) -> Drained {
        let core = self.core;
        let mut events = std::mem::take(&mut self.state.events);
        if self.state.policy.is_some() {
            events.clear();
            core.reads.drain(core.reads.capacity(), &mut events);
            self.ahead(
                &events,
                |work, id| work.prefetch_read(id as u32),
                |work, id| {
                    work.read(id as u32);
                },
            );
            events.clear();
        }
        // What was spilled comes on top only where somebody asked for all that was written before.
        let portion = core.writes.portion();
        let spilled = if budget.is_asked_for() { 0 } else { portion.min(core.writes.spilled()) };
        let capacity = core.writes.capacity();
        let limit = if budget.is_asked_for() { capacity } else { drain_limit(capacity) };
        let limits = (limit.saturating_sub(spilled), portion);
        let drained = core.writes.drain(&mut events, limits, self.patience, |batch| {
            self.ahead(batch, Self::prefetch_write, Self::apply);
        });
        self.state.events = events;
        drained
    }

    #[inline(always)]
    fn ahead(
        &mut self,
        events: &[u64],
        ask: impl Fn(&Self, u64),
        mut apply: impl FnMut(&mut Self, u64),
    ) {
        events.iter().take(AHEAD).for_each(|&event| ask(self, event));
        for (n, &event) in events.iter().enumerate() {
            if let Some(&next) = events.get(n + AHEAD) {
                ask(self, next);
            }
            apply(self, event);
        }
    }

    #[inline]
    pub(super) fn prefetch_ids<const N: usize>(&self, ids: [u32; N]) {
        for id in ids {
            if id != NIL && id < FIRST_RESERVED {
                self.core.pool.prefetch(id);
            }
        }
    }

    fn prefetch_read(&self, id: u32) {
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
                // The links of a free node, to which an old event may lead, are not ids of nodes.
                if meta.life() & life::LINKED != 0 {
                    let (queue, timer) = (&meta.queue, &meta.timer);
                    self.prefetch_ids([queue.prev(), queue.next(), timer.prev(), timer.next()]);
                }
            }
        }
    }

    fn read(&mut self, id: u32) {
        let meta = self.core.pool.meta(id);
        self.state.recorded += 1;
        if meta.life() & life::LINKED != 0
            && let Some(policy) = &mut self.state.policy
        {
            policy.access(&*self.core.pool, id);
        }
    }

    fn apply(&mut self, event: u64) {
        match Event::unpack(event) {
            Event::Added(id, _) => self.added(id),
            Event::Removed(id) => self.removed(id),
            Event::Replaced { new, old, later } => self.replaced(new, old, later),
            // Nothing may be written to a node that is not linked: it was pushed under a guard, but
            // drained it may be after the node has become another's.
            Event::Rescheduled(id) => self.schedule(id, self.core.pool.meta(id)),
        }
    }

    /// The node was published.
    fn added(&mut self, id: u32) {
        let meta = self.core.pool.meta(id);
        meta.set_life(life::ADDED);
        if meta.life() & life::REMOVED != 0 && !seeded("added-after-removed") {
            // Its removal was drained first: dead on arrival.
            self.dead(id, meta);
            return;
        }
        if meta.deadline() == GONE {
            // Unlinked meanwhile; the event that says so is on its way.
            return;
        }
        meta.set_life(life::LINKED);
        self.state.count += 1;
        self.state.weight += u64::from(meta.weight());
        if let Some(policy) = &mut self.state.policy {
            policy.add_node(&*self.core.pool, (id, meta));
        }
        self.schedule(id, meta);
        self.sweep_if_old(id, meta);
    }

    /// The node was published in the place of another. It takes that one's place here, too, if that
    /// one has one and its own removal was not drained already; also if it is gone by now: what
    /// replaced it will come for the place.
    fn replaced(&mut self, new: u32, old: u32, later: bool) {
        let pool = &*self.core.pool;
        let (meta, before) = (pool.meta(new), pool.meta(old));
        if before.life() & life::LINKED == 0 || meta.life() & life::REMOVED != 0 {
            self.added(new);
            self.removed(old);
            return;
        }
        meta.set_life(life::ADDED | life::LINKED);
        before.clear_life(life::LINKED);
        self.state.weight -= u64::from(before.weight());
        self.state.weight += u64::from(meta.weight());
        if let Some(policy) = &mut self.state.policy {
            // An update is recorded as a read is: once per era.
            let era = self.core.hot.era.load(Ordering::Relaxed);
            let recorded = era == NO_ERA || before.era() == era;
            meta.set_era(era);
            if !recorded || !policy.swap(pool, old, new) {
                self.state.recorded += 1;
                policy.replace(pool, old, new);
            }
        }
        // Made earlier since: the event that says so may have been drained when there was no place
        // to leave.
        let in_place = later && !meta.was_shortened();
        let timers = self.timers();
        if !(in_place && self.state.wheel.replace(&timers, old, new)) {
            self.state.wheel.cancel(&timers, old);
            self.schedule(new, meta);
        }
        self.sweep_if_old(new, meta);
        self.left(old, before);
    }

    /// The sweep may have passed its bucket just before it was published.
    #[inline]
    fn sweep_if_old(&mut self, id: u32, meta: &Meta) {
        let is_old = self.core.is_cleared(meta) && !seeded("added-skips-the-sweep");
        if is_old && self.sweep_one(id).is_err() {
            self.sweep_again();
        }
    }

    /// The node left the index, by a writer's hand.
    fn removed(&mut self, id: u32) {
        let meta = self.core.pool.meta(id);
        self.forget(id, meta);
        self.left(id, meta);
    }

    /// The node, which is on no list any more, has left the index.
    #[inline]
    fn left(&mut self, id: u32, meta: &Meta) {
        meta.set_life(life::REMOVED);
        if meta.life() & life::ADDED != 0 || seeded("removed-before-added") {
            self.dead(id, meta);
        }
    }

    /// Takes the node off the wheel and the policy's lists, if it is on them.
    pub(super) fn forget(&mut self, id: u32, meta: &Meta) {
        if meta.life() & life::LINKED == 0 {
            return;
        }
        meta.clear_life(life::LINKED);
        self.state.count -= 1;
        self.state.weight -= u64::from(meta.weight());
        self.state.wheel.cancel_at(&self.timers(), (id, &meta.timer));
        if let Some(policy) = &mut self.state.policy {
            policy.remove_node(&*self.core.pool, meta);
        }
    }

    /// Puts the node where its deadline belongs.
    pub(super) fn schedule(&mut self, id: u32, meta: &Meta) {
        let deadline = meta.deadline();
        if meta.life() & life::LINKED != 0 && deadline != GONE {
            let timers = self.timers();
            let deadline = timers.show(ended_at(deadline));
            self.state.wheel.schedule_at(&timers, (id, &meta.timer), deadline);
        }
    }
}
