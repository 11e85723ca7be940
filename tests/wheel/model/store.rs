//! A store of timers for the tests of the wheel.

use cortado::internals::links::{Links, NIL};
use cortado::internals::wheel::TimerStore;
use std::cell::Cell;

/// Links and deadlines of the ids 1 to `n`. Counts how often deadlines are read, which the wheel
/// does once for each id that it looks at.
pub struct Timers {
    timers: Vec<(Links, Cell<Option<u64>>)>,
    pub reads: Cell<u64>,
}

impl Timers {
    pub fn new(n: u32) -> Self {
        let timers = (0..=n).map(|_| (Links::new(), Cell::new(None))).collect();
        Self { timers, reads: Cell::new(0) }
    }

    pub fn set(&self, id: u32, deadline: impl Into<Option<u64>>) {
        self.timers[id as usize].1.set(deadline.into());
    }

    pub fn is_linked(&self, id: u32) -> bool {
        self.timers[id as usize].0.next() != NIL
    }
}

impl TimerStore for Timers {
    fn links(&self, id: u32) -> &Links {
        &self.timers[id as usize].0
    }

    fn deadline(&self, id: u32) -> Option<u64> {
        self.reads.set(self.reads.get() + 1);
        self.timers[id as usize].1.get()
    }
}
