//! A step of the clock over many ticks at once, for a caller who wants ids in the order of their
//! deadlines.
//!
//! [`advance`](Wheel::advance) appends whole buckets to the backlogs, and the ids of coarse ones
//! cascade level by level. A step over few ids is cheaper by sorting them: the wheel
//! looks at each id once, and none of those that are due passes through finer levels.

use super::buckets::{Buckets, Ring};
use super::geometry::{Level, is_later, time_left};
use super::store::TimerStore;
use super::{Wheel, bits};
use crate::clock::{Nanos, Timestamp};
use crate::links::NodeId;
use crate::primitives::seeded;

impl Wheel {
    /// Moves the clock to `now`, and looks at the ids of the buckets that become due. Those that
    /// are due go to the finest backlog, ordered by deadline. The others go where their deadlines
    /// belong. Returns how many ids it looked at.
    ///
    /// If there are more than `limit`, it returns `None` and changes nothing. `limit` and the
    /// number of buckets bound the time that it takes, in this case too.
    ///
    /// The backlogs must be empty. `now` must be less than 2^32 units after the instant at which
    /// the first bucket is due, [`next_deadline`](Self::next_deadline). `found` is memory to
    /// work with.
    pub fn advance_in_order<S: TimerStore + ?Sized>(
        &mut self,
        store: &S,
        now: Timestamp,
        limit: usize,
        found: &mut Vec<u64>,
    ) -> Option<usize> {
        debug_assert!(!self.has_backlog(), "the backlogs come first");
        found.clear();
        let start = self.next_deadline().filter(|_| is_later(self.clock, now))?;
        if !self.due_rings(now).all(|ring| self.buckets.gather(store, ring, limit, found)) {
            return None;
        }
        let looks = found.len();
        loop {
            let ring = self.due_rings(now).next();
            let Some(ring) = ring else { break };
            self.buckets.empty(ring);
        }
        self.clock = now;
        found.retain_mut(|key| {
            let id = NodeId::from_raw(*key as u32);
            let links = store.links(id);
            links.clear();
            match store.deadline(id) {
                Some(deadline) if time_left(now, deadline).is_some() => {
                    self.push_by_deadline(store, (id, links), deadline);
                    false
                }
                Some(deadline) => {
                    // Deadlines before the first bucket come first, in no order.
                    *key |= time_left(start, deadline).map_or(0, Nanos::raw) << u32::BITS;
                    true
                }
                None => {
                    self.len -= 1;
                    false
                }
            }
        });
        if !seeded("wheel-hands-out-unsorted") {
            found.sort_unstable();
        }
        for &key in found.iter() {
            let id = NodeId::from_raw(key as u32);
            self.buckets.push(store, self.buckets.backlog(0), (id, store.links(id)));
        }
        Some(looks)
    }

    /// The occupied buckets that a step of the clock to `now` makes due.
    fn due_rings(&self, now: Timestamp) -> impl Iterator<Item = Ring> + '_ {
        let due_of = move |(number, level): (usize, &Level)| {
            let due = level.due(self.clock, now);
            (due != 0).then(|| {
                (number, *level, due & level.ahead(self.buckets.occupied(number), self.clock))
            })
        };
        let levels = self.geometry.levels().iter().enumerate().map_while(due_of);
        levels.flat_map(move |(number, level, due)| {
            bits(due).map(move |offset| Ring::of(number, level.index_after(self.clock, offset)))
        })
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
        let mut ends = self.first(ring).zip(self.last(ring));
        while let Some((front, back)) = ends {
            let ids = if front == back { 1 } else { 2 };
            if found.len() + ids > limit {
                return false;
            }
            found.extend([front, back].iter().take(ids).map(|id| u64::from(id.raw())));
            let next = self.next(store, ring, front).filter(|&next| next != back && ids == 2);
            ends = next.zip(self.before(store, back));
        }
        true
    }
}
