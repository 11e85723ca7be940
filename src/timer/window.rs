//! A step of the clock over many ticks at once, for a caller who wants ids in the order of their
//! deadlines.
//!
//! [`advance`](Wheel::advance) appends whole buckets to the backlogs, and the ids of coarse ones
//! cascade level by level. A step over few ids is cheaper by sorting them: the wheel
//! looks at each id once, and none of those that are due passes through finer levels.

use crate::clock::{Nanos, Timestamp};
use crate::links::NodeId;
use crate::prefetch::prefetch;
use crate::primitives::seeded;
use crate::wheel::buckets::Buckets;
use crate::wheel::geometry::{Level, Ring, is_later, time_left};
use crate::wheel::{TimerStore, Wheel, bits};

/// A key is the time from the start of a window to the deadline, above the id. This is the time of
/// an id that the window does not make due.
const NOT_DUE: u64 = u32::MAX as u64;

/// So many ids before their turn, their cache lines are asked for. They were loaded when the ids
/// were gathered, and may have left the first cache since.
const PREFETCH_DISTANCE: usize = 8;

fn id_of(key: u64) -> NodeId {
    NodeId::from_raw(key as u32)
}

impl<const LANES: usize> Wheel<LANES> {
    /// Moves the clock to `now`, and looks at the ids of the buckets that become due. Those that
    /// are due go to the finest backlog, ordered by deadline. The others go where their deadlines
    /// belong. Returns how many ids it looked at.
    ///
    /// If there are more than `limit`, it returns `None` and changes nothing. `limit` and the
    /// number of buckets bound the time that it takes, in this case too.
    ///
    /// The backlogs must be empty. `now` must be less than 2^32 - 1 units after the instant at
    /// which the first bucket is due, [`next_deadline`](Self::next_deadline). `found` is memory
    /// to work with.
    pub fn advance_in_order(
        &mut self,
        store: &impl TimerStore,
        now: Timestamp,
        limit: usize,
        found: &mut Vec<u64>,
    ) -> Option<usize> {
        debug_assert!(!self.has_backlog(), "the backlogs come first");
        found.clear();
        let start = self.next_deadline().filter(|_| is_later(self.clock, now))?;
        // The deadline is in the cache while the links are. Deadlines before the first bucket come
        // first, in no order.
        let key_of = |id: NodeId| {
            let due = store.deadline(id).filter(|&deadline| time_left(now, deadline).is_none());
            let after = |due| time_left(start, due).map_or(0, Nanos::raw);
            due.map_or(NOT_DUE, after) << u32::BITS | u64::from(id.raw())
        };
        if !self.due_rings(now).all(|ring| self.buckets.gather(store, ring, limit, found, key_of)) {
            return None;
        }
        let looks = found.len();
        loop {
            let ring = self.due_rings(now).next();
            let Some(ring) = ring else { break };
            self.buckets.empty_bucket(ring);
        }
        self.clock = now;
        if !seeded("wheel-hands-out-unsorted") {
            found.sort_unstable();
        }
        for (at, &key) in found.iter().enumerate() {
            if let Some(&soon) = found.get(at + PREFETCH_DISTANCE) {
                prefetch(store.links(id_of(soon)));
            }
            self.place(store, key);
        }
        Some(looks)
    }

    /// Links an id of a window again: with those that are due, or where its deadline belongs.
    fn place(&mut self, store: &impl TimerStore, key: u64) {
        let id = id_of(key);
        let links = store.links(id);
        links.clear();
        if key >> u32::BITS != NOT_DUE {
            self.buckets.push(store, self.buckets.backlog(0), id.with(links));
        } else if let Some(deadline) = store.deadline(id) {
            self.push_by_deadline(store, id.with(links), deadline);
        } else {
            self.len -= 1;
        }
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

    /// The instant at which the next occupied bucket above the finest level is due; `None` if there
    /// is none. [`advance`](Self::advance) to an earlier instant only appends buckets of the finest
    /// level to their backlog, in their order.
    pub fn next_cascade(&self) -> Option<Timestamp> {
        self.delay_from(1).map(|delay| self.clock.wrapping_add(delay))
    }

    /// Whether an id is in a bucket of the finest level.
    pub fn has_finest(&self) -> bool {
        self.buckets.occupied(0) != 0
    }
}

impl<const LANES: usize> Buckets<LANES> {
    /// Empties a bucket, whose ids have been looked at. The caller clears their links.
    pub fn empty_bucket(&mut self, bucket: Ring) {
        for ring in self.lanes(bucket) {
            if self.is_marked(ring) {
                self.empty(ring);
            }
        }
    }

    /// Appends the keys of a bucket's ids to `found`, from both ends of each lane by turns, so that
    /// waits for memory overlap. False if `found` would hold more than `limit`.
    fn gather(
        &self,
        store: &impl TimerStore,
        bucket: Ring,
        limit: usize,
        found: &mut Vec<u64>,
        key_of: impl Fn(NodeId) -> u64,
    ) -> bool {
        let mut lanes = self.lanes(bucket);
        let mut walks: [_; LANES] = std::array::from_fn(|_| {
            let ring = lanes.next()?;
            self.first(ring).zip(self.last(ring)).map(|ends| (ring, ends))
        });
        while walks.iter().any(Option::is_some) {
            for walk in &mut walks {
                let Some((ring, (front, back))) = *walk else { continue };
                let ids = if front == back { 1 } else { 2 };
                if found.len() + ids > limit {
                    return false;
                }
                found.extend([front, back].iter().take(ids).map(|&id| key_of(id)));
                let next = self.next(store, ring, front).filter(|&next| next != back && ids == 2);
                let ends = next.zip(self.before(store, back));
                if let Some((front, back)) = ends {
                    // Their turn comes when the other lanes have had theirs. A walk that only
                    // loads them then has the processor run out of room for what waits.
                    prefetch(store.links(front));
                    prefetch(store.links(back));
                }
                *walk = ends.map(|ends| (ring, ends));
            }
        }
        true
    }
}
