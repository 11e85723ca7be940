//! A wheel with its slab: what queues and timers are made of.
//!
//! The wheel counts in *ticks*, which are decimal (a millisecond by default), and not in powers of
//! two of nanoseconds as the cache's does. An item belongs to the tick of its deadline, rounded up.
//! So an item whose deadline is a whole number of ticks is handed out exactly
//! then, and every other item less than one tick late. None is handed out early.
//!
//! # Order
//!
//! One step of the wheel over many ticks would hand out a fine bucket before a coarse one that
//! cascades, although the coarse one may hold earlier deadlines. So [`TimerCore::poll`] goes from
//! one cascade to the next, and works off the backlog in between. Up to a cascade only finest
//! buckets are due, each of which holds the items of one tick.
//!
//! That would look at each item once in each level. So where a step of the clock has few items to
//! pass, the wheel gathers them from all levels and sorts them. Such a step is a *window*. It ends
//! where a bucket of the *window level* ends. That level follows the density of items: a window
//! with more items than it may hold, or than the budget allows, lowers it; and it rises when a
//! coarser bucket ends. So an item is looked at two or three times in its life.
//!
//! # Units
//!
//! In this module a [`Timestamp`] is a tick of the wheel, and a `u64` is nanoseconds.
//!
//! # Extensions
//!
//! A later deadline is only written down. The wheel looks at the item when its old bucket is due,
//! and moves it then. So an item that is extended again and again, as the idle timeout of a
//! connection is, costs one write for each extension and one move for each timeout.
//!
//! Items that may be in a finest bucket are the exception, which keeps the order: they are moved at
//! once.

use super::id::TimerId;
use super::slab::Slab;
use crate::clock::Timestamp;
use crate::links::NodeId;
use crate::primitives::seeded;
use crate::wheel::{Geometry, Level, Poll, TimerStore, Wheel};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The levels, in ticks. With ticks of a millisecond they cover 64 ms, 4.1 s, 1.1 min, 70 min, 3.1
/// days, 6.5 months, 35 years, and the rest. Most timeouts of services are below 70 minutes, so
/// they cascade twice or three times.
const LEVELS: [Level; 8] = [
    Level::new(0, 64),
    Level::new(6, 64),
    Level::new(12, 16),
    Level::new(16, 64),
    Level::new(22, 64),
    Level::new(28, 64),
    Level::new(34, 64),
    Level::new(40, 1),
];

/// Each bucket is so many lists, the *lanes*. A window follows them at once, each from both ends,
/// so that their cache misses overlap. With one lane, a million items that expire take 1.6 times as
/// long. Eight lanes gain no more.
const LANES: usize = 4;

/// At most this many items are looked at to tell the earliest deadline exactly.
const SURVEY: usize = 64;

/// A window holds no more items than this, and no more than the budget allows. With a million items
/// over an hour, it covers a bucket of 66 s.
const WINDOW: u32 = 1 << 15;

/// The greatest window level: 70 minutes. Windows must be shorter than 2^32 - 1 ticks, as the wheel
/// asks for.
const MAX_WINDOW_LEVEL: usize = 4;

/// The memory for sorting is kept if it has no more room than this.
const MAX_KEPT: usize = 128;

/// See the [module](self). Instants are nanoseconds from any origin.
pub struct TimerCore<T> {
    slab: Slab<T>,
    wheel: Wheel<LANES>,
    /// The level at whose buckets windows end.
    window_level: usize,
    /// Memory for sorting the items of a window.
    found: Vec<u64>,
}

impl<T> TimerCore<T> {
    /// # Panics
    ///
    /// Panics if the tick is shorter than a millisecond.
    #[track_caller]
    pub fn new(tick: Duration, now: u64) -> Self {
        assert!(tick >= Duration::from_millis(1), "a tick of {tick:?} is below a millisecond");
        let slab = Slab::new(tick);
        let wheel = Wheel::new(Geometry::new(&LEVELS), slab.tick_of(now));
        Self { slab, wheel, window_level: MAX_WINDOW_LEVEL, found: Vec::new() }
    }

    pub fn slab(&self) -> &Slab<T> {
        &self.slab
    }

    pub fn slab_mut(&mut self) -> &mut Slab<T> {
        &mut self.slab
    }

    /// The number of items that wait in the wheel.
    pub fn waiting(&self) -> usize {
        self.wheel.len()
    }

    /// Inserts an item.
    ///
    /// # Errors
    ///
    /// Returns the value if no id is left.
    pub fn insert(&mut self, deadline: u64, value: T) -> Result<TimerId, T> {
        let (id, slab, links) = self.slab.insert(deadline, value)?;
        let tick = slab.tick_at_or_after(deadline);
        self.wheel.schedule(slab, id.slot().with(links), Some(tick));
        Ok(id)
    }

    /// Puts an item where its deadline belongs, whether or not it is in the wheel. The id must be
    /// valid.
    pub fn schedule(&mut self, id: TimerId, deadline: u64) {
        let slot = id.slot();
        let is_linked = self.is_linked(slot);
        let before = self.slab.deadline_of(id);
        self.slab.set_deadline(slot, deadline);
        let is_lazy = is_linked
            && before.is_some_and(|before| deadline >= before && !self.may_be_finest(before));
        if !is_lazy && !seeded("timer-overlooks-shortening") {
            self.link(slot, deadline);
        }
    }

    /// Takes an item out of the wheel and out of its slot. Returns its deadline, too.
    pub fn remove(&mut self, id: TimerId) -> Option<(u64, T)> {
        self.wheel.cancel(&self.slab, self.slab.links_of(id)?);
        let (_, deadline, item) = self.slab.remove_named(id.slot())?;
        Some((deadline, item))
    }

    /// Gives back the memory that no item needs where it is.
    pub fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
        self.found = Vec::new();
    }

    /// Follows a clock that has gone back to `now`.
    pub fn rewind(&mut self, now: u64) {
        let tick = self.slab.tick_of(now);
        if tick < self.wheel.clock() {
            self.wheel.rewind(&self.slab, tick);
        }
    }

    /// Hands out the next item that is due at `now`. It has left the wheel, and is still in its
    /// slot. Takes one from `budget` for each item it looks at.
    pub fn poll(&mut self, now: u64, budget: &mut u32) -> Poll {
        let tick = self.slab.tick_of(now);
        loop {
            match self.wheel.poll(&self.slab, budget) {
                Poll::Idle => {
                    // The current bucket of the finest level holds only items that were due when
                    // they came.
                    self.wheel.recall_current(&self.slab);
                    let is_done = self.wheel.has_backlog() || self.pass_window(tick, budget);
                    if !is_done && !self.step(tick) {
                        return Poll::Idle;
                    }
                }
                due_or_exhausted => return due_or_exhausted,
            }
        }
    }

    /// Moves the wheel's clock towards `now` by sorting what is due on the way. False if there is
    /// nothing to sort, or too much.
    fn pass_window(&mut self, now: Timestamp, budget: &mut u32) -> bool {
        let limit = WINDOW.min(*budget);
        while self.window_level > 0 {
            // A step to the next tick needs no sorting.
            let start = self.wheel.next_deadline().filter(|&start| start < now);
            let Some(start) = start else { return false };
            let ticks = LEVELS[self.window_level].span().raw() - 1;
            let end = Timestamp::from_raw(start.raw() | ticks).min(now);
            let found = &mut self.found;
            let looks = self.wheel.advance_in_order(&self.slab, end, limit as usize, found);
            if self.found.capacity() > MAX_KEPT {
                self.found = Vec::new();
            }
            let Some(looks) = looks else {
                self.window_level -= 1;
                continue;
            };
            *budget -= looks as u32;
            if (end.raw() + 1).trailing_zeros() >= LEVELS[self.window_level + 1].shift {
                self.window_level = MAX_WINDOW_LEVEL.min(self.window_level + 1);
            }
            return true;
        }
        // The next call tries the smallest window again.
        self.window_level = 1;
        false
    }

    /// Moves the wheel's clock towards `now`, up to the next cascade. False if it was there.
    fn step(&mut self, now: Timestamp) -> bool {
        let clock = self.wheel.clock();
        if now <= clock {
            return false;
        }
        let cascade = self.wheel.next_cascade().filter(|_| !seeded("timer-steps-too-far"));
        let target = match cascade.filter(|&at| at <= now) {
            // What is due before the cascade comes first.
            Some(at) if self.wheel.has_finest() && at.raw() - clock.raw() > 1 => {
                Timestamp::from_raw(at.raw() - 1)
            }
            Some(at) => at,
            None => now,
        };
        self.wheel.advance(&self.slab, target);
        true
    }

    /// The start of the tick at which an item of this deadline is due.
    pub fn tick_start(&self, deadline: u64) -> u64 {
        self.slab.start_of(self.slab.tick_at_or_after(deadline))
    }

    /// The earliest instant at which [`poll`](Self::poll) has something to do, if it was idle
    /// before: the tick of the earliest deadline. If more than [`SURVEY`] items would have to be
    /// looked at to tell, it may be an earlier instant, at which the wheel moves items.
    pub fn next_deadline(&self) -> Option<u64> {
        let (mut earliest, mut looks) = (None::<Timestamp>, 0);
        for (bound, ring) in self.wheel.rings() {
            if earliest.is_some_and(|earliest| earliest <= bound) {
                break;
            }
            for slot in self.wheel.ids_of(&self.slab, ring) {
                looks += 1;
                if looks > SURVEY {
                    let bound = earliest.map_or(bound, |earliest| earliest.min(bound));
                    return Some(self.slab.start_of(bound));
                }
                let Some(deadline) = self.slab.deadline(slot) else { continue };
                earliest = Some(earliest.map_or(deadline, |earliest| earliest.min(deadline)));
            }
        }
        earliest.map(|tick| self.slab.start_of(tick))
    }

    /// Whether an item is due by this instant. The answer is exact: where many items wait in a
    /// bucket that begins before the instant, this looks at all of them. An item of the last tick
    /// that there is never comes due.
    pub fn has_due_by(&self, instant: u64) -> bool {
        let never = u64::MAX - self.slab.tick();
        let last = self.slab.tick_of(instant.min(never));
        let is_due = |slot| self.slab.deadline(slot).is_some_and(|tick| tick <= last);
        let mut rings = self.wheel.rings().take_while(|&(bound, _)| bound <= last);
        rings.any(|(_, ring)| self.wheel.ids_of(&self.slab, ring).any(is_due))
    }

    /// The items that wait, soonest first.
    pub fn soonest(&self) -> impl Iterator<Item = (TimerId, u64)> + '_ {
        let mut rings = self.wheel.rings().peekable();
        let mut open = BinaryHeap::new();
        std::iter::from_fn(move || {
            loop {
                // No item of the next ring is due in an earlier tick than its bound.
                let bound = rings.peek().map(|&(bound, _)| bound);
                if let Some(&Reverse((deadline, id))) = open.peek()
                    && bound.is_none_or(|bound| self.slab.tick_at_or_after(deadline) < bound)
                {
                    open.pop();
                    return Some((id, deadline));
                }
                let (_, ring) = rings.next()?;
                let ids = self.wheel.ids_of(&self.slab, ring);
                let named = ids.filter_map(|slot| self.slab.named(slot));
                open.extend(named.map(|(id, deadline)| Reverse((deadline, id))));
            }
        })
    }

    /// Takes out all items, those that do not wait included.
    pub fn take_all(&mut self) -> impl Iterator<Item = (TimerId, u64, T)> + use<T> {
        self.wheel = Wheel::new(self.wheel.geometry().clone(), self.wheel.clock());
        self.slab.take()
    }

    /// Recounts slots, links and bits.
    ///
    /// # Errors
    ///
    /// Describes the first error that it finds.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn validate(&self) -> Result<(), String> {
        self.slab.validate()?;
        self.wheel.validate(&self.slab)
    }

    /// Whether an item of this deadline may be in a bucket of the finest level, or overdue.
    fn may_be_finest(&self, deadline: u64) -> bool {
        let finest = u64::from(LEVELS[0].buckets);
        self.slab.tick_of(deadline).raw() < self.wheel.clock().raw() + finest
    }

    fn is_linked(&self, slot: NodeId) -> bool {
        self.slab.links(slot).next() != NodeId::NONE
    }

    fn link(&mut self, slot: NodeId, deadline: u64) {
        let links = self.slab.links(slot);
        let tick = self.slab.tick_at_or_after(deadline);
        self.wheel.schedule(&self.slab, slot.with(links), Some(tick));
    }
}
