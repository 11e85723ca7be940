//! The lock of a home bucket, which covers the bucket and its overflow.

use super::bucket::{Bucket, Ctrl};
use crate::sync::Spin;
use std::mem;

/// The lock, held. Dropping it unlocks, with a new version if anything was changed.
///
/// A number where an `enum` would do: what has no padding and no unused values is kept in registers.
#[derive(Debug)]
pub struct HomeLock<'g> {
    home: &'g Bucket,
    /// 1 if anything was changed, else 0.
    changed: u64,
}

impl<'g> HomeLock<'g> {
    /// Locks a bucket that is still as it was `seen`.
    #[inline(always)]
    pub fn exactly(home: &'g Bucket, seen: Ctrl) -> Option<Self> {
        home.try_lock(seen).then(|| Self { home, changed: 0 })
    }

    /// Locks a bucket, however it looks; `None` if it has moved.
    pub fn acquire(home: &'g Bucket) -> Option<Self> {
        let mut spin = Spin::default();
        loop {
            let seen = home.ctrl();
            if seen.is_moved() {
                return None;
            }
            if !seen.is_locked() && home.try_lock(seen) {
                return Some(Self { home, changed: 0 });
            }
            spin.pause();
        }
    }

    #[inline]
    pub fn home(&self) -> &'g Bucket {
        self.home
    }

    /// To be called with each change: scans that began before it must not lock.
    #[inline(always)]
    pub fn mark_changed(&mut self) {
        self.changed = 1;
    }

    /// Unlocks for good: the entries are in the next table.
    pub fn release_moved(self) -> &'g Bucket {
        let home = mem::ManuallyDrop::new(self).home;
        home.release(|ctrl| ctrl.unlocked().changed(1).moved());
        home
    }
}

impl Drop for HomeLock<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.home.release(|ctrl| ctrl.unlocked().changed(self.changed));
    }
}
