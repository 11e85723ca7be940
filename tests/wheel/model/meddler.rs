//! A caller who does anything to the wheel between two polls.

use super::store::{Poll, Wheel};
use super::{Model, TIMERS};

/// Draws what is done.
pub struct Meddler {
    random: u64,
}

impl Meddler {
    pub fn new(seed: u64) -> Self {
        Self { random: seed }
    }

    /// splitmix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A time around the clock, of any order of magnitude.
    fn offset(&mut self) -> i64 {
        let digits = self.next().cast_signed() >> 6;
        digits >> (self.next() % 58)
    }

    /// `id` has just been handed out.
    pub fn meddle(&mut self, model: &mut Model, wheel: &mut Wheel, id: u32) {
        let (deadline, _) = model.take(id);
        match self.next() % 16 {
            0 => {
                model.insert(id, deadline);
                wheel.schedule(&model.timers, id);
            }
            1 => self.schedule(model, wheel, id),
            2 => {
                model.timers.set(id, None);
                wheel.schedule(&model.timers, id);
                assert!(!model.timers.is_linked(id));
            }
            3 => assert!(!wheel.cancel(&model.timers, id), "it was handed out"),
            4..7 => {
                let other = self.anyone();
                self.schedule(model, wheel, other);
            }
            7 | 8 => {
                let other = self.anyone();
                let there = model.timers.is_linked(other);
                model.remove(other);
                assert_eq!(wheel.cancel(&model.timers, other), there);
            }
            9 => {
                let by = self.offset().unsigned_abs();
                model.advance(wheel, model.clock + i128::from(by));
            }
            10 => {
                let mut budget = 2;
                while let Poll::Due(other) = wheel.poll(&model.timers, &mut budget) {
                    model.take(other);
                }
            }
            _ => {}
        }
    }

    fn anyone(&mut self) -> u32 {
        (self.next() % u64::from(TIMERS)) as u32 + 1
    }

    fn schedule(&mut self, model: &mut Model, wheel: &mut Wheel, id: u32) {
        let offset = self.offset();
        model.insert(id, model.instant(offset));
        wheel.schedule(&model.timers, id);
    }
}
