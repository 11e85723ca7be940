//! A hierarchical timer wheel of ids.
//!
//! The wheel orders ids by deadline, coarsely, in constant time. It reads no clock, runs no thread
//! and does not know what an id stands for. A [`TimerStore`] supplies the links and the deadline of
//! an id.
//!
//! ```text
//!              now                                                   tick     buckets  covers
//! level 0   ..|.o..o...................|                             16.8 ms  64       1.07 s
//! level 1           |..o.......o....................|                1.07 s   64       1.15 min
//! level 2                        |......................|            1.15 min 32       36.7 min
//! level 3                                          |..o.|            36.7 min 4        2.44 h
//! level 4                                                |o          2.44 h   1        the rest
//!
//! backlogs  o──o──o──o      by level, ids of buckets that became due; looked at one by one,
//!                           within a budget
//! ```
//!
//! The time left selects the level, and `deadline >> shift` selects the bucket. When the clock
//! enters or leaves the tick of a bucket, the wheel appends the whole bucket to the backlog of its
//! level. An id in a backlog is due, or it goes to the bucket of its deadline, mostly at a finer
//! level (it *cascades*). [`Geometry`] is data: the ticks may be coarser, and a finer level can be
//! put before these.
//!
//! # Rules
//!
//! 1. An id is in one ring (a lane of a bucket, or a backlog) or in none. An id that is in no ring
//!    has a `next` of [`NodeId::NONE`].
//! 2. The wheel reads a deadline when it needs it: when an id is scheduled, and when the wheel
//!    looks at the id. So a deadline may be **extended** without telling the wheel. The wheel looks
//!    at the id when the old bucket is due, and moves it where the new deadline belongs. After a
//!    deadline is **shortened**, the id must be [scheduled](Wheel::schedule) again. An id whose
//!    deadline is `None` leaves the wheel when the wheel looks at it.
//! 3. The wheel hands out an id only when its deadline is at or before the clock: never early.
//! 4. The wheel looks at an id in a bucket no later than at its deadline or at the end of the
//!    current finest tick, whichever is later. While the clock stays in a tick, the wheel does not
//!    look at the ids of that tick again, unless they are [recalled](Wheel::recall_current). This
//!    bounds the **lateness** if [`advance`](Wheel::advance) is called when
//!    [`next_deadline`](Wheel::next_deadline) asks for it, and then [`poll`](Wheel::poll) until no
//!    backlog is left. The wheel then hands out an id at the first boundary of finest ticks at or
//!    after its deadline (or its scheduling, if later). This is less than one finest tick late.
//! 5. Work is bounded and carried forward. `advance` moves whole buckets, each in O(1), and only
//!    occupied ones: the bitmaps skip the rest. [`poll`](Wheel::poll) takes one unit of its budget
//!    for each id it looks at, due or not. Ids that the budget does not reach stay in the backlogs.
//!    The clock is not turned back for them. If a lifetime is within the last level's tick, the
//!    wheel looks at its id:
//!    * once per level;
//!    * once at the end of its finest tick;
//!    * once more at each level where the deadline is almost a whole turn ahead: its bucket is then
//!      the current one, which is due when the clock leaves it.
//!
//!    In the last level, the wheel looks at an id once per tick.
//!
//!    Finer backlogs come first, so ids with short lifetimes do not wait for a cascade of many
//!    others. But [`COARSE_SHARE`] of the [`ROUND`] looks of a round go to the coarsest backlog: a
//!    cascade goes on even if more ids are due than the budget allows.
//!
//!    [`advance_in_order`](Wheel::advance_in_order) is the other way to step: it looks at the ids
//!    of all due buckets at once, if they are no more than its limit.
//! 6. The clock does not go back by itself: the wheel ignores an earlier `now`.
//!    [`rewind`](Wheel::rewind) is for a clock that was set back on purpose.
//! 7. The wheel is consistent between two calls, so a caller of `poll` may do anything to it in
//!    between. A due id belongs to the caller, who may schedule it again.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `Links` of an id | the wheel, through `&mut` | the wheel | relaxed | nothing: the lock that guards the wheel guards the links too |
//!
//! The store's deadline may change at any time. Rules 3 and 4 hold for the values that the wheel
//! read.
//!
//! # Alternatives that lost
//!
//! * A heap or an ordered map: each operation costs O(log n), and each entry needs an allocation or
//!   an index that moves.
//! * One backlog for all levels, in the order in which buckets become due: an id that is due waits
//!   for a cascade before it. With ten million ids in the last level, that is a second or more.
//! * Looking at due buckets in place, and turning the clock back when the budget is used up, as
//!   Caffeine does: each retry looks again at ids that were not due, without limit.
//! * A bucket number in the node: it takes four more bytes per node. The id of a ring's head, which
//!   encodes level and bucket, serves the same purpose.
//! * A reserved value for "never": deadlines wrap around, so each value is a deadline. The store
//!   answers with an `Option` instead.
//!
//! References: Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987). The levels,
//! and the rule that selects level and bucket, are those of Caffeine's `TimerWheel` (Ben Manes,
//! Apache-2.0).

mod buckets;
mod geometry;

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/recount_wheel.rs"]
mod recount;
// What only timers ask of a wheel.
#[cfg(any(feature = "internals", feature = "timer", cortado_loom))]
#[path = "../timer/rings.rs"]
mod rings;
#[cfg(any(feature = "internals", feature = "timer", cortado_loom))]
#[path = "../timer/window.rs"]
mod window;

use crate::clock::{Nanos, Timestamp};
use crate::links::{Links, Named, NodeId};
use crate::primitives::seeded;
use buckets::{Buckets, is_linked};
use geometry::{is_later, time_left};
use std::sync::Arc;

pub use buckets::TimerStore;
pub use geometry::{Geometry, Level, Ring};

/// The result of [`Wheel::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Poll {
    /// This id is due. It has left the wheel and belongs to the caller.
    Due(NodeId),
    /// The budget is used up, but a backlog is not empty.
    Exhausted,
    /// The backlogs are empty.
    Idle,
}

/// A hierarchical timer wheel; see the [module](self). Each bucket has `LANES` rings. More than one
/// is for [`advance_in_order`](Self::advance_in_order), which follows them all at once.
///
/// All methods that take a store must be given the same store.
pub struct Wheel<const LANES: usize = 1> {
    geometry: Arc<Geometry>,
    buckets: Buckets<LANES>,
    clock: Timestamp,
    len: usize,
    /// How many ids the wheel has looked at since the backlogs were last empty, modulo [`ROUND`].
    looks: u32,
}

/// The choice between the backlogs repeats after this many looks.
const ROUND: u32 = 64;

/// This many looks of a round go to the coarsest backlog. The others go to the finest.
const COARSE_SHARE: u32 = 16;

impl<const LANES: usize> Wheel<LANES> {
    /// Creates an empty wheel whose clock reads `now`.
    pub fn new(geometry: impl Into<Arc<Geometry>>, now: Timestamp) -> Self {
        let geometry = geometry.into();
        let buckets = Buckets::new(&geometry);
        Self { geometry, buckets, clock: now, len: 0, looks: 0 }
    }

    /// The instant to which the wheel was last advanced.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Whether [`poll`](Self::poll) has an id to look at.
    pub fn has_backlog(&self) -> bool {
        self.buckets.backlogs() != 0
    }

    /// Moves `id` to the place that its deadline requires, wherever it was before. Removes `id`
    /// from the wheel if it has no deadline. The caller passes the links and the deadline that the
    /// store would return.
    pub fn schedule(
        &mut self,
        store: &impl TimerStore,
        node: Named<&Links>,
        deadline: Option<Timestamp>,
    ) {
        self.cancel(store, node.node);
        self.insert(store, node, deadline);
    }

    /// [`schedule`](Self::schedule) of an id that is not in the wheel.
    #[inline]
    pub fn insert(
        &mut self,
        store: &impl TimerStore,
        node: Named<&Links>,
        deadline: Option<Timestamp>,
    ) {
        if let Some(deadline) = deadline {
            self.push_by_deadline(store, node, deadline);
            self.len += 1;
        }
    }

    /// Removes the id that owns `links` from the wheel. Returns whether it was there.
    #[inline(always)]
    pub fn cancel(&mut self, store: &impl TimerStore, links: &Links) -> bool {
        let linked = is_linked(links);
        if linked {
            self.buckets.unlink(store, links);
            self.len -= 1;
        }
        linked
    }

    /// Puts `new` in the place of `old`, and `old` leaves the wheel. Returns false if `old` is in
    /// no ring. The caller passes the links that the store would return.
    ///
    /// The caller must ensure that `new` is in no ring, and that `new` is due no earlier than the
    /// wheel will look at `old`. When the wheel looks at `new`, it moves it where its deadline
    /// belongs, as after an extension (rule 2 of the [module](self)).
    pub fn replace(&mut self, store: &impl TimerStore, old: &Links, new: Named<&Links>) -> bool {
        let linked = is_linked(old);
        if linked {
            self.buckets.replace(store, old, new);
        }
        linked
    }

    /// Moves the clock to `now`, and the buckets that become due to the backlogs. Returns the
    /// number of buckets that it moved. The time taken is proportional to the sum of that number
    /// and the number of levels.
    pub fn advance(&mut self, store: &impl TimerStore, now: Timestamp) -> usize {
        if !is_later(self.clock, now) {
            return 0;
        }
        let was = std::mem::replace(&mut self.clock, now);
        let mut moved = 0;
        for (number, level) in self.geometry.levels().iter().enumerate() {
            let due = level.due(was, now);
            if due == 0 {
                break;
            }
            for offset in bits(level.ahead(self.buckets.occupied(number), was) & due) {
                let bucket = Ring::of(number, level.index_after(was, offset));
                self.buckets.splice(store, bucket);
                moved += 1;
            }
        }
        moved
    }

    /// Moves the ids of the current tick to the finest backlog.
    ///
    /// The next polls hand out the ids that are due by the clock, without waiting for the end of
    /// the tick. The other ids go back to a bucket. This is for a caller that wants all due ids
    /// and accepts a look at each id of the tick.
    pub fn recall_current(&mut self, store: &impl TimerStore) {
        let index = self.geometry.levels()[0].index(self.clock);
        if self.buckets.occupied(0) >> index & 1 == 1 {
            self.buckets.splice(store, Ring::of(0, index));
        }
    }

    /// Sets the clock back to `now`, which is before its present reading. This makes no id due.
    ///
    /// Ids whose deadlines had passed are in the current bucket only. `rewind` moves this bucket to
    /// its backlog, so that `poll` places its ids again. All others stay: the clock will reach
    /// their buckets in order.
    ///
    /// # Panics
    ///
    /// With debug assertions, if `now` is after the clock.
    pub fn rewind(&mut self, store: &impl TimerStore, now: Timestamp) {
        debug_assert!(!is_later(self.clock, now), "{now} is after {}", self.clock);
        self.recall_current(store);
        self.clock = now;
    }

    /// Looks at the ids of the backlogs until one is due. Takes one from `budget` for each id it
    /// looks at.
    pub fn poll(&mut self, store: &impl TimerStore, budget: &mut u32) -> Poll {
        loop {
            let Some((backlog, share)) = self.next_backlog() else {
                self.looks = 0;
                return Poll::Idle;
            };
            if *budget == 0 {
                return Poll::Exhausted;
            }
            let given = share.min(*budget);
            let mut left = given;
            let due = self.look_at(store, backlog, &mut left);
            *budget -= given - left;
            self.looks = self.looks.wrapping_add(given - left) % ROUND;
            if let Some(id) = due {
                return Poll::Due(id);
            }
        }
    }

    /// The backlog for the next looks, and the number of these looks.
    #[inline]
    fn next_backlog(&self) -> Option<(Ring, u32)> {
        let waiting = self.buckets.backlogs();
        let coarsest = waiting.checked_ilog2()?;
        let finest = waiting.trailing_zeros();
        const FINE_SHARE: u32 = ROUND - COARSE_SHARE;
        let is_fine = self.looks < FINE_SHARE;
        let looks = if is_fine { FINE_SHARE } else { ROUND } - self.looks;
        let prefers_fine =
            !seeded("wheel-cascades-first") && (is_fine || seeded("wheel-starves-cascades"));
        let (level, looks) = match prefers_fine {
            _ if finest == coarsest => (finest, u32::MAX),
            true => (finest, looks),
            false => (coarsest, looks),
        };
        Some((self.buckets.backlog(level as usize), looks))
    }

    /// Looks at the ids of a backlog until one is due.
    #[inline]
    fn look_at(
        &mut self,
        store: &impl TimerStore,
        backlog: Ring,
        budget: &mut u32,
    ) -> Option<NodeId> {
        // Two walks go over the backlog: `first` from its start, which looks at the ids, and
        // `ahead` from its end, which only loads their links. Each walk waits for memory at each
        // step, and the waits of the two overlap.
        let mut ahead = self.buckets.last(backlog);
        let mut first = self.buckets.first(backlog);
        let due = loop {
            let Some(id) = first else { break None };
            let Some(rest) = budget.checked_sub(1) else { break None };
            *budget = rest;
            let links = store.links(id);
            first = self.buckets.next(store, backlog, id);
            // The links of an id that was looked at lead elsewhere. So `ahead` ends where the two
            // walks meet.
            ahead = ahead.filter(|&ahead| ahead != id && Some(ahead) != first);
            links.clear();
            match store.deadline(id) {
                Some(deadline)
                    if time_left(self.clock, deadline).is_none()
                        || seeded("wheel-takes-all-for-due") =>
                {
                    self.len -= 1;
                    break Some(id);
                }
                Some(deadline) => {
                    self.push_by_deadline(store, id.with(links), deadline);
                }
                None => self.len -= 1,
            }
            ahead = ahead.and_then(|ahead| self.buckets.before(store, ahead));
        };
        self.buckets.begin_with(store, backlog, first);
        due
    }

    /// The time from the clock until [`advance`](Self::advance) or [`poll`](Self::poll) has work.
    /// It is zero if an id is in a backlog, and `None` if the wheel is empty.
    ///
    /// Otherwise it is the time until the next occupied bucket is due. That bucket may hold only
    /// ids that cascade. Without a backlog, the delay is more than zero. It is no more than the
    /// time to the earliest deadline or to the next tick, whichever is later.
    pub fn next_delay(&self) -> Option<Nanos> {
        if self.has_backlog() {
            return Some(Nanos::ZERO);
        }
        self.delay_from(0)
    }

    /// The time until the next occupied bucket is due, of this level or a coarser one.
    fn delay_from(&self, first: usize) -> Option<Nanos> {
        let mut least: Option<Nanos> = None;
        for (number, level) in self.geometry.levels().iter().enumerate().skip(first) {
            // No bucket of this level, nor of a coarser one, is due before its current tick ends.
            if least.is_some_and(|least| least <= level.delay(self.clock, 0)) {
                break;
            }
            let ahead = level.ahead(self.buckets.occupied(number), self.clock);
            if let Some(offset) = bits(ahead).next() {
                let delay = level.delay(self.clock, offset);
                least = Some(least.map_or(delay, |least| least.min(delay)));
            }
        }
        least
    }

    /// The instant at which [`next_delay`](Self::next_delay) ends.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.next_delay().map(|delay| self.clock.wrapping_add(delay))
    }

    /// Links an id. The caller keeps `len` right.
    #[inline(always)]
    fn push_by_deadline(
        &mut self,
        store: &impl TimerStore,
        node: Named<&Links>,
        deadline: Timestamp,
    ) {
        let bucket = self.geometry.position(self.clock, deadline);
        let ring = self.buckets.lane_of(bucket, node.id);
        self.buckets.push(store, ring, node);
    }
}

/// The numbers of the set bits, lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        bit
    })
}
