//! A table: home buckets by the top bits of the hash, and the state of its migration.

use std::ops::Range;

use crate::epoch::Guard;
use crossbeam_utils::CachePadded;

use super::bucket::Bucket;
use super::memory::{Buckets, TableLink};
use crate::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use crate::sync::seeded;

/// The caller's nodes, as far as growing needs them.
pub trait HashOf {
    /// The hash under which an id was inserted. Asked under a bucket's lock, of ids that are in the
    /// index: a load or two, nothing that waits or panics.
    fn hash(&self, id: u32) -> u32;
}

/// A table smaller than this would save nothing. The model checker starts from one bucket.
const MIN_BITS: u32 = if cfg!(cortado_loom) { 0 } else { 4 };
/// Enough for every id (they end at 2^31) at [`LOAD`]; on a small machine, a quarter of its memory.
const MAX_BITS: u32 = if usize::BITS >= 64 { 28 } else { 24 };

/// Entries per home bucket, on average, above which a table is too small. Hashes being random, one
/// bucket in ten then needs an overflow bucket, and it holds one entry in forty.
const LOAD: usize = 7;

/// Home buckets, and the link to the table they are moving to.
#[derive(Debug)]
pub struct Table {
    buckets: Buckets,
    shift: u32,
    next: TableLink,
    /// Buckets that helpers have claimed, from the first on; may exceed their number.
    claimed: CachePadded<AtomicUsize>,
    /// Buckets that have moved.
    moved: CachePadded<AtomicUsize>,
}

impl Table {
    fn new(bits: u32) -> Self {
        Self {
            buckets: Buckets::new(1 << bits),
            shift: 32 - bits,
            next: TableLink::default(),
            claimed: CachePadded::new(AtomicUsize::new(0)),
            moved: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// A table that has room for so many entries.
    pub fn for_entries(entries: usize) -> Self {
        let buckets = entries.div_ceil(LOAD).max(1);
        let bits = usize::BITS - (buckets - 1).leading_zeros();
        Self::new(bits.clamp(MIN_BITS, MAX_BITS))
    }

    /// The table to grow into.
    pub fn doubled(&self) -> Self {
        Self::new(33 - self.shift)
    }

    /// Whether so many entries ask for a bigger table, and there can be one.
    pub fn is_too_small_for(&self, entries: usize) -> bool {
        entries > self.buckets.len() * LOAD && self.shift > 32 - MAX_BITS
    }

    #[inline]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// How far a hash is shifted to get the position of its home bucket; 32 at most.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Where the home bucket of a hash is.
    #[inline]
    pub fn position(&self, hash: u32) -> usize {
        (u64::from(hash) >> self.shift) as usize
    }

    /// The home bucket of a hash.
    #[inline]
    pub fn home(&self, hash: u32) -> &Bucket {
        &self.buckets[self.position(hash)]
    }

    /// The first hash after those of a bucket.
    pub fn end_of(&self, position: usize) -> u64 {
        (position as u64 + 1) << self.shift
    }

    #[inline]
    pub fn next(&self) -> &TableLink {
        &self.next
    }

    pub fn next_mut(&mut self) -> &mut TableLink {
        &mut self.next
    }

    /// The table in which the entries of a moved bucket are.
    pub fn successor<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        self.next.get(guard).expect("a bucket moves when there is a table to move to")
    }

    /// Takes the next buckets to move. Relaxed: each bucket's lock orders what is done to it.
    pub fn claim(&self, count: usize) -> Range<usize> {
        let len = self.buckets.len();
        let count = count.min(len);
        if count == 0 || !self.has_unclaimed() {
            return 0..0;
        }
        let first = self.claimed.fetch_add(count, Relaxed).min(len);
        first..(first + count).min(len)
    }

    /// Whether there are buckets that no helper has claimed.
    pub fn has_unclaimed(&self) -> bool {
        self.claimed.load(Relaxed) < self.buckets.len()
    }

    /// Counts buckets that were moved; true for the caller that completes the table.
    ///
    /// Release pairs with the acquire of the helper that comes last: through it, whoever is led to
    /// the new table by `current` sees what every helper has put there.
    pub fn finish(&self, count: usize) -> bool {
        let order = if seeded("index_finish_relaxed") { Relaxed } else { AcqRel };
        self.moved.fetch_add(count, order) + count == self.buckets.len()
    }

    /// Gives some of the memory back to the system, from the end of a table in which nobody is any more; false
    /// if that leaves nothing to be given back in pieces.
    pub fn give_back(&mut self, bytes: usize) -> bool {
        self.buckets.give_back(bytes)
    }

    /// Whether all buckets have moved. Relaxed: asked by the one thread that drops the table.
    pub fn is_finished(&self) -> bool {
        self.moved.load(Relaxed) == self.buckets.len()
    }
}
