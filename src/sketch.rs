//! The frequency sketch estimates how often keys were requested recently. It is a blocked count-min
//! sketch of 4-bit counters that ages.
//!
//! A 32-bit hash identifies a key. A key owns two counters in one block of 64 bytes, one in each
//! half of the block. So counting a key or reading its estimate touches one cache line. The
//! estimate is the lesser of the two counters. It is never too low, except for saturation at 15 and
//! ageing. It is too high only if other keys share both counters.
//!
//! ```text
//! hash ──seed──► x   bits 0..32: block    bits 40..52: twice 6 bits, a counter in each half
//! block (64 bytes) = 2 halves × 64 counters × 4 bits, half h = words 4h to 4h + 3
//! ```
//!
//! 1. **Seed.** The hash is spread again under a seed. So neither a weak hash, nor an attacker who
//!    knows the hash function, can choose which keys share counters.
//! 2. **Size.** The sketch has 16 counters (8 bytes) for each entry that [`Sketch::fit`] was told
//!    of. It has at least 4 KiB from 16 entries on, and 256 bytes for each of fewer entries. With 1
//!    KiB, collisions cost caches of up to 500 entries 0.2 points of hit ratio. The table grows and
//!    shrinks block by block ([`blocks`]): no call stalls, and no estimate falls.
//! 3. **Ageing.** At [`PERIOD`] counts per entry, all counters are halved, and with them the number
//!    of counts. So keys that were popular once give way. The halving is a sweep of [`SWEEP`]
//!    blocks per count. It ends within 1/128 count per entry. Only during the sweep, comparisons
//!    between keys of different blocks are a little unfair.
//! 4. **Bounds.** `increment` touches at most 1 + [`SWEEP`] blocks, `frequency` one. `fit` touches
//!    two, or eight while there are fewer than 16 entries.
//!
//! Not chosen:
//!
//! * Four counters per key, one in each quarter of the block: the same hit ratios
//!   (`docs/notes/2026-11-29-eviction.md`), and a unique insert takes 90 instructions more. After a
//!   scan, one stranger in ten seems popular, in place of one in 50. The price of two: while there
//!   is one count per entry, up to one key in 40 seems to have come twice.
//! * A period per block: busy blocks would age faster than quiet ones.
//! * Counters spread over the whole table: one more cache miss for slightly fewer collisions.

pub mod blocks;

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "whitebox/sketch_audit.rs"]
mod audit;

use crate::hash::Hash32;
use crate::prefetch::prefetch;
use blocks::{Blocks, Spread, spread};

/// Counts per entry before the first halving. This is twice TinyLFU's choice: a period of 10 loses
/// 0.2 points of hit ratio more (`docs/notes/2026-11-29-eviction.md`).
pub const PERIOD: u64 = 20;

/// Number of blocks that one count halves during a sweep.
pub const SWEEP: usize = 16;

/// The maximum value of a counter.
pub const MAX_FREQUENCY: u8 = 15;

/// Number of entries per block of 64 bytes. Half the sketch lost 0.1 points of hit ratio more, and
/// twice the sketch gained only 0.03 (`docs/notes/2026-11-29-eviction.md`).
const ENTRIES_PER_BLOCK: usize = 8;
/// The number of blocks that is enough for any number of entries below it: 4 KiB.
const AMPLE_BLOCKS: usize = 64;
/// Number of blocks for each entry of a sketch that is smaller than that. With 2, caches of 10 and
/// 16 entries lost 0.02 points of hit ratio, with 1 they lost 0.06.
const BLOCKS_PER_ENTRY: usize = 4;
/// Number of blocks of a sketch for no entries.
const MIN_BLOCKS: usize = 2;
/// A sketch for fewer entries has the period of a sketch for this many.
const MIN_ENTRIES: usize = 16;

/// The lowest bit of each of a word's sixteen counters.
const LOW_BITS: u64 = 0x1111_1111_1111_1111;
/// All bits of a word's sixteen counters except the highest bit of each.
const HALVES: u64 = 0x7777_7777_7777_7777;

/// A frequency sketch that follows the number of entries and ages.
#[derive(Debug)]
pub struct Sketch {
    pub blocks: Blocks<[u64; 8]>,
    seed: u64,
    /// The counts since the last halving, plus the rest of the earlier counts that the halving
    /// left.
    counts: u64,
    sweep: Option<Sweep>,
}

/// A sweep under way.
#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    /// The next block to halve.
    next: usize,
    /// The number of odd counters met so far.
    odd: u64,
}

/// The place of a counter in its block.
#[derive(Clone, Copy)]
struct Place {
    word: usize,
    shift: u32,
}

impl Place {
    /// The place of a key's counter in this half of its block. (The compiler would keep an array of
    /// both places in memory.)
    #[inline(always)]
    fn of(x: Spread, half: usize) -> Self {
        // Six bits name the counter: two its word, four its place there.
        let bits = x.raw() >> (40 + 6 * half);
        Self { word: 4 * half + (bits >> 4 & 3) as usize, shift: (bits << 2 & 0x3c) as u32 }
    }
}

impl Sketch {
    /// Creates a sketch of the smallest size.
    pub fn new(seed: u64) -> Self {
        let blocks_for = |entries: usize| {
            let least = (entries * BLOCKS_PER_ENTRY).clamp(MIN_BLOCKS, AMPLE_BLOCKS);
            entries.div_ceil(ENTRIES_PER_BLOCK).max(least)
        };
        let blocks = Blocks::new([0; 8], blocks_for);
        Self { blocks, seed, counts: 0, sweep: None }
    }

    /// Puts a sketch of the smallest size, without counts, in the place of this one.
    pub fn replace_by_empty(&mut self) -> Self {
        let empty = Self::new(self.seed);
        std::mem::replace(self, empty)
    }

    /// The value of `counts` that starts a halving. A halving halves `counts` as well, so the
    /// second halving comes after half as many counts as the first.
    pub fn period(&self) -> u64 {
        PERIOD * self.blocks.entries.max(MIN_ENTRIES) as u64
    }

    /// Spreads a hash under this sketch's seed, as the other methods expect it. Other code that
    /// needs a secret hash may use it too.
    #[inline]
    pub fn spread(&self, hash: Hash32) -> Spread {
        spread(hash, self.seed)
    }

    /// The estimate for a key, at most [`MAX_FREQUENCY`].
    #[inline]
    pub fn frequency(&self, x: Spread) -> u8 {
        let block = self.blocks.of(x);
        let count = |half| {
            let Place { word, shift } = Place::of(x, half);
            block[word] >> shift & 0xf
        };
        count(0).min(count(1)) as u8
    }

    /// Prefetches the block of a key.
    #[inline]
    pub fn prefetch(&self, x: Spread) {
        prefetch(self.blocks.of(x));
    }

    /// Counts a key once, and does a step of the sweep if ageing is due.
    #[inline]
    pub fn increment(&mut self, x: Spread) {
        let block = self.blocks.of_mut(x);
        for half in 0..2 {
            let Place { word, shift } = Place::of(x, half);
            let room = u64::from(block[word] >> shift & 0xf != u64::from(MAX_FREQUENCY));
            block[word] += room << shift;
        }
        self.counts += 1;
        if self.sweep.is_some() || self.counts >= self.period() {
            self.age();
        }
    }

    /// Adjusts the size to the number of entries, by the blocks of one entry. Must be called
    /// whenever that number changes by one.
    #[inline]
    pub fn fit(&mut self, entries: usize) {
        self.blocks.fit(entries, |kept, given_up| {
            for (kept, given_up) in kept.iter_mut().zip(given_up) {
                *kept = greater_counters(*kept, given_up);
            }
        });
    }

    /// Halves the next blocks. The last step of a sweep corrects `counts`.
    #[cold]
    fn age(&mut self) {
        let Sweep { next: from, mut odd } = self.sweep.unwrap_or_default();
        let to = (from + SWEEP).min(self.blocks.count());
        for index in from..to {
            for word in self.blocks.get_mut(index) {
                odd += u64::from((*word & LOW_BITS).count_ones());
                *word = *word >> 1 & HALVES;
            }
        }
        if to < self.blocks.count() {
            self.sweep = Some(Sweep { next: to, odd });
        } else {
            // One count raised two counters. An odd counter loses half a count to rounding.
            self.counts = self.counts.saturating_sub(odd / 2) / 2;
            self.sweep = None;
        }
    }
}

/// The greater of the two counters at each position of two words.
fn greater_counters(a: u64, b: u64) -> u64 {
    (0..64).step_by(4).map(|shift| (a >> shift & 0xf).max(b >> shift & 0xf) << shift).sum()
}
