//! cortado's wheel, with the ticks it has by default and with the finest.

use super::{TICK_SHIFT, Timers};
use cortado::internals::clock::Timestamp;
use cortado::internals::links::{Links, NodeId};
use cortado::internals::wheel::{Geometry, Poll, TimerStore, Wheel as Mechanism};
use std::cell::Cell;
use std::time::Duration;

/// Links and deadlines, as a pool of nodes has them.
struct Store(Vec<(Links, Cell<u64>)>);

impl TimerStore for Store {
    fn links(&self, id: NodeId) -> &Links {
        &self.0[id.index()].0
    }

    fn deadline(&self, id: NodeId) -> Option<Timestamp> {
        let deadline = self.0[id.index()].1.get();
        (deadline != u64::MAX).then_some(Timestamp::from_raw(deadline))
    }
}

/// The wheel as it is by default.
pub struct Wheel {
    store: Store,
    wheel: Mechanism,
}

impl Wheel {
    fn with(geometry: Geometry, ids: u32) -> Self {
        let node = || (Links::default(), Cell::new(u64::MAX));
        let store = Store((0..=ids).map(|_| node()).collect());
        Self { store, wheel: Mechanism::new(geometry, Timestamp::from_raw(0)) }
    }
}

impl Timers for Wheel {
    const NAME: &'static str = "cortado's wheel";
    const LATENESS: u64 = 1 << TICK_SHIFT;

    type Key = u32;

    fn new(ids: u32) -> Self {
        Self::with(Geometry::default(), ids)
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> u32 {
        let (links, own) = &self.store.0[id as usize];
        own.set(deadline);
        let deadline = (deadline != u64::MAX).then_some(Timestamp::from_raw(deadline));
        self.wheel.schedule(&self.store, NodeId::from_raw(id).with(links), deadline);
        id
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.wheel.cancel(&self.store, &self.store.0[id as usize].0);
    }

    #[inline]
    fn reschedule(&mut self, (id, _): (u32, u32), deadline: u64) -> u32 {
        self.schedule(id, deadline)
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        self.wheel.advance(&self.store, Timestamp::from_raw(now));
        let mut budget = u32::MAX;
        while let Poll::Due(id) = self.wheel.poll(&self.store, &mut budget) {
            due(id.raw());
        }
    }
}

/// The wheel with ticks of half a millisecond.
pub struct FineWheel(Wheel);

impl Timers for FineWheel {
    const NAME: &'static str = "cortado's wheel, 1 ms";
    const LATENESS: u64 = 1_000_000;

    type Key = u32;

    fn new(ids: u32) -> Self {
        Self(Wheel::with(Geometry::with_resolution(Duration::from_millis(1)), ids))
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> u32 {
        self.0.schedule(id, deadline)
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.0.cancel(id);
    }

    #[inline]
    fn reschedule(&mut self, key: (u32, u32), deadline: u64) -> u32 {
        self.0.reschedule(key, deadline)
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        self.0.expire(now, due);
    }
}
