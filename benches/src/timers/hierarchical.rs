//! The crate `hierarchical_hash_wheel_timer`: four rings of 256 buckets; cancelled timers stay in
//! them until their tick, and a map tells which are still wanted. Its unit is taken to be one tick.

use super::{TICK_SHIFT, Timers};
use hierarchical_hash_wheel_timer::IdOnlyTimerEntry;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::QuadWheelWithOverflow;
use std::time::Duration;

/// The wheel and its present tick.
pub struct Hierarchical {
    wheel: QuadWheelWithOverflow<IdOnlyTimerEntry<u32>>,
    tick: u64,
}

impl Timers for Hierarchical {
    const NAME: &'static str = "hierarchical_hash_wheel_timer";
    const LATENESS: u64 = 1 << TICK_SHIFT;

    type Key = u32;

    fn new(_: u32) -> Self {
        Self { wheel: QuadWheelWithOverflow::new(), tick: 0 }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> u32 {
        // Its units are milliseconds by name only; the next one is the soonest.
        let units = (deadline.div_ceil(1 << TICK_SHIFT) - self.tick).max(1);
        let entry = IdOnlyTimerEntry { id, delay: Duration::from_millis(units) };
        self.wheel.insert(entry).expect("a deadline in the future");
        id
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.wheel.cancel(&id).expect("it is in the wheel");
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        let last = now >> TICK_SHIFT;
        while self.tick < last {
            let left = last - self.tick;
            let skipped = match self.wheel.can_skip() {
                Skip::None => 0,
                Skip::Empty => left,
                Skip::Millis(units) => u64::from(units).min(left),
            };
            if skipped > 0 {
                self.wheel.skip(skipped as u32);
                self.tick += skipped;
            } else {
                self.wheel.tick().into_iter().for_each(|entry| due(entry.id));
                self.tick += 1;
            }
        }
    }
}
