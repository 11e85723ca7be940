//! Who may stay: the duel of a window candidate against a main victim, and the second chance of one
//! that was rejected and comes back.

use crate::sketch::Sketch;

/// From this frequency on, a candidate that lost may be let in by chance.
const WARM: u8 = 6;
/// One such candidate in so many is.
const WARM_CHANCE: u64 = 128;

/// The frequency sketch and the dice.
#[derive(Debug)]
pub struct Admission {
    sketch: Sketch,
    dice: Dice,
}

impl Admission {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        Self { sketch: Sketch::new(dice.roll()), dice }
    }

    /// A hash, spread under a secret seed: what the other methods, and the ghosts, know a key by.
    #[inline]
    pub fn spread(&self, hash: u32) -> u64 {
        self.sketch.spread(hash)
    }

    /// Counts a request.
    #[inline]
    pub fn count(&mut self, spread: u64) {
        self.sketch.increment(spread);
    }

    #[inline]
    pub fn frequency(&self, spread: u64) -> u8 {
        self.sketch.frequency(spread)
    }

    /// Begins to load what counting or asking for a key touches.
    #[inline]
    pub fn prefetch(&self, spread: u64) {
        self.sketch.prefetch(spread);
    }

    /// Follows the number of entries; to be called whenever it changes by one.
    #[inline]
    pub fn fit(&mut self, entries: usize) {
        self.sketch.fit(entries);
    }

    /// Whether the candidate takes the victim's room: if it was asked for more often.
    ///
    /// A tie is lost, or a scan would flush the cache. One who could make a victim's count high for
    /// good, by keys that share its counters, would thereby keep every candidate out; so a
    /// candidate that is warm itself gets in once in a while all the same.
    #[inline]
    pub fn admits(&mut self, candidate: u64, victim: u64) -> bool {
        let frequency = self.frequency(candidate);
        frequency > self.frequency(victim) || (frequency >= WARM && self.dice.one_in(WARM_CHANCE))
    }

    /// Whether a newcomer that was rejected lately may go to the main region at once, from where
    /// `victim` is the next to leave: if it was asked for more often, and else one in `chance`.
    /// Were it always, loops a little longer than the cache would lose 2 to 3 points.
    #[inline]
    pub fn recalls(&mut self, newcomer: u64, victim: Option<u64>, chance: u64) -> bool {
        victim.is_none_or(|victim| self.frequency(newcomer) > self.frequency(victim))
            || self.dice.one_in(chance)
    }

    /// A random number.
    pub fn roll(&mut self) -> u64 {
        self.dice.roll()
    }

    /// Checks the sketch.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        self.sketch.validate()
    }
}

/// A splitmix64 generator: the same seed, the same rolls.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.roll().is_multiple_of(chances)
    }
}
