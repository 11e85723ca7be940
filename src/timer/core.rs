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
//! cascades, although the coarse one may hold earlier deadlines. So [`Core::poll`] goes from one
//! cascade to the next, and works off the backlog in between. Up to a cascade only finest buckets
//! are due, each of which holds the items of one tick.
//!
//! Where a step of the clock has few items to pass, the wheel sorts them instead. The *window* of
//! such a step ends where a bucket of a coarse level ends, and the *reach* is that level. The reach
//! follows the density of items: a window that holds too many lowers it, and it rises when a
//! coarser bucket ends. So an item is looked at twice or three times in its life, and not once in
//! each level.
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

/// A window follows so many lanes of a bucket at once, each from both ends. With one lane, a
/// million items that expire take 1.6 times as long: the wheel waits for memory at each of them.
/// Eight lanes gain no more.
const LANES: usize = 4;

/// So many items are looked at, at most, to tell the earliest deadline exactly.
const SURVEY: usize = 64;

/// A window holds no more items than this, and no more than the budget allows. With a million items
/// over an hour, it takes in the buckets of a minute.
const WINDOW: u32 = 1 << 15;

/// The greatest reach. Windows are shorter than 2^32 - 1 ticks, as the wheel asks for.
const MAX_REACH: usize = 4;

/// The memory for sorting is kept if it has no more room than this.
const KEPT: usize = 128;

/// See the [module](self). Instants are nanoseconds from any origin.
#[derive(Debug)]
pub struct Core<T> {
    slab: Slab<T>,
    wheel: Wheel<LANES>,
    /// The level at whose buckets windows end.
    reach: usize,
    /// Memory for sorting the items of a window.
    found: Vec<u64>,
}

impl<T> Core<T> {
    /// # Panics
    ///
    /// Panics if the tick is shorter than a millisecond.
    pub fn new(tick: Duration, now: u64) -> Self {
        assert!(tick >= Duration::from_millis(1), "a tick of {tick:?} is below a millisecond");
        let slab = Slab::new(tick);
        let wheel = Wheel::new(Geometry::new(&LEVELS), slab.tick_of(now));
        Self { slab, wheel, reach: MAX_REACH, found: Vec::new() }
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

    /// # Errors
    ///
    /// Gives the value back if there are as many as ids can name.
    pub fn insert(&mut self, deadline: u64, value: T) -> Result<TimerId, T> {
        let (id, slab, links) = self.slab.insert(deadline, value)?;
        let deadline = slab.tick_at_or_after(deadline);
        self.wheel.schedule(slab, (id.slot(), links), Some(deadline));
        Ok(id)
    }

    /// Puts an item where its deadline belongs, whether it waits or not. The id must be valid.
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

    /// Takes an item out of the wheel and out of its slot.
    pub fn remove(&mut self, id: TimerId) -> Option<T> {
        self.wheel.cancel(&self.slab, self.slab.links_of(id)?);
        Some(self.slab.remove_named(id.slot())?.2)
    }

    /// Hands out the next item that is due at `now`, which is in no ring then, and still in its
    /// slot. Takes one from `budget` for each item it looks at.
    pub fn poll(&mut self, now: u64, budget: &mut u32) -> Poll {
        let now = self.slab.tick_of(now);
        loop {
            match self.wheel.poll(&self.slab, budget) {
                Poll::Idle => {
                    // The current bucket of the finest level holds only items that were due when
                    // they came.
                    self.wheel.recall_current(&self.slab);
                    let is_done = self.wheel.has_backlog() || self.pass_window(now, budget);
                    if !is_done && !self.step(now) {
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
        while self.reach > 0 {
            // A step to the next tick needs no sorting.
            let start = self.wheel.next_deadline().filter(|&start| start < now);
            let Some(start) = start else { return false };
            let ticks = LEVELS[self.reach].span().raw() - 1;
            let end = Timestamp::from_raw(start.raw() | ticks).min(now);
            let found = &mut self.found;
            let looks = self.wheel.advance_in_order(&self.slab, end, limit as usize, found);
            if self.found.capacity() > KEPT {
                self.found = Vec::new();
            }
            let Some(looks) = looks else {
                self.reach -= 1;
                continue;
            };
            *budget -= looks as u32;
            if (end.raw() + 1).trailing_zeros() >= LEVELS[self.reach + 1].shift {
                self.reach = MAX_REACH.min(self.reach + 1);
            }
            return true;
        }
        self.reach = 1;
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
    pub fn validate(&self) -> Result<(), String> {
        self.slab.validate()?;
        self.wheel.validate(&self.slab)
    }

    /// Whether an item of this deadline may be in a bucket of the finest level, or overdue.
    fn may_be_finest(&self, deadline: u64) -> bool {
        let reach = u64::from(LEVELS[0].buckets);
        self.slab.tick_of(deadline).raw() < self.wheel.clock().raw() + reach
    }

    fn is_linked(&self, slot: NodeId) -> bool {
        self.slab.links(slot).next() != NodeId::NONE
    }

    fn link(&mut self, slot: NodeId, deadline: u64) {
        let links = self.slab.links(slot);
        let deadline = self.slab.tick_at_or_after(deadline);
        self.wheel.schedule(&self.slab, (slot, links), Some(deadline));
    }
}
