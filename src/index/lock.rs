//! The lock of a home bucket, and how long to wait for it. The lock covers the bucket and its
//! overflow.

use super::bucket::{Bucket, Ctrl};
use crate::primitives::{Patience, Spin};
use std::mem;

/// Another thread has locked the bucket, or keeps changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketBusy;

/// The lock, held. Dropping it unlocks the bucket, with a new version if anything was changed.
///
/// `changed` is a number where an `enum` would do: a type without padding and unused values is kept
/// in registers.
#[derive(Debug)]
pub struct HomeLock<'g> {
    pub home: &'g Bucket,
    /// 1 if anything was changed, else 0.
    changed: u64,
}

impl<'g> HomeLock<'g> {
    /// Locks a bucket if its control word is still `seen`.
    #[inline(always)]
    pub fn exactly(home: &'g Bucket, seen: Ctrl) -> Option<Self> {
        home.try_lock(seen).then(|| Self { home, changed: 0 })
    }

    /// Locks a bucket, whatever its control word is. Only for the mover of the bucket, or of ids
    /// that go into it: such a bucket has not moved.
    ///
    /// # Errors
    ///
    /// [`BucketBusy`] if another thread has locked the bucket, and the caller does not want to wait
    /// longer than the rest of `short`.
    pub fn acquire(
        home: &'g Bucket,
        patience: Patience,
        short: &mut Spin,
    ) -> Result<Self, BucketBusy> {
        let mut spin = Spin::default();
        loop {
            let seen = home.ctrl();
            debug_assert!(!seen.is_moved(), "rule 7: one mover moves a bucket, once");
            if !seen.is_locked() && home.try_lock(seen) {
                return Ok(Self { home, changed: 0 });
            }
            match patience {
                Patience::Wait => spin.pause(),
                Patience::Skip if short.try_pause() => {}
                Patience::Skip => return Err(BucketBusy),
            }
        }
    }

    /// Must be called with each change: scans that began before the change must not lock.
    #[inline(always)]
    pub fn mark_changed(&mut self) {
        self.changed = 1;
    }

    /// Unlocks the bucket for the last time: its entries are in the next table.
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
