//! cortado's `DelayQueue`, with ticks of a millisecond.

use super::Timers;
use cortado::timer::{DelayQueue, Polled, TimerId};
use std::time::Duration;

/// The queue, and its ids by those of the bench.
pub struct Delayed {
    queue: DelayQueue<u32>,
    ids: Vec<Option<TimerId>>,
}

impl Timers for Delayed {
    const NAME: &'static str = "cortado's DelayQueue";
    const LATENESS: u64 = 1_000_000;
    const KEY: usize = size_of::<Option<TimerId>>();

    fn new(ids: u32) -> Self {
        Self { queue: DelayQueue::new(), ids: vec![None; ids as usize + 1] }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) {
        self.ids[id as usize] = Some(self.queue.insert(id, Duration::from_nanos(deadline)));
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        if let Some(timer) = self.ids[id as usize].take() {
            self.queue.cancel(timer);
        }
    }

    #[inline]
    fn reschedule(&mut self, id: u32, deadline: u64) {
        if let Some(timer) = self.ids[id as usize] {
            self.queue.reschedule(timer, Duration::from_nanos(deadline));
        }
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        let mut budget = u32::MAX;
        while let Polled::Due(expired) = self.queue.poll(Duration::from_nanos(now), &mut budget) {
            // Its timer's id stays: it names nothing any more, and never will.
            due(expired.into_inner());
        }
    }
}
