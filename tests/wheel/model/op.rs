//! Operations, and how bytes spell them.

use super::TIMERS;

/// Bytes before the operations: the geometry, and the clock's start.
pub const HEADER_LEN: usize = 10;

/// Bytes of an operation: kind, timer, flavour, and eight for a time.
pub const OP_LEN: usize = 11;

/// A hundred years, in nanoseconds.
const CENTURY: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// One operation. Times are relative to the clock.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Schedule {
        id: u32,
        deadline: i64,
    },
    /// By the deadline of another timer, if that waits.
    ScheduleNear {
        id: u32,
        other: u32,
        offset: i64,
    },
    ScheduleNever {
        id: u32,
    },
    Reschedule {
        id: u32,
        deadline: i64,
    },
    Extend {
        id: u32,
        by: u64,
    },
    Lapse {
        id: u32,
    },
    Cancel {
        id: u32,
    },
    Advance {
        by: u64,
        budget: Option<u32>,
    },
    AdvanceToNext {
        budget: u32,
    },
    AdvanceWith {
        by: u64,
        budget: u32,
        seed: u64,
    },
    Recall,
    Back {
        by: u64,
    },
    Rewind {
        by: u64,
    },
}

/// What is left of a program's spelling; zeros follow its end.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A word that is often close to one of these.
    pub fn near(&mut self, places: &[u64]) -> u64 {
        let choice = usize::from(self.byte());
        match (places.get(choice % (places.len() + 1)), self.word()) {
            (Some(place), word) => {
                place.wrapping_add(length(0, word)).wrapping_sub(1 << (word & 31))
            }
            (None, word) => word,
        }
    }

    pub fn op(&mut self) -> Option<Op> {
        if self.0.is_empty() {
            return None;
        }
        let (kind, id, flavour, word) = (self.byte(), self.byte(), self.byte(), self.word());
        let id = u32::from(id) % TIMERS + 1;
        let by = length(flavour, word);
        let budget = match flavour >> 5 {
            0..4 => u32::MAX,
            few => u32::from(flavour & 31) * (few - 4) as u32,
        };
        // One deadline in eight has passed.
        let deadline = if flavour >> 5 == 7 { -by.cast_signed() } else { by.cast_signed() };
        Some(match kind % 32 {
            0..6 => Op::Schedule { id, deadline },
            6..10 => {
                let other = u32::from(flavour) % TIMERS + 1;
                let offset = word.cast_signed() >> (4 + (word & 63).min(58));
                Op::ScheduleNear { id, other, offset }
            }
            10 => Op::ScheduleNever { id },
            11..14 => Op::Reschedule { id, deadline },
            14..17 => Op::Extend { id, by },
            17 => Op::Lapse { id },
            18..20 => Op::Cancel { id },
            20..23 => Op::Advance { by, budget: Some(budget) },
            23 if flavour & 31 == 31 => Op::Advance { by: CENTURY, budget: Some(budget) },
            23 => Op::Advance { by, budget: None },
            24 => Op::Advance { by: 0, budget: Some(budget) },
            25..27 => Op::AdvanceToNext { budget },
            27..29 => Op::AdvanceWith { by, budget, seed: word },
            29 => Op::Recall,
            30 => Op::Back { by },
            _ => Op::Rewind { by },
        })
    }
}

/// A length of time below 2^58 ns, of any order of magnitude; for half of the flavours, a power
/// of two give or take one, which is where levels and ticks begin.
fn length(flavour: u8, word: u64) -> u64 {
    let (magnitude, digits) = (word & 63, word >> 6);
    match flavour & 7 {
        0..4 => digits >> magnitude.min(57),
        some => (u64::from(some) << (magnitude % 54)).saturating_sub(digits % 3),
    }
}
