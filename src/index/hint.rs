//! The address of the buckets, for prefetching one before the thread has a guard.

use super::bucket::Bucket;
use super::state::Index;
use crate::epoch::Guard;
use crate::hash::Hash32;
use crate::prefetch::prefetch_address;
use crate::primitives::atomic::Ordering::Relaxed;
use std::ptr;

impl Index {
    /// Updates the hint to the current table, even if the root advances meanwhile. If the root
    /// advances at the very moment, the hint may stay out of date until the root advances again.
    pub(super) fn update_hint(&self, guard: &Guard) {
        // The model checker skips the hint, because it has no effect on any result.
        while !cfg!(cortado_loom) {
            let table = self.root.current(guard);
            self.hint.store(table.hint(), Relaxed);
            if ptr::eq(table, self.root.current(guard)) {
                break;
            }
        }
    }

    /// Begins to load the home bucket of a hash. Needs no guard, because it follows no pointer.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash32) {
        if cfg!(cortado_loom) {
            return;
        }
        let hint = self.hint.load(Relaxed);
        let low = align_of::<Bucket>() - 1;
        let position = (u64::from(hash.raw()) >> (hint & low)) as usize;
        prefetch_address((hint & !low).wrapping_add(position * size_of::<Bucket>()));
    }
}
