//! Keys that were turned away at the main region's door: who comes back soon may come in.
//!
//! A newcomer is asked for once, and can never beat what the residents have counted over a long
//! time; if it comes back before about as many rejections as there are entries have passed, it
//! would have been a hit in a cache little larger, and is worth a place. Without this memory a
//! large cache is ruled by its first comers (1 to 2 points of hit ratio at 10 and 20 % of the
//! keys).
//!
//! ```text
//! line (64 bytes) = a cursor | 31 fingerprints of 16 bits, 0: none
//! ```
//!
//! 1. A rejection goes to the key's line, into the place of the one before 31 others there: where
//!    the cursor is. So a line remembers its last 31. There is one for 36 entries, 1.8 bytes for
//!    each: with one for 31, loops a little longer than a memory (`glimpse` at 506 entries) lost
//!    0.6 points more.
//! 2. A cache of fewer entries than a line has places uses as many of them as it has entries.
//! 3. A recollection is used up by the hit on it. One key in 2100 is recalled for another's sake.
//!
//! Not chosen: times beside the fingerprints, to tell how old each is. The lines' lengths in time
//! differ by a sixth, which costs some 0.07 points in caches of a fifth of the keys; times need
//! twice the memory and a search for the oldest.

use crate::prefetch::prefetch;
use crate::sketch::blocks::Blocks;

/// Places in a line; the first number of the line is the cursor, from 1 to this.
const PLACES: usize = 31;
/// Entries to a line.
const ENTRIES_PER_LINE: usize = 36;
const NONE: u16 = 0;

type Line = [u16; PLACES + 1];

#[derive(Debug)]
pub struct Ghost {
    lines: Blocks<Line>,
}

impl Ghost {
    pub fn new() -> Self {
        let mut empty = [NONE; PLACES + 1];
        empty[0] = 1;
        Self { lines: Blocks::new(empty, ENTRIES_PER_LINE, 1) }
    }

    /// Follows the number of entries; to be called whenever it changes by one.
    #[inline]
    pub fn fit(&mut self, entries: usize) {
        self.lines.fit(entries, |kept, given_up| {
            for (kept, given_up) in kept.iter_mut().zip(given_up) {
                if *kept == NONE {
                    *kept = given_up;
                }
            }
        });
    }

    /// Begins to load what [`put`](Self::put) or [`take`](Self::take) of a key touches.
    #[inline]
    pub fn prefetch(&self, x: u64) {
        prefetch(self.lines.get(self.lines.index(x)));
    }

    /// Remembers a rejected key.
    pub fn put(&mut self, x: u64) {
        let (index, entries) = (self.lines.index(x), self.lines.entries());
        let line = self.lines.get_mut(index);
        let cursor = usize::from(line[0]) % (PLACES + 1);
        line[cursor] = fingerprint(x);
        line[0] = if cursor >= entries.min(PLACES) { 1 } else { cursor as u16 + 1 };
    }

    /// Forgets a key, and says whether it was rejected lately.
    pub fn take(&mut self, x: u64) -> bool {
        let (index, wanted) = (self.lines.index(x), fingerprint(x));
        let line = self.lines.get_mut(index);
        // All are compared: vectors do that faster than a search that ends when it can.
        let known = line.iter().fold(false, |known, print| known | (*print == wanted));
        if known {
            line.iter_mut().filter(|print| **print == wanted).for_each(|print| *print = NONE);
        }
        known
    }

    /// Checks the table.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn validate(&self) -> Result<(), String> {
        self.lines.validate().map_err(|error| format!("ghost: {error}"))
    }
}

/// The upper bits of `x`, greater than any cursor; a line's index uses the other end.
#[inline]
fn fingerprint(x: u64) -> u16 {
    ((x >> 48) as u16).max(PLACES as u16 + 1)
}
