//! The memory of rejections: a key that comes back soon after its rejection may enter the main
//! region.
//!
//! A newcomer has been requested once. It can never beat the counts that the residents have
//! collected over a long time. A key that comes back before about as many rejections as there are
//! entries have passed would have been a hit in a slightly larger cache. So it deserves a place.
//! Without this memory, the first entries of a large cache stay for too long. That costs 1 to 2
//! points of hit ratio in caches of 10 % and 20 % of the keys.
//!
//! ```text
//! line (64 bytes) = a cursor of 16 bits | 31 fingerprints of 16 bits (0: empty place)
//! ```
//!
//! 1. A rejection goes to the line of its key, to the place under the cursor. It overwrites the
//!    rejection made 31 rejections earlier in that line. So a line remembers its last 31
//!    rejections. There is one line per 36 entries, which takes 1.8 bytes per entry. With one line
//!    per 31 entries, loops a little longer than the memory (`glimpse` at 506 entries) lost 0.6
//!    points more.
//! 2. A cache with fewer entries than a line has places uses as many places of a line as it has
//!    entries.
//! 3. A remembered key is removed from the memory when it comes back. One key in 2100 is recalled
//!    by mistake, because another key has its fingerprint.
//!
//! Not chosen: a time beside each fingerprint, to tell its age. The lines differ by a sixth in the
//! time that they cover. This costs some 0.07 points in caches of a fifth of the keys. Times need
//! twice the memory and a search for the oldest one.

use crate::prefetch::prefetch;
use crate::sketch::blocks::{Blocks, Spread};

/// Number of places in a line. The first number of the line is the cursor, which goes from 1 to
/// `PLACES`.
const PLACES: usize = 31;
/// Number of entries per line. Rule 1 of the module has the measurement.
const ENTRIES_PER_LINE: usize = 36;
/// The content of an empty place.
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
        let lines_for = |entries: usize| entries.div_ceil(ENTRIES_PER_LINE).max(1);
        Self { lines: Blocks::new(empty, lines_for) }
    }

    /// Adjusts the size to the number of entries. Must be called whenever that number changes by
    /// one.
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

    /// Prefetches the line that [`put`](Self::put) or [`remove`](Self::remove) of a key touches.
    #[inline]
    pub fn prefetch(&self, x: Spread) {
        prefetch(self.lines.of(x));
    }

    /// Remembers a rejected key.
    pub fn put(&mut self, x: Spread) {
        let entries = self.lines.entries;
        let line = self.lines.of_mut(x);
        let cursor = usize::from(line[0]) % (PLACES + 1);
        line[cursor] = fingerprint(x);
        line[0] = if cursor >= entries.min(PLACES) { 1 } else { cursor as u16 + 1 };
    }

    /// Forgets a key. Returns whether it was rejected recently.
    pub fn remove(&mut self, x: Spread) -> bool {
        let wanted = fingerprint(x);
        let line = self.lines.of_mut(x);
        // This compares all places: vector instructions do that faster than a search with an early
        // exit.
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
    /// Describes the first violation.
    pub fn validate(&self) -> Result<(), String> {
        self.lines.validate().map_err(|error| format!("ghost: {error}"))
    }
}

/// The upper bits of `x`, raised to be greater than any cursor. The index of the line comes from
/// the lower bits.
#[inline]
fn fingerprint(x: Spread) -> u16 {
    ((x.raw() >> 48) as u16).max(PLACES as u16 + 1)
}
