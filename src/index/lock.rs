//! The lock of a home bucket, which covers the bucket and its overflow, and how long to wait for
//! it.

use super::bucket::{Bucket, Ctrl};
use crate::sync::{Patience, ShortWait, Spin};
use std::mem;

/// Another thread has locked the bucket, or keeps changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held;

/// The lock, held. Dropping it unlocks, with a new version if anything was changed.
///
/// A number where an `enum` would do: what has no padding and no unused values is kept in
/// registers.
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

    /// Locks a bucket, however it looks. For the mover of the bucket, or of what goes into it: it
    /// has not moved.
    ///
    /// # Errors
    ///
    /// [`Held`] if another thread has locked it, and the caller does not want to wait for longer
    /// than what is left of `short`.
    pub fn acquire(
        home: &'g Bucket,
        patience: Patience,
        short: &mut ShortWait,
    ) -> Result<Self, Held> {
        let mut spin = Spin::default();
        loop {
            let seen = home.ctrl();
            debug_assert!(!seen.is_moved(), "rule 7: one mover, one move");
            if !seen.is_locked() && home.try_lock(seen) {
                return Ok(Self { home, changed: 0 });
            }
            match patience {
                Patience::Wait => spin.pause(),
                Patience::Skip if short.pause() => {}
                Patience::Skip => return Err(Held),
            }
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
