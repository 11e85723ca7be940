//! A step of the clock over many ticks at once, for a caller who wants ids in the order of their
//! ticks.
//!
//! [`advance`](Wheel::advance) appends whole buckets to the backlog, finest first, and coarse ones
//! cascade level by level. A step over few ids is cheaper by sorting them: the wheel looks at each
//! id once, and none of them passes through finer levels.

use super::Wheel;
use super::buckets::{Buckets, Ring};
use super::geometry::{is_later, time_left};
use super::store::TimerStore;
use crate::clock::Timestamp;
use crate::links::NodeId;
use crate::primitives::seeded;

/// Sorts after all ids that are due.
const LATER: u64 = u32::MAX as u64;

impl Wheel {
    /// Moves the clock to `now`, and looks at the ids of the buckets that become due. Those that
    /// are due go to the backlog, ordered by deadline, and the others where their deadlines belong.
    /// Returns how many ids it looked at.
    ///
    /// If there are more than `limit`, it returns `None` and changes nothing. The time taken is
    /// bounded by `limit` and the number of buckets, in this case too.
    ///
    /// The backlog must be empty. `now` must be less than 2^32 units after the instant at which the
    /// first bucket is due, [`next_deadline`](Self::next_deadline). `found` is memory to work with.
    pub fn advance_in_order<S: TimerStore + ?Sized>(
        &mut self,
        store: &S,
        now: Timestamp,
        limit: usize,
        found: &mut Vec<u64>,
    ) -> Option<usize> {
        debug_assert!(!self.has_backlog(), "the backlog comes first");
        found.clear();
        let start = self.next_deadline().filter(|_| is_later(self.clock, now))?;
        for ring in self.due_rings(now) {
            if !self.buckets.gather(store, ring, limit, found) {
                return None;
            }
        }
        for id in found.iter_mut() {
            let deadline = store.deadline(NodeId::from_raw(*id as u32));
            let due = deadline.filter(|&deadline| time_left(now, deadline).is_none());
            let key = due.map_or(LATER, |deadline| time_left(start, deadline).map_or(0, |left| left.raw()));
            *id |= key << 32;
        }
        if !seeded("wheel-window-unsorted") {
            found.sort_unstable();
        }
        loop {
            let ring = self.due_rings(now).next();
            let Some(ring) = ring else { break };
            self.buckets.empty(ring);
        }
        self.clock = now;
        for &key in found.iter() {
            let id = NodeId::from_raw(key as u32);
            let links = store.links(id);
            links.clear();
            match store.deadline(id) {
                Some(_) if key >> 32 != LATER => {
                    self.buckets.push(store, self.buckets.backlog(), (id, links));
                }
                Some(deadline) => self.push_by_deadline(store, (id, links), deadline),
                None => self.len -= 1,
            }
        }
        Some(found.len())
    }

    /// The buckets that a step of the clock to `now` makes due, and that are not empty.
    fn due_rings(&self, now: Timestamp) -> impl Iterator<Item = Ring> + '_ {
        let due = move |level: &super::Level| level.due(self.clock, now);
        let levels = self.geometry.levels().iter().enumerate();
        levels.map(move |(number, level)| (number, level, due(level))).take_while(|it| it.2 != 0).flat_map(
            move |(number, level, due)| {
                let ahead = level.ahead(self.buckets.occupied(number), self.clock) & due;
                super::bits(ahead)
                    .map(move |offset| Ring::of(number, level.index_after(self.clock, offset)))
            },
        )
    }
}

impl Buckets {
    /// Appends the ids of a ring to `found`, from both ends, so that waits for memory overlap.
    /// False if `found` would hold more than `limit`.
    fn gather<S: TimerStore + ?Sized>(
        &self,
        store: &S,
        ring: Ring,
        limit: usize,
        found: &mut Vec<u64>,
    ) -> bool {
        let mut ends = self.first(store, ring).zip(self.last(store, ring));
        while let Some((front, back)) = ends {
            let both = if front == back { 1 } else { 2 };
            if found.len() + both > limit {
                return false;
            }
            found.extend([front, back].iter().take(both).map(|id| u64::from(id.raw())));
            ends = self.next(store, ring, front).zip(self.before(store, back));
            ends = ends.filter(|&(next, before)| both == 2 && next != back && before != front);
        }
        true
    }
}
