//! How often keys were asked for lately: a blocked count-min sketch of 4-bit counters that ages.
//!
//! A key, named by a 32-bit hash, owns four counters in one block of 64 bytes, one in each quarter
//! of the block, so that counting or asking touches one cache line. Its estimate is the least of
//! the four: never too low (but for saturation at 15 and ageing), too high only if other keys share
//! all four counters.
//!
//! ```text
//! hash ──seed──► x   bits 0..40: block    bits 40..60: four times 5 bits, a counter in each quarter
//! block (64 bytes) = 4 quarters × 32 counters × 4 bits, quarter q = words 2q and 2q + 1
//! ```
//!
//! 1. **Seed.** The hash is spread again under a seed, so that neither a weak hash nor one who
//!    knows the hash function can choose which keys share counters.
//! 2. **Size.** 16 counters, 8 bytes, for each entry that [`Sketch::fit`] was told of, and never
//!    less than 4 KiB: with 1 KiB, collisions cost caches of up to 500 entries 0.2 points of hit
//!    ratio. The table grows and shrinks block by block ([`blocks`]): no call stalls, and no
//!    estimate falls.
//! 3. **Ageing.** After [`PERIOD`] counts per entry all counters are halved, so that what was
//!    popular once gives way. The halving is a sweep of [`SWEEP`] blocks per count, over within
//!    1/128 count per entry; only during it keys of different blocks compare a little unfairly.
//! 4. **Bounds.** `increment` touches at most 1 + [`SWEEP`] blocks, `fit` two, `frequency` one.
//!
//! Not chosen: a period per block (busy blocks would age faster than quiet ones); counters spread
//! over the whole table (four cache misses for slightly fewer collisions).

pub mod blocks;

use crate::prefetch::prefetch;
use blocks::{Blocks, spread};

/// Counts per entry between two halvings. Twice TinyLFU's choice, see the policy's docs.
pub const PERIOD: u64 = 20;

/// Blocks that one count halves while ageing is under way.
pub const SWEEP: usize = 16;

/// No counter goes above this.
pub const MAX_FREQUENCY: u8 = 15;

const ENTRIES_PER_BLOCK: usize = 8;
const MIN_BLOCKS: usize = 64;
/// The period of a sketch for fewer entries is that of one for so many.
const MIN_ENTRIES: usize = 16;

/// The lowest bit of each of a word's sixteen counters.
const LOW_BITS: u64 = 0x1111_1111_1111_1111;
/// A word's counters without their highest bits.
const HALVES: u64 = 0x7777_7777_7777_7777;

/// A frequency sketch that follows the number of entries and forgets in time.
#[derive(Debug)]
pub struct Sketch {
    blocks: Blocks<[u64; 8]>,
    seed: u64,
    /// Counts since the last halving, and what that left of the earlier ones.
    counts: u64,
    /// The next block to halve and the odd counters met, while a sweep is under way.
    sweep: Option<(usize, u64)>,
}

impl Sketch {
    /// The smallest sketch.
    pub fn new(seed: u64) -> Self {
        let blocks = Blocks::new([0; 8], ENTRIES_PER_BLOCK, MIN_BLOCKS);
        Self { blocks, seed, counts: 0, sweep: None }
    }

    /// Bytes of counters.
    pub fn bytes(&self) -> usize {
        self.blocks.count() * size_of::<[u64; 8]>()
    }

    /// Counts from one halving to the next. (A halving halves the count as well, so that the second
    /// halving comes after half as many.)
    pub fn period(&self) -> u64 {
        PERIOD * self.blocks.entries().max(MIN_ENTRIES) as u64
    }

    /// A hash as the other methods want it: spread under this sketch's seed. Good for others, too,
    /// that want a secret hash.
    #[inline]
    pub fn spread(&self, hash: u32) -> u64 {
        spread(hash, self.seed)
    }

    /// The estimate for a key, at most [`MAX_FREQUENCY`].
    #[inline]
    pub fn frequency(&self, x: u64) -> u8 {
        let block = self.blocks.get(self.blocks.index(x));
        let [a, b, c, d] = counters(x).map(|(word, shift)| block[word] >> shift & 0xf);
        a.min(b).min(c).min(d) as u8
    }

    /// Begins to load what counting or asking for a key touches.
    #[inline]
    pub fn prefetch(&self, x: u64) {
        prefetch(self.blocks.get(self.blocks.index(x)));
    }

    /// Counts a key once, and ages a little if that is due.
    #[inline]
    pub fn increment(&mut self, x: u64) {
        let index = self.blocks.index(x);
        let block = self.blocks.get_mut(index);
        for (word, shift) in counters(x) {
            let room = u64::from(block[word] >> shift & 0xf != u64::from(MAX_FREQUENCY));
            block[word] += room << shift;
        }
        self.counts += 1;
        if self.sweep.is_some() || self.counts >= self.period() {
            self.age();
        }
    }

    /// Follows the number of entries by at most one block; to be called whenever it changes by one.
    #[inline]
    pub fn fit(&mut self, entries: usize) {
        self.blocks.fit(entries, |kept, given_up| {
            for (kept, given_up) in kept.iter_mut().zip(given_up) {
                *kept = greater_counters(*kept, given_up);
            }
        });
    }

    /// Checks rules 2 and 3.
    ///
    /// # Errors
    ///
    /// Says which does not hold.
    pub fn validate(&self) -> Result<(), String> {
        self.blocks.validate()?;
        match self.sweep {
            Some((0, _)) => Err("a sweep that has not begun".into()),
            _ => Ok(()),
        }
    }

    /// Halves some blocks; the last ones of a sweep settle the count.
    #[cold]
    fn age(&mut self) {
        let (from, mut odd) = self.sweep.unwrap_or_default();
        let to = (from + SWEEP).min(self.blocks.count());
        for index in from..to {
            for word in self.blocks.get_mut(index) {
                odd += u64::from((*word & LOW_BITS).count_ones());
                *word = *word >> 1 & HALVES;
            }
        }
        if to < self.blocks.count() {
            self.sweep = Some((to, odd));
        } else {
            // A count raised four counters; an odd counter loses half a count to rounding.
            self.counts = self.counts.saturating_sub(odd / 4) / 2;
            self.sweep = None;
        }
    }
}

/// Word and shift of a key's counters in its block.
#[inline]
fn counters(x: u64) -> [(usize, u32); 4] {
    std::array::from_fn(|quarter| {
        let counter = x >> (40 + 5 * quarter) & 31;
        (2 * quarter + (counter / 16) as usize, (counter % 16) as u32 * 4)
    })
}

/// Counter by counter, the greater of two words.
fn greater_counters(a: u64, b: u64) -> u64 {
    (0..64).step_by(4).map(|shift| (a >> shift & 0xf).max(b >> shift & 0xf) << shift).sum()
}
