//! The link at which every search begins. The rules cited are those of the [module](super).
#![expect(unsafe_code, reason = "grace periods decide when tables are freed")]

use super::memory::wipe;
use super::retired::Retired;
use super::table::{Link, Table};
use crate::epoch::Guard;
use crate::primitives::atomic::Ordering::{Acquire, Release};
use crate::primitives::seeded;
use crossbeam_epoch::Atomic;
use std::{mem, ptr};

/// The index's current table, and what it has retired.
#[derive(Debug)]
pub struct Root {
    current: Link,
    pub retired: Retired,
}

impl Root {
    pub fn new(table: Table) -> Self {
        Self { current: Link(Atomic::new(table)), retired: Retired::default() }
    }

    /// The table at which every search begins.
    #[inline]
    pub fn current<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        self.current.get(guard).expect("the index has a current table until it is dropped")
    }

    /// Advances `current` from `done`, all of whose buckets have moved, to the next table, and
    /// retires `done`. Called by the helper that moved the last bucket, so only once, with
    /// [`Table::moving`] still locked.
    ///
    /// Release pairs with [`Link::get`]: a thread that finds the new table here sees what all
    /// helpers put into it, because the lock of [`Table::moving`] has gathered that.
    pub fn advance(&self, done: &Table, guard: &Guard) {
        // Acquire pairs with `Link::install`.
        let next = done.next.0.load(Acquire, guard);
        assert!(!next.is_null(), "buckets move only if there is a next table");
        let old = self.current.0.swap(next, Release, guard);
        assert!(ptr::eq(old.as_raw(), done), "rule 7: only buckets of the current table move");
        if seeded("index-free-without-grace") {
            done.buckets.iter().for_each(wipe);
        }
        let old = ptr::NonNull::new(old.as_raw().cast_mut()).expect("it is `done`");
        // SAFETY: rule 8: the swap took away the only link to the table, and this thread is the one
        // that did so. References to the table end with the guards of now.
        unsafe { self.retired.retire_table(old) };
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let mut link = mem::take(&mut self.current);
        // SAFETY: rule 8: the link owns its table, and no other thread can reach it (`&mut self`).
        while let Some(mut table) = unsafe { link.0.try_into_owned() } {
            link = mem::take(&mut table.next);
        }
    }
}
