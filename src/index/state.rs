//! What an index consists of.

use super::memory::{EmptyOverflow, Preparation};
use super::root::Root;
use super::table::{Table, bits_for};
use crate::epoch::{Grace, Guard};
use crate::primitives::atomic::AtomicUsize;
use crate::primitives::{Mutex, Patience};

/// The index; see the [module](super).
///
/// A method that takes a guard requires one of [`crate::epoch::pin`]. Ids that such a method
/// returns or passes to closures name nodes that are not reclaimed before the guard is dropped.
/// This holds if nodes are retired through the same collector, after they were removed from the
/// index.
#[derive(Debug)]
pub struct Index {
    pub(super) root: Root,
    /// [`Table::hint`] of the current table. Accesses are relaxed, and it is out of date at times:
    /// then the prefetched line is useless, or no longer exists.
    pub(super) hint: AtomicUsize,
    /// The size of the first table, as a power of two. The index never becomes smaller.
    pub(super) least_bits: u32,
    /// The table to come, while its memory is being zeroed.
    pub(super) preparation: Mutex<Option<Preparation>>,
}

impl Index {
    /// An empty index with room for `entries` entries before it has to grow. It never gives up that
    /// room.
    pub fn with_capacity(entries: usize) -> Self {
        let least_bits = bits_for(entries);
        let table = Table::new(least_bits);
        let hint = AtomicUsize::new(table.hint());
        Self { root: Root::new(table), hint, least_bits, preparation: Mutex::new(None) }
    }

    /// The number of home buckets in the current table.
    pub fn buckets(&self, guard: &Guard) -> usize {
        self.root.current(guard).buckets.len()
    }

    /// The number of home buckets that have an overflow, with or without entries in it. For tests.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn overflows(&self, guard: &Guard) -> usize {
        self.root.current(guard).buckets.iter().filter(|bucket| bucket.has_overflow()).count()
    }

    /// Whether there is work for [`Index::help`].
    pub fn is_moving(&self, guard: &Guard) -> bool {
        self.root.current(guard).next.get(guard).is_some()
    }

    /// Whether the index is moving, and a helper left a bucket because another thread held it.
    pub fn is_held_up(&self, guard: &Guard) -> bool {
        let moving = self.root.current(guard).moving(Patience::Skip);
        moving.is_some_and(|moving| !moving.held.is_empty())
    }

    /// Takes over an overflow that
    /// [`Locked::take_empty_overflow`](super::Locked::take_empty_overflow) has returned. The caller
    /// must have unlocked the bucket.
    pub fn retire_overflow(&self, overflow: EmptyOverflow) {
        self.root.retired.retire_overflow(overflow);
    }

    /// The number of tables that the index has moved from, and whose memory is not all freed.
    pub fn retired_tables(&self) -> usize {
        self.root.retired.tables()
    }

    /// The first grace period that retired tables or overflows wait for. When it is over,
    /// [`free_retired`](Self::free_retired) has something to free.
    pub fn awaited_grace(&self) -> Option<Grace> {
        self.root.retired.grace()
    }

    /// Frees retired overflows, and gives a piece of a retired table's memory back to the system;
    /// true if there is more to free now.
    pub fn free_retired(&self) -> bool {
        self.root.retired.free()
    }
}
