//! Where the buckets are, for asking for one before there is a guard.

use super::bucket::Bucket;
use super::memory::Root;
use super::table::Table;
use crate::epoch::Guard;
use crate::prefetch::prefetch_address;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::ptr;

/// The address of the current table's first bucket, whose low bits are free for the table's shift.
/// Relaxed, and at times out of date: what is asked for may be of use to nobody, or no longer be
/// there.
#[derive(Debug)]
pub struct Hint(AtomicUsize);

impl Hint {
    /// For a table that is to be the first.
    pub fn new(table: &Table) -> Self {
        Self(AtomicUsize::new(Self::of(table)))
    }

    /// Follows the root, also when it moves on meanwhile; if it does so at the very moment, perhaps
    /// not before it moves again.
    pub fn follow(&self, root: &Root, guard: &Guard) {
        // The model checker need not look at what changes nothing.
        while !cfg!(cortado_loom) {
            let table = root.current(guard);
            self.0.store(Self::of(table), Relaxed);
            if ptr::eq(table, root.current(guard)) {
                break;
            }
        }
    }

    fn of(table: &Table) -> usize {
        table.buckets().as_ptr().addr() | table.shift() as usize
    }

    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        if cfg!(cortado_loom) {
            return;
        }
        let hint = self.0.load(Relaxed);
        let low = align_of::<Bucket>() - 1;
        let position = (u64::from(hash) >> (hint & low)) as usize;
        prefetch_address((hint & !low).wrapping_add(position * size_of::<Bucket>()));
    }
}
