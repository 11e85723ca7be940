//! A table of cache lines that follows the number of entries one line at a time: linear hashing.
//!
//! ```text
//! blocks   0 1 2 3 4 5         n = 6, mask = 7: x & mask names a block, or, from n on, x & mask >> 1
//!              └───┘ └ next: block 6, a copy of block 2, whose keys with bit 2 set it takes over
//! ```
//!
//! 1. A new block starts as a copy of the one whose keys it takes over; a block given up is merged
//!    into the one that takes its keys back. What was known of a key stays known.
//! 2. A call of [`Blocks::fit`] adds or gives up at most one block, and allocates at most one chunk
//!    of [`CHUNK`] blocks (64 KiB), or, below that size, twice what there was.
//! 3. The price: blocks not yet split bear up to twice the keys of the others.
//! 4. Memory of blocks given up is kept for those that come. Freeing 64 KiB is not a small thing to
//!    ask of every allocator: glibc's then puts together all that was freed since it last did so,
//!    14 ms for a million values that have just expired.
//!
//! Not chosen: doubling a flat table, which copies everything in one call and leaves a quarter of
//! its memory unused on average.

/// Blocks in one allocation.
const CHUNK: usize = 1024;

/// One cache line of a table.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Block<T>(pub T);

/// The table. `T` should fill a cache line.
#[derive(Debug)]
pub struct Blocks<T> {
    /// Full chunks of [`CHUNK`] blocks; the last one in use may be shorter, and those after it are
    /// empty.
    chunks: Vec<Vec<Block<T>>>,
    count: usize,
    /// `count` rounded up to a power of two, less one.
    mask: usize,
    /// What `fit` aims at: the greatest number of entries lately.
    entries: usize,
    entries_per_block: usize,
    min_count: usize,
}

impl<T: Copy> Blocks<T> {
    /// A table of `min_count` blocks (a power of two), its smallest size.
    pub fn new(empty: T, entries_per_block: usize, min_count: usize) -> Self {
        debug_assert!(min_count.is_power_of_two() && min_count <= CHUNK);
        Self {
            chunks: vec![vec![Block(empty); min_count]],
            count: min_count,
            mask: min_count - 1,
            entries: 0,
            entries_per_block,
            min_count,
        }
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of entries that the size follows.
    #[inline]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The block that bears `x`. Its low bits count.
    #[inline]
    pub fn index(&self, x: u64) -> usize {
        let index = x as usize & self.mask;
        // By a shift, not by a branch: nobody could foretell it.
        index & self.mask >> u32::from(index >= self.count)
    }

    #[inline]
    pub fn get(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK].0
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK].0
    }

    /// Follows the number of entries; to be called whenever it changes by one.
    ///
    /// Up at once; down only from below a quarter, and then gradually, so that a number going up
    /// and down costs nothing. `merge(kept, given_up)` joins two blocks.
    #[inline]
    pub fn fit(&mut self, entries: usize, merge: impl FnOnce(&mut T, T)) {
        if entries > self.entries || entries < self.entries / 4 {
            self.follow(entries, merge);
        }
    }

    /// Takes a step up or down.
    #[cold]
    fn follow(&mut self, entries: usize, merge: impl FnOnce(&mut T, T)) {
        if entries > self.entries {
            self.entries += 1;
        } else {
            self.entries -= 1;
        }
        let wanted = self.entries.div_ceil(self.entries_per_block).max(self.min_count);
        if wanted > self.count {
            self.split();
        } else if wanted < self.count {
            let (given_up, target) = self.pop();
            merge(self.get_mut(target), given_up);
        }
    }

    /// Recounts the blocks.
    ///
    /// # Errors
    ///
    /// Says what does not add up.
    pub fn validate(&self) -> Result<(), String> {
        let held: usize = self.chunks.iter().map(Vec::len).sum();
        if held != self.count || self.mask != self.count.next_power_of_two() - 1 {
            return Err(format!("{held} blocks, not {} under {:#x}", self.count, self.mask));
        }
        let lens = self.chunks.iter().map(Vec::len).enumerate();
        for (number, len) in lens {
            if len != self.count.saturating_sub(number * CHUNK).min(CHUNK) {
                return Err(format!("{len} blocks in chunk {number} of {} in all", self.count));
            }
        }
        let wanted = self.entries.div_ceil(self.entries_per_block).max(self.min_count);
        if self.count != wanted {
            return Err(format!("{} blocks for {} entries", self.count, self.entries));
        }
        Ok(())
    }

    /// The older block whose keys `index` shares or takes over.
    fn elder(index: usize) -> usize {
        index & !(1 << index.ilog2())
    }

    fn split(&mut self) {
        let new = self.count;
        let copy = Block(*self.get(Self::elder(new)));
        if new / CHUNK == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[new / CHUNK].push(copy);
        self.resized(new + 1);
    }

    /// Takes the last block out, and names the one that bears its keys from now on.
    fn pop(&mut self) -> (T, usize) {
        let last = self.count - 1;
        let given_up = *self.get(last);
        self.chunks[last / CHUNK].pop();
        self.resized(last);
        (given_up, Self::elder(last))
    }

    fn resized(&mut self, count: usize) {
        self.count = count;
        self.mask = count.next_power_of_two() - 1;
    }
}

/// A 64-bit value that is another for each hash, every bit of it depending on hash and seed.
#[inline]
pub fn spread(hash: u32, seed: u64) -> u64 {
    let mut x = (u64::from(hash) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}
