//! A table: its home buckets, selected by the top bits of the hash, and the state of its migration.
//! The links between tables. The rules cited are those of the [module](super).
#![expect(unsafe_code, reason = "the epoch decides when tables are freed")]

use crate::epoch::Guard;
use crate::hash::Hash32;
use crate::links::NodeId;

use super::bucket::Bucket;
use super::memory::{Buckets, free_chains};
use crate::primitives::Mutex;
use crate::primitives::atomic::Ordering::{Acquire, Relaxed, Release};
use crossbeam_epoch::{Atomic, Owned, Shared};
use std::ops::Range;

/// The view of the caller's nodes that moving and walking need.
pub trait HashOf {
    /// The hash under which an id was inserted. The id is in the index, or was in it after the
    /// calling thread had pinned itself. The caller may hold the lock of a bucket. So this must be
    /// a load or two, and must neither wait nor panic.
    fn hash(&self, id: NodeId) -> Hash32;
}

/// The size of the smallest table, as a power of two: room for 14 entries in 192 bytes. The model
/// checker starts from one bucket.
const MIN_BITS: u32 = if cfg!(cortado_loom) { 0 } else { 1 };
/// The size of the largest table, as a power of two. It is enough for every id (they end at 2^31)
/// at [`LOAD`]. On a small machine, such a table takes a quarter of the memory.
const MAX_BITS: u32 = if usize::BITS >= 64 { 28 } else { 24 };

/// The load factor: the average number of entries per home bucket above which a table is too small.
/// Hashes are random, so at this load one bucket in ten needs an overflow bucket. These overflow
/// buckets hold one entry in forty.
pub const LOAD: usize = 7;

/// A table shrinks when this is more than its room divided by its entries: one half as large would
/// be filled to an eighth.
const SPARSE: usize = 16;
/// A table that the index shrinks to has room for this many times its entries. It grows when it has
/// four times as many entries, and shrinks again when it has a quarter of them. So neither follows
/// soon.
const SLACK: usize = 4;
/// One step of shrinking makes a table smaller by at most two to this power. While buckets move,
/// the next table takes the new entries of the buckets that have moved. It must not be so small
/// that the moving cannot keep up. Going from 2^20 buckets to 2^4 moves 7 % more buckets in such
/// steps than in one.
const MAX_STEP: u32 = 4;

/// The home buckets, and the link to the table that they are moving to. It has its cache lines for
/// itself, since every operation reads it.
#[repr(align(64))]
pub struct Table {
    pub buckets: Buckets,
    /// The number of bits by which a hash is shifted right to get the position of its home bucket;
    /// 32 at most.
    pub shift: u32,
    pub next: Link,
    pub moving: Mutex<Moving>,
}

/// How far the buckets of a table have moved. One helper at a time uses it.
pub struct Moving {
    /// The positions of the buckets that no helper has claimed yet.
    pub unclaimed: Range<usize>,
    /// The positions of claimed buckets that another thread had locked, and that the helper did
    /// not wait for.
    pub held: Vec<usize>,
    /// The number of buckets that have moved.
    pub moved: usize,
}

impl Moving {
    /// Whether there are buckets left to claim or to retry. If there are none, and not all have
    /// moved, the caller's nodes ([`HashOf`]) have panicked.
    pub fn has_more(&self) -> bool {
        !(self.unclaimed.is_empty() && self.held.is_empty())
    }
}

/// The size of a table that has room for `entries` entries, as a power of two.
pub fn bits_for(entries: usize) -> u32 {
    let buckets = entries.div_ceil(LOAD).max(1);
    let bits = usize::BITS - (buckets - 1).leading_zeros();
    bits.clamp(MIN_BITS, MAX_BITS)
}

impl Table {
    /// A table of these buckets, whose number is a power of two.
    pub fn new(buckets: Buckets) -> Self {
        let moving = Moving { unclaimed: 0..buckets.len(), held: Vec::new(), moved: 0 };
        Self {
            shift: 32 - buckets.len().ilog2(),
            buckets,
            next: Link::default(),
            moving: Mutex::new(moving),
        }
    }

    /// The size of the table to move to, as a power of two. `None` if `entries` are neither too
    /// many nor too few for this table.
    pub fn bits_wanted(&self, entries: usize, least: u32) -> Option<u32> {
        let bits = 32 - self.shift;
        let room = self.buckets.len() * LOAD;
        if entries > room {
            return (bits < MAX_BITS).then_some(bits + 1);
        }
        let fitting = || bits_for(entries * SLACK).max(least).max(bits.saturating_sub(MAX_STEP));
        (bits > least && entries <= room / SPARSE).then(fitting)
    }

    /// The address of the first bucket. Its low bits are free, and hold the shift.
    pub fn hint(&self) -> usize {
        self.buckets.as_ptr().addr() | self.shift as usize
    }

    /// The number of buckets of this table that become one bucket of the next; 1 if the next is
    /// larger.
    pub fn sources_of(&self, next: &Self) -> usize {
        1 << next.shift.saturating_sub(self.shift)
    }

    /// The position of the home bucket of a hash.
    #[inline]
    pub fn position(&self, hash: Hash32) -> usize {
        (u64::from(hash.raw()) >> self.shift) as usize
    }

    /// The home bucket of a hash.
    #[inline]
    pub fn home(&self, hash: Hash32) -> &Bucket {
        &self.buckets[self.position(hash)]
    }

    /// The first hash after the hashes of a bucket.
    pub fn end_of(&self, position: usize) -> u64 {
        (position as u64 + 1) << self.shift
    }

    /// The table that holds the entries of a moved bucket.
    pub fn successor<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        self.next.get(guard).expect("a bucket moves only if there is a next table")
    }
}

impl Drop for Table {
    /// A table is retired only when all of its buckets have moved. So the thread that frees a
    /// retired table does not walk it, and does not read memory that was given back.
    fn drop(&mut self) {
        let is_finished = self.moving.get_mut().moved == self.buckets.len();
        if !is_finished {
            free_chains(&mut self.buckets);
        }
    }
}

/// The pointer that owns a table: the index's `current`, or a table's `next`.
#[derive(Default)]
pub struct Link(pub(super) Atomic<Table>);

impl Link {
    /// The table, if there is one. Acquire pairs with [`Link::install`] and
    /// [`Index::advance`](super::Index::advance).
    #[inline]
    pub fn get<'g>(&'g self, guard: &'g Guard) -> Option<&'g Table> {
        debug_assert!(
            guard.collector() == Some(crate::epoch::collector()),
            "rule 8: the index is used under its own collector"
        );
        // SAFETY: rule 8: a table that was reachable is not freed as long as `guard` lives.
        unsafe { self.0.load(Acquire, guard).as_ref() }
    }

    /// Sets the link if it is empty; drops `table` if another thread was faster. Release pairs with
    /// [`Link::get`]: readers see the table complete.
    pub fn install(&self, table: Table, guard: &Guard) {
        let null = Shared::null();
        drop(self.0.compare_exchange(null, Owned::new(table), Release, Relaxed, guard));
    }
}
