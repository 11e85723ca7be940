//! cortado's `DelayQueue`, with ticks of a millisecond.

use super::Timers;
use cortado::timer::{DelayQueue, Polled, TimerId};
use std::time::Duration;

/// The queue.
pub struct Delayed(DelayQueue<u32>);

impl Timers for Delayed {
    const NAME: &'static str = "cortado's DelayQueue";
    const LATENESS: u64 = 1_000_000;

    type Key = TimerId;

    fn new(_: u32) -> Self {
        Self(DelayQueue::new())
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> TimerId {
        self.0.insert_at(id, Duration::from_nanos(deadline))
    }

    #[inline]
    fn cancel(&mut self, key: TimerId) {
        self.0.try_remove(&key);
    }

    #[inline]
    fn reschedule(&mut self, (_, key): (u32, TimerId), deadline: u64) -> TimerId {
        self.0.try_reset_at(&key, Duration::from_nanos(deadline));
        key
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        let mut budget = u32::MAX;
        while let Polled::Due(expired) = self.0.poll(Duration::from_nanos(now), &mut budget) {
            due(expired.into_inner());
        }
    }
}
