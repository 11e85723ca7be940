//! Admission: the duel of a window candidate against a main victim.

use crate::sketch::Sketch;
use crate::sketch::blocks::Spread;

/// A candidate that lost its duel may be admitted by chance if its frequency is at least this. The
/// value is Caffeine's.
const WARM: u8 = 6;
/// One in this many of those candidates is admitted. The value is Caffeine's.
const WARM_CHANCE: u64 = 128;

/// The frequency sketch and the source of random numbers.
pub struct Admission {
    /// It counts the requests. Its spread of a hash identifies a key here and in the memory of
    /// leavers.
    pub sketch: Sketch,
    /// The state of a splitmix64 generator. The same seed gives the same rolls.
    dice: u64,
}

impl Admission {
    pub fn new(seed: u64) -> Self {
        let mut dice = seed;
        Self { sketch: Sketch::new(roll(&mut dice)), dice }
    }

    /// Whether the candidate takes the victim's room. It does if its frequency is higher.
    ///
    /// The candidate loses a tie, because otherwise a scan would flush the cache. An attacker could
    /// raise a victim's count for good by requesting keys that share its counters. That victim
    /// would then keep every candidate out. For this reason a warm candidate that lost is admitted
    /// from time to time.
    #[inline]
    pub fn admits(&mut self, candidate: Spread, victim: Spread) -> bool {
        let frequency = self.sketch.frequency(candidate);
        frequency > self.sketch.frequency(victim)
            || (frequency >= WARM && roll(&mut self.dice).is_multiple_of(WARM_CHANCE))
    }
}

fn roll(dice: &mut u64) -> u64 {
    *dice = dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *dice;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
