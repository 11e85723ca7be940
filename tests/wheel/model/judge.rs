//! A callback that does all that a callback may.

use super::store::{Poll, Wheel};
use super::{Model, TIMERS};
use cortado::internals::wheel::{self, Verdict};
use std::panic::resume_unwind;

/// The callback of one pass.
pub struct Judge {
    random: u64,
    pub calls: u32,
    pub panicked: bool,
}

impl Judge {
    pub fn new(seed: u64) -> Self {
        Self { random: seed, calls: 0, panicked: false }
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

    pub fn judge(
        &mut self,
        model: &mut Model,
        wheel: &mut Wheel<&mut wheel::Wheel>,
        id: u32,
    ) -> Verdict {
        self.calls += 1;
        let (deadline, since) = model.take(id);
        match self.next() % 16 {
            0 => {
                let offset = self.offset();
                model.insert(id, model.instant(offset));
                Verdict::Keep
            }
            1 => {
                model.insert(id, deadline);
                Verdict::Keep
            }
            2 => {
                model.timers.set(id, None);
                Verdict::Keep
            }
            3 => {
                model.put(id, deadline, since);
                model.fired -= 1;
                self.panic()
            }
            4 => {
                assert!(wheel.cancel(&model.timers, id), "it is in the hand");
                assert!(!wheel.cancel(&model.timers, id));
                self.keep_or_panic()
            }
            5 => {
                self.schedule(model, wheel, id);
                self.keep_or_panic()
            }
            6 | 7 => {
                let other = self.anyone();
                self.schedule(model, wheel, other);
                Verdict::Expire
            }
            8 => {
                let other = self.anyone();
                let there = model.timers.is_linked(other) || other == id;
                model.remove(other);
                assert_eq!(wheel.cancel(&model.timers, other), there);
                Verdict::Expire
            }
            9 => {
                let later = wheel.clock().wrapping_add(1 << 50);
                assert_eq!(wheel.advance(&model.timers, later), 0);
                assert_eq!(wheel.advance_with(&model.timers, later, 7, |_, _| unreachable!()), 7);
                Verdict::Expire
            }
            10 => {
                let mut budget = 2;
                while let Poll::Due(other) = wheel.poll(&model.timers, &mut budget) {
                    model.take(other);
                }
                Verdict::Expire
            }
            _ => Verdict::Expire,
        }
    }

    fn anyone(&mut self) -> u32 {
        (self.next() % u64::from(TIMERS)) as u32 + 1
    }

    fn schedule(&mut self, model: &mut Model, wheel: &mut Wheel<&mut wheel::Wheel>, id: u32) {
        let offset = self.offset();
        model.insert(id, model.instant(offset));
        wheel.schedule(&model.timers, id);
    }

    /// What becomes of an id that the callback has seen to itself does not depend on the verdict.
    fn keep_or_panic(&mut self) -> Verdict {
        match self.next() % 3 {
            0 => Verdict::Keep,
            1 => Verdict::Expire,
            _ => self.panic(),
        }
    }

    /// Unwinds without the message that a panic prints.
    fn panic(&mut self) -> Verdict {
        self.panicked = true;
        resume_unwind(Box::new("a callback's"))
    }
}
