//! Keys that were turned away at the main region's door: who comes back soon may come in.
//!
//! A newcomer is asked for once, and can never beat what the residents have counted over a long time;
//! if it comes back before as many rejections as there are entries have passed, it would have been a hit
//! in a larger cache, and is worth a place. Without this memory a large cache is ruled by its first
//! comers (1 to 2 points of hit ratio at 10 and 20 % of the keys).
//!
//! ```text
//! slot (u32) = 20 bits of fingerprint, never 0 | 12 bits of clock        16 slots in a cache line
//! ```
//!
//! 1. A rejection replaces the oldest slot of the key's block; 4 bytes for each entry, at least 64.
//! 2. The clock advances once in entries/1024 rejections (at least one) and wraps at 4096, after four
//!    times as many rejections as there are slots: what is that old was replaced long before.
//! 3. A recollection is used up by the hit on it. A false one (16 in 2^20) costs nothing worth naming.

use crate::prefetch::prefetch;
use crate::sketch::blocks::{Blocks, spread};

const SLOTS: usize = 16;
/// Ticks of the clock for as many rejections as there are entries, in a large cache.
const TICKS: usize = 1024;
const CLOCK_BITS: u32 = 12;
const CLOCK: u32 = (1 << CLOCK_BITS) - 1;
const EMPTY: u32 = 0;

#[derive(Debug)]
pub struct Ghost {
    blocks: Blocks<[u32; SLOTS]>,
    seed: u64,
    now: u32,
    /// [`TICKS`] times the rejections since the clock's last tick, and what that was late.
    since_tick: usize,
}

impl Ghost {
    pub fn new(seed: u64) -> Self {
        Self { blocks: Blocks::new([EMPTY; SLOTS], SLOTS, 1), seed, now: 0, since_tick: 0 }
    }

    /// Follows the number of entries; to be called whenever it changes by one.
    #[inline]
    pub fn fit(&mut self, entries: usize) {
        self.blocks.fit(entries, |kept, given_up| {
            for (kept, given_up) in kept.iter_mut().zip(given_up) {
                if *kept == EMPTY {
                    *kept = given_up;
                }
            }
        });
    }

    /// Begins to load what [`put`](Self::put) or [`take`](Self::take) of a key touches.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        prefetch(self.blocks.get(self.blocks.index(spread(hash, self.seed))));
    }

    /// Remembers a rejected key.
    pub fn put(&mut self, hash: u32) {
        let x = spread(hash, self.seed);
        let (now, index) = (self.now, self.blocks.index(x));
        let block = self.blocks.get_mut(index);
        // The slot's number in the lower bits of its age: one maximum, no branch.
        let mut oldest = 0;
        for (slot, &held) in (0..).zip(block.iter()) {
            oldest = oldest.max(age(held, now) * SLOTS as u32 + slot);
        }
        block[oldest as usize % SLOTS] = fingerprint(x) | now;
        self.tick();
    }

    /// Forgets a key, and says whether it was rejected lately.
    pub fn take(&mut self, hash: u32) -> bool {
        let x = spread(hash, self.seed);
        let reach = self.blocks.entries().min(TICKS) as u32;
        let (now, index) = (self.now, self.blocks.index(x));
        let block = self.blocks.get_mut(index);
        let Some(slot) = block.iter_mut().find(|slot| **slot & !CLOCK == fingerprint(x)) else {
            return false;
        };
        let recent = age(*slot, now) <= reach;
        *slot = EMPTY;
        recent
    }

    /// Checks the table.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn validate(&self) -> Result<(), String> {
        self.blocks.validate().map_err(|error| format!("ghost: {error}"))
    }

    fn tick(&mut self) {
        let tick = self.blocks.entries().max(TICKS);
        self.since_tick += TICKS;
        if self.since_tick >= tick {
            self.since_tick -= tick;
            self.now = (self.now + 1) & CLOCK;
        }
    }
}

/// Ticks since a slot was filled; an empty one is older than any.
#[inline]
fn age(slot: u32, now: u32) -> u32 {
    if slot == EMPTY { CLOCK + 1 } else { now.wrapping_sub(slot) & CLOCK }
}

/// The upper bits of a slot for a key; the blocks' index uses the other end of `x`.
#[inline]
fn fingerprint(x: u64) -> u32 {
    let bits = (x >> 44) as u32;
    bits.max(1) << CLOCK_BITS
}
