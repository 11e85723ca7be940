//! A store of timers for the tests of the wheel, and the wheel by plain numbers: a timer is 1, 2 or
//! 3, a time is so many nanoseconds.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use cortado::internals::clock::{Nanos, Timestamp};
use cortado::internals::links::{Links, NodeId};
use cortado::internals::wheel::{self, Geometry, Level, TimerStore};
use std::cell::Cell;

/// The geometry of these levels: log2 of the tick, and the number of buckets.
pub fn geometry(levels: &[(u32, u32)]) -> Geometry {
    let level = |&(shift, buckets): &(u32, u32)| Level::new(shift, buckets);
    Geometry::new(&levels.iter().map(level).collect::<Vec<_>>())
}

/// Links and deadlines of the ids 1 to `n`. Counts how often deadlines are read, which the wheel
/// does once for each id that it looks at.
pub struct Timers {
    timers: Vec<(Links, Cell<Option<u64>>)>,
    pub reads: Cell<u64>,
}

impl Timers {
    pub fn new(n: u32) -> Self {
        let timers = (0..=n).map(|_| (Links::default(), Cell::new(None))).collect();
        Self { timers, reads: Cell::new(0) }
    }

    pub fn set(&self, id: u32, deadline: impl Into<Option<u64>>) {
        self.timers[id as usize].1.set(deadline.into());
    }

    pub fn is_linked(&self, id: u32) -> bool {
        self.timers[id as usize].0.next() != NodeId::NONE
    }

    pub fn next(&self, id: u32) -> u32 {
        self.timers[id as usize].0.next().raw()
    }

    pub fn prev(&self, id: u32) -> u32 {
        self.timers[id as usize].0.prev().raw()
    }

    pub fn set_next(&self, id: u32, next: u32) {
        self.timers[id as usize].0.set_next(NodeId::from_raw(next));
    }

    pub fn set_prev(&self, id: u32, prev: u32) {
        self.timers[id as usize].0.set_prev(NodeId::from_raw(prev));
    }
}

impl TimerStore for Timers {
    fn links(&self, id: NodeId) -> &Links {
        &self.timers[id.index()].0
    }

    fn deadline(&self, id: NodeId) -> Option<Timestamp> {
        self.reads.set(self.reads.get() + 1);
        self.timers[id.index()].1.get().map(Timestamp::from_raw)
    }
}

/// A wheel, as caches have it, or with lanes, as timers have it.
pub enum Wheel {
    OneLane(wheel::Wheel),
    ThreeLanes(wheel::Wheel<3>),
}

/// An expression with the wheel, whichever it is.
macro_rules! with {
    ($self:ident, $wheel:ident => $expression:expr) => {
        match $self {
            Self::OneLane($wheel) => $expression,
            Self::ThreeLanes($wheel) => $expression,
        }
    };
}

/// The place of a timer in the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In this bucket of this level. Level 0 is the finest.
    Bucket { level: usize, index: u32 },
    /// In the backlog of this level. The wheel has yet to look at it: it is due, or cascades.
    Backlog { level: usize },
}

#[derive(Debug, PartialEq, Eq)]
pub enum Poll {
    Due(u32),
    Exhausted,
    Idle,
}

impl Wheel {
    pub fn new(geometry: Geometry, now: u64) -> Self {
        Self::OneLane(wheel::Wheel::new(geometry, Timestamp::from_raw(now)))
    }

    pub fn with_lanes(geometry: Geometry, now: u64) -> Self {
        Self::ThreeLanes(wheel::Wheel::new(geometry, Timestamp::from_raw(now)))
    }

    pub fn geometry(&self) -> &Geometry {
        with!(self, wheel => wheel.geometry())
    }

    pub fn clock(&self) -> u64 {
        with!(self, wheel => wheel.clock().raw())
    }

    pub fn len(&self) -> usize {
        with!(self, wheel => wheel.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn has_backlog(&self) -> bool {
        with!(self, wheel => wheel.has_backlog())
    }

    pub fn next_delay(&self) -> Option<u64> {
        with!(self, wheel => wheel.next_delay().map(Nanos::raw))
    }

    pub fn next_deadline(&self) -> Option<u64> {
        with!(self, wheel => wheel.next_deadline().map(Timestamp::raw))
    }

    pub fn location(&self, timers: &Timers, id: u32) -> Option<Location> {
        self.places(timers).into_iter().find(|(_, ids)| ids.contains(&id)).map(|(place, _)| place)
    }

    /// The places that are not empty, soonest first, with their timers: the backlogs, then level by
    /// level, bucket by bucket.
    pub fn places(&self, timers: &Timers) -> Vec<(Location, Vec<u32>)> {
        let levels = self.geometry().levels().len();
        let mut places: Vec<(Location, Vec<u32>)> = with!(self, wheel => wheel
            .rings()
            .map(|(_, ring)| {
                let place = match ring.level() {
                    level if level == levels => Location::Backlog { level: ring.index() as usize },
                    level => Location::Bucket { level, index: ring.index() },
                };
                (place, wheel.ids_of(timers, ring).map(NodeId::raw).collect())
            })
            .collect());
        places.sort_by_key(|(place, _)| match *place {
            Location::Backlog { .. } => None,
            Location::Bucket { level, .. } => Some(level),
        });
        places
    }

    pub fn validate(&self, timers: &Timers) -> Result<(), String> {
        with!(self, wheel => wheel.validate(timers))
    }

    /// All timers, soonest first. The order is rough within a bucket, and where the levels overlap.
    pub fn soonest(&self, timers: &Timers) -> Vec<u32> {
        self.places(timers).into_iter().flat_map(|(_, ids)| ids).collect()
    }

    pub fn schedule(&mut self, timers: &Timers, id: u32) {
        let id = NodeId::from_raw(id);
        with!(self, wheel => wheel.schedule(timers, id.with(timers.links(id)), timers.deadline(id)));
    }

    pub fn cancel(&mut self, timers: &Timers, id: u32) -> bool {
        with!(self, wheel => wheel.cancel(timers, timers.links(NodeId::from_raw(id))))
    }

    pub fn replace(&mut self, timers: &Timers, old: u32, new: u32) -> bool {
        let [old, new] = [old, new].map(NodeId::from_raw);
        with!(self, wheel => wheel.replace(timers, timers.links(old), new.with(timers.links(new))))
    }

    pub fn advance(&mut self, timers: &Timers, now: u64) -> usize {
        with!(self, wheel => wheel.advance(timers, Timestamp::from_raw(now)))
    }

    pub fn recall_current(&mut self, timers: &Timers) {
        with!(self, wheel => wheel.recall_current(timers));
    }

    pub fn rewind(&mut self, timers: &Timers, now: u64) {
        with!(self, wheel => wheel.rewind(timers, Timestamp::from_raw(now)));
    }

    pub fn poll(&mut self, timers: &Timers, budget: &mut u32) -> Poll {
        match with!(self, wheel => wheel.poll(timers, budget)) {
            wheel::Poll::Due(id) => Poll::Due(id.raw()),
            wheel::Poll::Exhausted => Poll::Exhausted,
            wheel::Poll::Idle => Poll::Idle,
        }
    }

    /// Advances to `now`, and calls `each` with each due timer and the wheel. Returns the rest of
    /// the budget.
    pub fn advance_with(
        &mut self,
        timers: &Timers,
        now: u64,
        mut budget: u32,
        mut each: impl FnMut(&mut Self, u32),
    ) -> u32 {
        self.advance(timers, now);
        while let Poll::Due(id) = self.poll(timers, &mut budget) {
            each(self, id);
        }
        budget
    }
}
