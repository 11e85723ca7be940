//! The address of the buckets, for prefetching one before the thread has a guard.

use super::bucket::Bucket;
use super::root::Root;
use super::table::Table;
use crate::epoch::Guard;
use crate::hash::Hash32;
use crate::prefetch::prefetch_address;
use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use std::ptr;

/// The address of the current table's first bucket. Its low bits are free, and hold the table's
/// shift. Accesses are relaxed, and the address is out of date at times: then the prefetched line
/// is useless, or no longer exists.
#[derive(Debug)]
pub struct Hint(AtomicUsize);

impl Hint {
    /// A hint for the first table of an index.
    pub fn new(table: &Table) -> Self {
        Self(AtomicUsize::new(Self::of(table)))
    }

    /// Updates the hint to the root's current table, even if the root advances meanwhile. If the
    /// root advances at the very moment, the hint may stay out of date until the root advances
    /// again.
    pub fn follow(&self, root: &Root, guard: &Guard) {
        // The model checker skips the hint, because it has no effect on any result.
        while !cfg!(cortado_loom) {
            let table = root.current(guard);
            self.0.store(Self::of(table), Relaxed);
            if ptr::eq(table, root.current(guard)) {
                break;
            }
        }
    }

    fn of(table: &Table) -> usize {
        table.buckets.as_ptr().addr() | table.shift as usize
    }

    #[inline(always)]
    pub fn prefetch(&self, hash: Hash32) {
        if cfg!(cortado_loom) {
            return;
        }
        let hint = self.0.load(Relaxed);
        let low = align_of::<Bucket>() - 1;
        let position = (u64::from(hash.raw()) >> (hint & low)) as usize;
        prefetch_address((hint & !low).wrapping_add(position * size_of::<Bucket>()));
    }
}
