//! The lock of a home bucket, which covers the bucket and its overflow.

use super::bucket::{Bucket, Ctrl};
use crate::sync::Spin;

/// The lock, held. Dropping it unlocks, with a new version if anything was changed.
#[derive(Debug)]
pub struct HomeLock<'g> {
    home: &'g Bucket,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Unchanged,
    Changed,
    Moved,
}

impl<'g> HomeLock<'g> {
    /// Locks a bucket that is still as it was `seen`.
    #[inline]
    pub fn exactly(home: &'g Bucket, seen: Ctrl) -> Option<Self> {
        home.try_lock(seen).then(|| Self { home, end: End::Unchanged })
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
                return Some(Self { home, end: End::Unchanged });
            }
            spin.pause();
        }
    }

    #[inline]
    pub fn home(&self) -> &'g Bucket {
        self.home
    }

    /// To be called with each change: scans that began before it must not lock.
    #[inline]
    pub fn mark_changed(&mut self) {
        self.end = End::Changed;
    }

    /// Unlocks for good: the entries are in the next table.
    pub fn release_moved(mut self) -> &'g Bucket {
        self.end = End::Moved;
        self.home
    }
}

impl Drop for HomeLock<'_> {
    #[inline]
    fn drop(&mut self) {
        let end = self.end;
        self.home.release(|ctrl| match end {
            End::Unchanged => ctrl.unlocked(),
            End::Changed => ctrl.unlocked().changed(),
            End::Moved => ctrl.unlocked().changed().moved(),
        });
    }
}
