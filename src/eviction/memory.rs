//! The memory of leavers: which keys were evicted a short while ago, and from where.
//!
//! A rejected key that is inserted again within n rejections would have been a hit in a window that
//! is n entries larger. A victim that is inserted again within n evictions from the main region
//! would have been a hit in a main region that is n entries larger. So each return tells what one
//! more entry of room is worth, in the window or in the main region.
//!
//! ```text
//! line (32 words of 16 bits) = two cursors of 4 bits | 15 fingerprints of rejected keys | 16 of victims
//! ```
//!
//! 1. A leaver goes to the line of its key, to the place under the cursor of its kind. It
//!    overwrites the oldest leaver of its kind there. There is one line per 62 entries, which takes
//!    1.03 bytes per entry. So the memory of each kind lasts for a quarter as many leavers as there
//!    are entries. An eighth does equally well, a half loses 0.1 points of hit ratio more
//!    (`docs/notes/2026-11-29-eviction.md`).
//! 2. Below 64 entries, a line uses one place of each kind for every four entries. So a small
//!    cache, too, remembers a quarter as many leavers as it has entries.
//! 3. A remembered key is removed from the memory when it comes back. A new key is taken for
//!    another one once in 2100 times: 31 fingerprints of 65,280.

use crate::prefetch::prefetch;
use crate::sketch::blocks::{Blocks, Spread};

/// Number of entries per line. Rule 1 of the module has the measurement.
const ENTRIES_PER_LINE: usize = 62;
/// Number of entries for each place in use. Rule 2 of the module explains this.
const ENTRIES_PER_PLACE: usize = 4;
/// Number of places for rejected keys. They follow the cursors; the places of victims are after
/// them.
const REJECTED: usize = 15;
/// Number of places for victims.
const VICTIMS: usize = 16;
/// The content of an empty place.
const NONE: u16 = 0;

type Line = [u16; 1 + REJECTED + VICTIMS];

/// How a key left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaver {
    /// As a candidate: it lost its duel, or the main region was empty.
    Rejected,
    /// From the main region.
    Victim,
}

pub struct Memory {
    pub(super) lines: Blocks<Line>,
}

impl Memory {
    pub fn new() -> Self {
        let lines_for = |entries: usize| entries.div_ceil(ENTRIES_PER_LINE).max(1);
        Self { lines: Blocks::new([NONE; 1 + REJECTED + VICTIMS], lines_for) }
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

    /// Prefetches the line that [`put`](Self::put) or [`take`](Self::take) of a key touches.
    #[inline]
    pub fn prefetch(&self, x: Spread) {
        prefetch(self.lines.of(x));
    }

    /// Remembers a key.
    #[inline]
    pub fn put(&mut self, x: Spread, leaver: Leaver) {
        let (first, places, shift) = match leaver {
            Leaver::Rejected => (1, REJECTED, 0),
            Leaver::Victim => (1 + REJECTED, VICTIMS, 4),
        };
        let in_use = (self.lines.entries / ENTRIES_PER_PLACE).clamp(1, places);
        let line = self.lines.of_mut(x);
        let cursor = usize::from(line[0] >> shift & 0xf).min(places - 1);
        line[first + cursor] = fingerprint(x);
        let next = if cursor + 1 >= in_use { 0 } else { cursor as u16 + 1 };
        line[0] = line[0] & !(0xf << shift) | next << shift;
    }

    /// Forgets a key. Returns how it left, if that was a short while ago.
    #[inline]
    pub fn take(&mut self, x: Spread) -> Option<Leaver> {
        let wanted = fingerprint(x);
        let line = self.lines.of_mut(x);
        // This compares all places: vector instructions do that faster than a search with an early
        // exit.
        let is_known = line.iter().fold(false, |known, print| known | (*print == wanted));
        is_known.then(|| forget(line, wanted))
    }
}

/// Clears the places of a fingerprint, which is in the line. A key that left in both ways counts as
/// rejected.
#[cold]
fn forget(line: &mut Line, wanted: u16) -> Leaver {
    let is_rejected = line[..=REJECTED].contains(&wanted);
    line.iter_mut().filter(|print| **print == wanted).for_each(|print| *print = NONE);
    if is_rejected { Leaver::Rejected } else { Leaver::Victim }
}

/// The upper bits of `x`, changed where they would be an empty place or a line's cursors. The index
/// of the line comes from the lower bits.
#[inline]
fn fingerprint(x: Spread) -> u16 {
    let bits = (x.raw() >> 48) as u16;
    bits | u16::from(bits < 0x100) << 8
}
