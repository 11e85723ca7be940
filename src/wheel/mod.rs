//! A hierarchical timer wheel of ids.
//!
//! The wheel orders ids by deadline, coarsely, in constant time. It reads no clock, runs no thread
//! and knows nothing of what an id stands for: a [`TimerStore`] gives it the links and the deadline
//! of an id.
//!
//! ```text
//!              now                                                   tick     buckets  covers
//! level 0   ..|.o..o...................|                             1.07 s   64       1.15 min
//! level 1           |..o.......o....................|                1.15 min 64       1.22 h
//! level 2                        |......................|            1.22 h   32       1.63 d
//! level 3                                          |..o.|            1.63 d    4       6.5 d
//! level 4                                                |o          6.5 d     1       the rest
//!
//! backlog   o──o──o──o      what the clock has reached; looked at one by one, under a budget
//! ```
//!
//! The level is chosen by the time left, the bucket by `deadline >> shift`. When the clock enters
//! or leaves the tick of a bucket, the whole bucket is appended to the backlog; what is found there
//! is due, or goes back to a finer level (it *cascades*). [`Geometry`] is data: finer levels can be
//! put before these.
//!
//! # Rules
//!
//! 1. An id is in one ring (a bucket or the backlog) or in none, and then its `next` is NIL.
//! 2. A deadline is read when it is needed: on scheduling, and when the id is looked at. So a
//!    deadline may be **extended** without telling the wheel: the id is looked at when the old
//!    bucket is due and goes where the new deadline belongs. One that is **shortened** must be
//!    [rescheduled](Wheel::reschedule). An id whose deadline is `None` is let go when looked at.
//! 3. An id is handed out only when its deadline is at or before the clock: never early.
//! 4. An id in a bucket is looked at no later than its deadline or, if the deadline is in the
//!    current tick or has passed, at the end of the current tick. Entries of the current tick are
//!    not looked at again while the clock stays in it, unless they are
//!    [recalled](Wheel::recall_current). Hence the **lateness**: when [`advance`](Wheel::advance)
//!    is called as [`next_deadline`](Wheel::next_deadline) asks for it and the backlog is worked
//!    off, an id is handed out at the first boundary of finest ticks at or after its deadline (or
//!    its scheduling, if later): less than one finest tick late.
//! 5. Work is bounded and carried forward. `advance` moves whole buckets, each in O(1), and only
//!    occupied ones: the bitmaps skip the rest. [`poll`](Wheel::poll) takes one unit of its budget
//!    for each id it looks at, due or not. What the budget does not reach stays in the backlog, and
//!    the clock is not turned back for it. A lifetime within the last level's span is looked at
//!    once per level, once at the end of its finest tick, and once more per level at which its
//!    bucket happens to be a whole turn ahead, in the place of the current one; in the last level,
//!    once per span.
//! 6. The clock does not go back by itself: an earlier `now` is ignored. [`rewind`](Wheel::rewind)
//!    is for a clock that was set back on purpose.
//! 7. Between two calls the wheel is whole, so whoever polls may do anything to it in between. In
//!    [`advance_with`](Wheel::advance_with), the id under judgement is in the wheel's *hand*: if
//!    the callback panics it returns to the end of the backlog, unless the callback scheduled or
//!    cancelled it. `advance` and `advance_with` do nothing inside a callback.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `Links` of an id | the wheel, through `&mut` | the wheel | relaxed | nothing: who owns the wheel's lock owns them |
//!
//! The store's deadline may change at any time; rules 3 and 4 hold for the values that were read.
//!
//! # Alternatives that lost
//!
//! * A heap or an ordered map: O(log n) per operation, and an allocation or a moving index per
//!   entry.
//! * Looking at due buckets in place and turning the clock back when the budget is used up, as
//!   Caffeine does: each retry looks again at what was not due, without limit.
//! * A bucket number in the node: four bytes more in each, where the heads' own ids do.
//! * One set-apart value for "never": deadlines are on a circle, so the store answers with an
//!   `Option`.
//!
//! References: Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987); the levels
//! and the rule of levels and buckets are those of Caffeine's `TimerWheel` (Ben Manes, Apache-2.0).

mod buckets;
mod geometry;
mod store;

use crate::links::{Links, NIL};
use crate::sync::seeded;
use buckets::{Buckets, Ring, is_linked};
use geometry::{is_later, time_left};

pub use geometry::Geometry;
pub use store::TimerStore;

/// What [`Wheel::poll`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Poll {
    /// This id is due. It is out of the wheel and the caller's.
    Due(u32),
    /// The budget is used up and the backlog is not.
    Exhausted,
    /// Nothing is left to look at.
    Idle,
}

/// What the callback of [`Wheel::advance_with`] says of a due id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves the wheel.
    Expire,
    /// It stays, by its present deadline. If that has passed, it is due again in the next tick.
    Keep,
}

/// Where an id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In this bucket of this level, the finest being 0.
    Bucket {
        /// The level.
        level: usize,
        /// The bucket in its level.
        index: u32,
    },
    /// Due, or due to cascade, and not yet looked at.
    Backlog,
}

/// A hierarchical timer wheel; see the [module](self).
///
/// All methods that take a store must be given the same one.
#[derive(Debug)]
pub struct Wheel {
    geometry: Geometry,
    buckets: Buckets,
    clock: u64,
    len: usize,
    /// Whether [`advance_with`](Self::advance_with) is on the stack.
    advancing: bool,
    /// The id that its callback is judging, or [`NIL`].
    hand: u32,
}

impl Wheel {
    /// An empty wheel whose clock reads `now`.
    pub fn new(geometry: Geometry, now: u64) -> Self {
        let buckets = Buckets::new(&geometry);
        Self { geometry, buckets, clock: now, len: 0, advancing: false, hand: NIL }
    }

    /// The levels.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The instant that the wheel was last advanced to.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// How many ids are in the wheel.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no id is in the wheel.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is something for [`poll`](Self::poll) to look at.
    pub fn has_backlog(&self) -> bool {
        !self.buckets.is_empty(self.buckets.backlog())
    }

    /// Puts `id` where its deadline belongs, wherever it was; out of the wheel if it has none.
    /// Inside a callback, an id that is due already joins the backlog.
    pub fn schedule<S: TimerStore + ?Sized>(&mut self, store: &S, id: u32) {
        self.schedule_at(store, (id, store.links(id)), store.deadline(id));
    }

    /// [`schedule`](Self::schedule) for whoever has the id's links and its deadline at hand.
    pub fn schedule_at<S: TimerStore + ?Sized>(
        &mut self,
        store: &S,
        (id, links): (u32, &Links),
        deadline: Option<u64>,
    ) {
        self.take(store, (id, links));
        let Some(deadline) = deadline else { return };
        if self.advancing && time_left(self.clock, deadline).is_none() {
            self.link(store, self.buckets.backlog(), (id, links));
        } else {
            self.link_by_deadline(store, (id, links), deadline);
        }
    }

    /// [Schedules](Self::schedule) `id` anew if it is in the wheel. Says whether it was.
    pub fn reschedule<S: TimerStore + ?Sized>(&mut self, store: &S, id: u32) -> bool {
        let linked = is_linked(store.links(id));
        if linked {
            self.schedule(store, id);
        }
        linked
    }

    /// Takes `id` out of the wheel, the backlog or the callback's hand. Says whether it was there.
    pub fn cancel<S: TimerStore + ?Sized>(&mut self, store: &S, id: u32) -> bool {
        self.take(store, (id, store.links(id)))
    }

    /// [`cancel`](Self::cancel) for whoever has the id's links at hand.
    #[inline]
    pub fn cancel_at<S: TimerStore + ?Sized>(&mut self, store: &S, node: (u32, &Links)) -> bool {
        self.take(store, node)
    }

    /// Puts `new`, which is in no bucket, where `old` is, which leaves. False if `old` is in none.
    /// To be called only if `new` is due no earlier than `old` is looked at: it is then put
    /// right, as one whose deadline was moved is.
    pub fn replace<S: TimerStore + ?Sized>(&mut self, store: &S, old: u32, new: u32) -> bool {
        let links = store.links(old);
        let linked = is_linked(links);
        if linked {
            self.buckets.replace(store, links, new);
        }
        linked
    }

    /// Moves the clock to `now` and the buckets that this makes due to the backlog. Returns how
    /// many buckets it moved; the time taken is in proportion to that and to the number of levels.
    pub fn advance<S: TimerStore + ?Sized>(&mut self, store: &S, now: u64) -> usize {
        if self.advancing || !is_later(self.clock, now) {
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

    /// Moves the entries of the current tick to the backlog: those that are due by the clock are
    /// handed out without waiting for the end of the tick, the others go back. For whoever
    /// wants all that is due, and pays for a look at each entry of the tick.
    pub fn recall_current<S: TimerStore + ?Sized>(&mut self, store: &S) {
        let index = self.geometry.levels()[0].index(self.clock);
        if !self.advancing && self.buckets.occupied(0) >> index & 1 == 1 {
            self.buckets.splice(store, Ring::of(0, index));
        }
    }

    /// Sets the clock back to `now`, earlier than it reads. Nothing becomes due by this.
    ///
    /// Ids sit by their deadlines, which the clock reaches again in order. Only the current bucket
    /// may hold some whose deadlines had passed: it goes to the backlog, to be put right.
    pub fn rewind<S: TimerStore + ?Sized>(&mut self, store: &S, now: u64) {
        debug_assert!(!is_later(self.clock, now), "{now} is after {}", self.clock);
        self.recall_current(store);
        self.clock = now;
    }

    /// Looks at the backlog until an id is due, taking one from `budget` for each id looked at.
    pub fn poll<S: TimerStore + ?Sized>(&mut self, store: &S, budget: &mut u32) -> Poll {
        let backlog = self.buckets.backlog();
        while let Some(id) = self.buckets.first(store, backlog) {
            let Some(rest) = budget.checked_sub(1) else {
                return Poll::Exhausted;
            };
            *budget = rest;
            let links = store.links(id);
            self.unlink(store, links);
            match store.deadline(id) {
                Some(deadline)
                    if time_left(self.clock, deadline).is_none()
                        || seeded("wheel-takes-all-for-due") =>
                {
                    return Poll::Due(id);
                }
                Some(deadline) => self.link_by_deadline(store, (id, links), deadline),
                None => {}
            }
        }
        Poll::Idle
    }

    /// [Advances](Self::advance) to `now`, [polls](Self::poll) until the backlog is empty or
    /// `budget` is used up, and asks `judge` about each due id. Returns what is left of the budget;
    /// [`has_backlog`](Self::has_backlog) tells whether it sufficed.
    ///
    /// `judge` may use the wheel, and may panic: see rule 7 of the [module](self). It can prolong
    /// its own pass by scheduling what is due already; the budget ends that.
    pub fn advance_with<S: TimerStore + ?Sized>(
        &mut self,
        store: &S,
        now: u64,
        mut budget: u32,
        mut judge: impl FnMut(&mut Self, u32) -> Verdict,
    ) -> u32 {
        if self.advancing {
            return budget;
        }
        self.advance(store, now);
        self.advancing = true;
        let pass = Pass { wheel: self, store };
        while let Poll::Due(id) = pass.wheel.poll(store, &mut budget) {
            pass.wheel.hand = id;
            let verdict = judge(pass.wheel, id);
            let held = std::mem::replace(&mut pass.wheel.hand, NIL) == id;
            if held
                && verdict == Verdict::Keep
                && let Some(deadline) = store.deadline(id)
            {
                pass.wheel.link_by_deadline(store, (id, store.links(id)), deadline);
            }
        }
        budget
    }

    /// How long after the clock [`advance`](Self::advance) will find something to do: zero if
    /// there is a backlog, `None` if the wheel is empty.
    ///
    /// It is the time until the next occupied bucket is due, which may be a cascade only: with
    /// nothing in the backlog it is more than zero, and no more than the time to the earliest
    /// deadline or to the next tick, whichever is later.
    pub fn next_delay(&self) -> Option<u64> {
        if self.has_backlog() {
            return Some(0);
        }
        let levels = self.geometry.levels().iter().enumerate();
        levels
            .filter_map(|(number, level)| {
                let ahead = level.ahead(self.buckets.occupied(number), self.clock);
                bits(ahead).next().map(|offset| level.delay(self.clock, offset))
            })
            .min()
    }

    /// The instant at which [`next_delay`](Self::next_delay) will have passed.
    pub fn next_deadline(&self) -> Option<u64> {
        self.next_delay().map(|delay| self.clock.wrapping_add(delay))
    }

    /// All ids, soonest first: the backlog, then level by level, bucket by bucket. Within a bucket,
    /// and where the levels overlap, the order is rough.
    pub fn soonest<'a, S: TimerStore + ?Sized>(
        &'a self,
        store: &'a S,
    ) -> impl Iterator<Item = u32> + 'a {
        let levels = 0..self.geometry.levels().len();
        let buckets = levels.flat_map(|level| self.in_order(level));
        std::iter::once(self.buckets.backlog()).chain(buckets).flat_map(move |ring| {
            let first = self.buckets.first(store, ring);
            std::iter::successors(first, move |&id| self.buckets.next(store, ring, id))
        })
    }

    /// All ids, latest first: the reverse of [`soonest`](Self::soonest).
    pub fn latest<'a, S: TimerStore + ?Sized>(
        &'a self,
        store: &'a S,
    ) -> impl Iterator<Item = u32> + 'a {
        let levels = (0..self.geometry.levels().len()).rev();
        let buckets = levels.flat_map(|level| self.in_order(level).rev());
        buckets.chain(std::iter::once(self.buckets.backlog())).flat_map(move |ring| {
            let last = self.buckets.last(store, ring);
            std::iter::successors(last, move |&id| self.buckets.prev(store, ring, id))
        })
    }

    /// Where `id` is, if it is in the wheel. Follows its ring to the end: for tests.
    pub fn location<S: TimerStore + ?Sized>(&self, store: &S, id: u32) -> Option<Location> {
        let ring = is_linked(store.links(id)).then(|| self.buckets.ring_of(store, id))?;
        Some(if ring == self.buckets.backlog() {
            Location::Backlog
        } else {
            Location::Bucket { level: ring.level(), index: ring.index() }
        })
    }

    /// Recounts every link, bit and id, and checks rule 4 for each id in a bucket, which holds
    /// once every shortened deadline has been rescheduled.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the first thing at which something is.
    pub fn validate<S: TimerStore + ?Sized>(&self, store: &S) -> Result<(), String> {
        let mut count =
            self.buckets.validate(store, self.buckets.backlog(), self.len, |_| Ok(()))?;
        let tick_end = self.geometry.levels()[0].delay(self.clock, 0);
        for (number, &level) in self.geometry.levels().iter().enumerate() {
            for offset in 0..level.buckets() {
                let bucket = Ring::of(number, level.index_after(self.clock, offset));
                let delay = level.delay(self.clock, offset);
                count += self.buckets.validate(store, bucket, self.len - count, |id| {
                    let left = store.deadline(id).map(|at| time_left(self.clock, at).unwrap_or(0));
                    match left {
                        Some(left) if delay > left.max(tick_end) => {
                            Err(format!("{id} has {left} ns left, {bucket:?} comes in {delay}"))
                        }
                        _ => Ok(()),
                    }
                })?;
            }
        }
        if count != self.len {
            return Err(format!("the wheel counts {}, its rings {count}", self.len));
        }
        if self.hand != NIL && !self.advancing {
            return Err(format!("{} was left in the hand", self.hand));
        }
        Ok(())
    }

    /// The buckets of a level, soonest first. The current one leads at the finest level; above it,
    /// the entries of the current tick have cascaded, and it holds those a whole turn ahead.
    fn in_order(&self, number: usize) -> impl DoubleEndedIterator<Item = Ring> + '_ {
        let level = self.geometry.levels()[number];
        let first = u32::from(number > 0);
        (first..first + level.buckets())
            .map(move |offset| Ring::of(number, level.index_after(self.clock, offset)))
    }

    /// Takes the id out of where it is. Says whether it was anywhere.
    #[inline(always)]
    fn take<S: TimerStore + ?Sized>(&mut self, store: &S, (id, links): (u32, &Links)) -> bool {
        if is_linked(links) {
            self.unlink(store, links);
            true
        } else if self.hand == id && id != NIL {
            self.hand = NIL;
            true
        } else {
            false
        }
    }

    #[inline]
    fn link_by_deadline<S: TimerStore + ?Sized>(
        &mut self,
        store: &S,
        node: (u32, &Links),
        deadline: u64,
    ) {
        let (level, index) = self.geometry.place(self.clock, deadline);
        self.link(store, Ring::of(level, index), node);
    }

    #[inline]
    fn link<S: TimerStore + ?Sized>(&mut self, store: &S, ring: Ring, node: (u32, &Links)) {
        self.buckets.push(store, ring, node);
        self.len += 1;
    }

    #[inline]
    fn unlink<S: TimerStore + ?Sized>(&mut self, store: &S, links: &Links) {
        self.buckets.unlink(store, links);
        self.len -= 1;
    }
}

/// An [`advance_with`](Wheel::advance_with) under way. However it ends, what is in the hand goes
/// back to the backlog.
struct Pass<'a, S: TimerStore + ?Sized> {
    wheel: &'a mut Wheel,
    store: &'a S,
}

impl<S: TimerStore + ?Sized> Drop for Pass<'_, S> {
    fn drop(&mut self) {
        self.wheel.advancing = false;
        let held = std::mem::replace(&mut self.wheel.hand, NIL);
        if held != NIL {
            let links = self.store.links(held);
            self.wheel.link(self.store, self.wheel.buckets.backlog(), (held, links));
        }
    }
}

/// The numbers of the bits that are set, lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        bit
    })
}
