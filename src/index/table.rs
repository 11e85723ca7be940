//! A table: home buckets by the top bits of the hash, and the state of its migration.

use crate::epoch::Guard;
use crossbeam_utils::CachePadded;

use super::bucket::Bucket;
use super::memory::{Buckets, TableLink};
use crate::sync::Patience;
use crate::sync::{Mutex, MutexGuard};

/// The caller's nodes, as far as moving and walking need them.
pub trait HashOf {
    /// The hash under which an id was inserted. Asked of ids that are in the index, or were after
    /// the asking thread had pinned itself. A bucket may be locked: a load or two, nothing that
    /// waits or panics.
    fn hash(&self, id: u32) -> u32;
}

/// A table smaller than this would save nothing. The model checker starts from one bucket.
const MIN_BITS: u32 = if cfg!(cortado_loom) { 0 } else { 4 };
/// Enough for every id (they end at 2^31) at [`LOAD`]; on a small machine, a quarter of its memory.
const MAX_BITS: u32 = if usize::BITS >= 64 { 28 } else { 24 };

/// Entries per home bucket, on average, above which a table is too small. Hashes being random, one
/// bucket in ten then needs an overflow bucket, and it holds one entry in forty.
pub const LOAD: usize = 7;

/// A table shrinks when this is more than its room divided by its entries: one half as large would
/// be filled to an eighth.
const SPARSE: usize = 16;
/// A table that is shrunk to has room for so many times its entries. It grows when it has four
/// times as many, and shrinks again when it has a quarter: neither follows the other soon.
const SLACK: usize = 4;
/// Shrinking once makes a table smaller by two to this at most. While buckets move, the next table
/// takes the new entries of those that have moved: it must not be so small that the moving cannot
/// keep up. Going from 2^20 buckets to 2^4 moves 7 % more buckets in such steps than in one.
const MAX_STEP: u32 = 4;

/// Home buckets, and the link to the table they are moving to.
#[derive(Debug)]
pub struct Table {
    buckets: Buckets,
    shift: u32,
    next: TableLink,
    moving: CachePadded<Mutex<Moving>>,
}

/// How far the buckets of a table have moved. For one helper at a time.
#[derive(Debug, Default)]
pub struct Moving {
    /// Buckets that have been taken up, from the first on.
    claimed: usize,
    /// Those of them that somebody had locked, and a helper did not wait for.
    pub held: Vec<usize>,
    /// Buckets that have moved.
    pub moved: usize,
}

impl Moving {
    /// Whether there are buckets to be taken up. If there are none, and not all have moved, the
    /// caller's nodes have panicked.
    pub fn has_more(&self, len: usize) -> bool {
        self.claimed < len || !self.held.is_empty()
    }

    /// The next bucket to be moved, of so many.
    pub fn claim(&mut self, len: usize) -> Option<usize> {
        let position = self.claimed;
        (position < len).then(|| {
            self.claimed += 1;
            position
        })
    }
}

/// The size of a table that has room for so many entries.
pub fn bits_for(entries: usize) -> u32 {
    let buckets = entries.div_ceil(LOAD).max(1);
    let bits = usize::BITS - (buckets - 1).leading_zeros();
    bits.clamp(MIN_BITS, MAX_BITS)
}

impl Table {
    /// A table of 2^`bits` buckets.
    pub fn new(bits: u32) -> Self {
        Self {
            buckets: Buckets::new(1 << bits),
            shift: 32 - bits,
            next: TableLink::default(),
            moving: CachePadded::new(Mutex::new(Moving::default())),
        }
    }

    /// The size of the table to move to, if so many entries are too many or too few for this one.
    pub fn bits_wanted(&self, entries: usize, least: u32) -> Option<u32> {
        let bits = 32 - self.shift;
        let room = self.buckets.len() * LOAD;
        if entries > room {
            return (bits < MAX_BITS).then_some(bits + 1);
        }
        let fitting = || bits_for(entries * SLACK).max(least).max(bits.saturating_sub(MAX_STEP));
        (bits > least && entries <= room / SPARSE).then(fitting)
    }

    /// Whether several buckets of this table become one of the next.
    pub fn merges_into(&self, next: &Self) -> bool {
        next.shift > self.shift
    }

    /// How many buckets of this table become one or two of the next.
    pub fn sources_of(&self, next: &Self) -> usize {
        1 << next.shift.saturating_sub(self.shift)
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

    /// Whether a bucket was left because another thread held it.
    pub fn is_held_up(&self) -> bool {
        self.moving(Patience::Skip).is_some_and(|moving| !moving.held.is_empty())
    }

    /// The state of the moving; `None` if another helper has it, and this one does not wait.
    pub fn moving(&self, patience: Patience) -> Option<MutexGuard<'_, Moving>> {
        match patience {
            Patience::Wait => Some(self.moving.lock()),
            Patience::Skip => self.moving.try_lock(),
        }
    }

    /// Gives some of the memory back to the system, from the end of a table in which nobody is any
    /// more; false if that leaves nothing to be given back in pieces.
    pub fn give_back(&mut self, bytes: usize) -> bool {
        self.buckets.give_back(bytes)
    }

    /// Whether all buckets have moved.
    pub fn is_finished(&mut self) -> bool {
        let len = self.buckets.len();
        self.moving.get_mut().moved == len
    }
}
