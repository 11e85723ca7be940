//! A table of cache lines that follows the number of entries one line at a time: linear hashing.
//!
//! ```text
//! blocks   0 1 2 3 4 5         n = 6, mask = 7: x & mask is the block; if >= n, x & mask >> 1 is
//!              └───┘ └ next: block 6, a copy of block 2; it takes over the keys with bit 2 set
//! ```
//!
//! 1. A new block starts as a copy of the block whose keys it takes over. A block that is given up
//!    is merged into the block that takes its keys back. So the knowledge about a key is kept.
//! 2. A call of [`Blocks::fit`] adds or gives up the blocks of one entry: one or none in a large
//!    table. It allocates at most one chunk of [`CHUNK`] blocks (64 KiB). While the table is
//!    smaller than a chunk, it allocates a quarter more than the present memory.
//! 3. The price: blocks that are not split yet hold up to twice as many keys as the others.
//! 4. The memory of blocks that are given up is kept for later blocks. Freeing 64 KiB is expensive
//!    with some allocators. glibc's then coalesces all memory that was freed since it last did so:
//!    14 ms for a million values that have just expired.
//! 5. `count` is at least 1. The chunks hold `count` blocks, and every chunk in use but the last is
//!    full. `mask + 1` is `count` rounded up to a power of two, so `mask >> 1` is less than
//!    `count`. The index of a key's block is masked with `mask`. If the result is not less than
//!    `count`, it is masked with `mask >> 1`. So it is always less than `count` and needs no check.
//!    A unique insert looks up nine blocks; without the checks it takes 2 % fewer instructions.
//!
//! Not chosen: doubling a flat table. It copies everything in one call, and leaves a quarter of its
//! memory unused on average.

#![expect(unsafe_code, reason = "the index of a key's block is known to be within the table")]

use crate::hash::Hash32;

/// Number of blocks in one allocation: 64 KiB.
pub(super) const CHUNK: usize = 1024;

/// One cache line of a table.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Block<T>(pub T);

/// The table. `T` should fill a cache line.
#[derive(Debug)]
pub struct Blocks<T> {
    /// Full chunks of [`CHUNK`] blocks. The last chunk in use may be shorter, and the chunks after
    /// it are empty.
    pub(super) chunks: Vec<Vec<Block<T>>>,
    count: u32,
    /// `count` rounded up to a power of two, minus one.
    pub(super) mask: u32,
    /// The number of entries that the size is for: the recent maximum.
    pub entries: usize,
    /// The number of blocks for a number of entries.
    pub(super) size_for: fn(usize) -> usize,
}

impl<T: Copy> Blocks<T> {
    /// Creates a table for no entries. `size_for` gives the number of blocks for a number of
    /// entries. It never falls when the entries become more.
    pub fn new(empty: T, size_for: fn(usize) -> usize) -> Self {
        let count = size_for(0);
        assert!((1..=CHUNK).contains(&count), "rule 5");
        let chunks = vec![vec![Block(empty); count]];
        let mut blocks = Self { chunks, count: 0, mask: 0, entries: 0, size_for };
        blocks.resized(count);
        blocks
    }

    /// The number of blocks.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The memory of all blocks.
    pub fn bytes(&self) -> usize {
        self.count() * size_of::<Block<T>>()
    }

    /// The block of `x`. Only the low bits of `x` matter.
    #[inline]
    pub fn of(&self, x: Spread) -> &T {
        let index = self.index(x);
        // SAFETY: by rule 5 the index is less than the number of blocks, and the block with that
        // index is in this chunk and at this place.
        unsafe { &self.chunks.get_unchecked(index / CHUNK).get_unchecked(index % CHUNK).0 }
    }

    #[inline]
    pub fn of_mut(&mut self, x: Spread) -> &mut T {
        let index = self.index(x);
        // SAFETY: as above.
        unsafe {
            let chunk = self.chunks.get_unchecked_mut(index / CHUNK);
            &mut chunk.get_unchecked_mut(index % CHUNK).0
        }
    }

    #[inline]
    fn index(&self, x: Spread) -> usize {
        let index = x.0 as u32 & self.mask;
        // This is a shift instead of a branch, which the processor could not predict.
        let index = index & self.mask >> u32::from(index >= self.count);
        debug_assert!(index < self.count, "block {index} of {}", self.count);
        index as usize
    }

    fn get(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK].0
    }

    /// The block with this index.
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK].0
    }

    /// Adjusts the size to the number of entries. Must be called whenever that number changes by
    /// one.
    ///
    /// The table grows at once. It shrinks only when the number is below a quarter of the recent
    /// maximum, and then gradually. So a number that goes up and down costs nothing.
    /// `merge(kept, given_up)` merges a block that is given up into the block that is kept.
    #[inline]
    pub fn fit(&mut self, entries: usize, merge: impl FnMut(&mut T, T)) {
        if entries > self.entries || entries < self.entries / 4 {
            self.follow(entries, merge);
        }
    }

    /// Grows or shrinks by one entry.
    #[cold]
    fn follow(&mut self, entries: usize, mut merge: impl FnMut(&mut T, T)) {
        if entries > self.entries {
            self.entries += 1;
        } else {
            self.entries -= 1;
        }
        let wanted = (self.size_for)(self.entries).max(1);
        while wanted > self.count() {
            self.split();
        }
        while wanted < self.count() {
            // The last block's keys go back to its elder.
            let last = self.count() - 1;
            let given_up = *self.get(last);
            self.resized(last);
            self.chunks[last / CHUNK].pop();
            merge(self.get_mut(Self::elder(last)), given_up);
        }
    }

    /// The older block from which `index` takes over keys, and to which `index` gives them back.
    fn elder(index: usize) -> usize {
        index & !(1 << index.ilog2())
    }

    fn split(&mut self) {
        let new = self.count();
        let copy = Block(*self.get(Self::elder(new)));
        if new / CHUNK == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunk = &mut self.chunks[new / CHUNK];
        if chunk.len() == chunk.capacity() {
            // Not twice the memory, most of which a table that has found its size would never use.
            chunk.reserve_exact((chunk.len() / 4).max(4));
        }
        chunk.push(copy);
        self.resized(new + 1);
    }

    fn resized(&mut self, count: usize) {
        // `count` fits: node ids have 32 bits, and except in the smallest tables there are more
        // entries than blocks.
        self.count = count as u32;
        self.mask = self.count.next_power_of_two() - 1;
    }
}

/// A hash that was [spread] to 64 bits. It stands for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Spread(u64);

impl Spread {
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// Spreads a hash to 64 bits under a seed. Different hashes give different values, and every bit
/// depends on the hash and the seed.
#[inline]
pub fn spread(hash: Hash32, seed: u64) -> Spread {
    let mut x = (u64::from(hash.raw()) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    Spread(x ^ x >> 32)
}
