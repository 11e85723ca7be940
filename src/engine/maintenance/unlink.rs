//! Taking a node out of the index on behalf of the maintenance.

use super::pass::Pass;
use crate::clock::Timestamp;
use crate::engine::delivery::Notice;
use crate::engine::flights::Kept;
use crate::hash::Hash32;
use crate::index::{BucketBusy, Locked};
use crate::links::{Named, NodeId};
use crate::node::{GONE, Meta};
use crate::primitives::{Patience, seeded};
use crate::removal::RemovalCause;

/// Why the maintenance unlinks a node.
#[derive(Clone, Copy)]
pub enum Why {
    /// It has expired. This must still be its deadline.
    Expired(Timestamp),
    /// The cache is full. Its deadline does not matter.
    Full,
    /// An `invalidate_all` has taken it.
    Cleared,
}

impl<'a> Pass<'a> {
    /// Removes the node from the index.
    ///
    /// # Errors
    /// If the node has to stay in the index: its deadline has changed, a computation works on its
    /// key, or another thread holds its bucket.
    pub fn unlink(&mut self, Named { id, node: meta }: Named<&Meta>, why: Why) -> Result<(), Kept> {
        let hash = meta.hash();
        if !self.core.flights.is_idle(hash) && !seeded("maintenance-ignores-computations") {
            return self.unlink_permitted(id.with(meta), why);
        }
        // The locked bucket stays in registers, unless one look is not enough.
        if let Some(locked) = self.lock_home(hash, id) {
            return self.unlink_if_idle(locked, id.with(meta), why);
        }
        self.unlink_slow(id.with(meta), why)
    }

    /// Locks the bucket of a node, if one look at its home bucket is enough.
    #[inline(always)]
    fn lock_home(&self, hash: Hash32, id: NodeId) -> Option<Locked<'a>> {
        let found = self.core.index.search_home(self.guard, hash, |other| other == id)?;
        found.id()?;
        found.lock().ok()
    }

    /// [`unlink`](Self::unlink) where one look at the home bucket was not enough.
    #[cold]
    #[inline(never)]
    fn unlink_slow(
        &mut self,
        Named { id, node: meta }: Named<&Meta>,
        why: Why,
    ) -> Result<(), Kept> {
        match self.lock_id(meta.hash(), id)? {
            Some(locked) => self.unlink_if_idle(locked, id.with(meta), why),
            // A writer has removed the node before. Its event is on the way.
            None => Ok(()),
        }
    }

    /// [`unlink`](Self::unlink) with the bucket locked, unless a load or computation may have the
    /// key.
    #[inline(always)]
    fn unlink_if_idle(
        &mut self,
        locked: Locked<'_>,
        Named { id, node: meta }: Named<&Meta>,
        why: Why,
    ) -> Result<(), Kept> {
        let is_idle = self.core.flights.is_idle(meta.hash());
        if is_idle || seeded("maintenance-ignores-computations") {
            return self.unlink_locked(locked, id.with(meta), why);
        }
        drop(locked);
        self.unlink_permitted(id.with(meta), why)
    }

    /// [`unlink`](Self::unlink) where a load or computation may be in the way.
    #[cold]
    #[inline(never)]
    fn unlink_permitted(
        &mut self,
        Named { id, node: meta }: Named<&Meta>,
        why: Why,
    ) -> Result<(), Kept> {
        let hash = meta.hash();
        let victim = matches!(why, Why::Full).then_some(id);
        // Must outlive the bucket's lock.
        let _permit =
            self.core.flights.permit_without_computation(hash, self.budget.patience, victim)?;
        match self.lock_id(hash, id)? {
            Some(locked) => self.unlink_locked(locked, id.with(meta), why),
            None => Ok(()),
        }
    }

    /// Locks the bucket of a node, as patiently as the pass is. `None` if the node is not in the
    /// index.
    ///
    /// # Errors
    /// [`Kept::ForNow`] if another thread holds the bucket, and the pass does not wait.
    #[inline(always)]
    fn lock_id(&mut self, hash: Hash32, id: NodeId) -> Result<Option<Locked<'a>>, Kept> {
        let waits = seeded("passes-wait-for-buckets");
        let patience = if waits { Patience::Wait } else { self.budget.patience };
        let locked = self.core.index.lock_id_with(self.guard, hash, id, patience);
        self.left.skipped_busy |= locked.is_err();
        locked.map_err(|BucketBusy| Kept::ForNow)
    }

    /// Removes a node if an `invalidate_all` has taken it, whether or not a computation works on
    /// its key. The computation then finds the key without an entry, as every other operation does.
    ///
    /// The node is judged under the lock: nodes that are published there are never newer than the
    /// generation that is read after that. A generation that was read before may be older than a
    /// node that has come since.
    ///
    /// # Errors
    /// If another thread holds the bucket, and the pass does not wait.
    pub fn sweep_one(&mut self, id: NodeId) -> Result<(), Kept> {
        let meta = self.core.pool.meta(id);
        if let Some(locked) = self.lock_id(meta.hash(), id)?
            && (self.core.hot.is_cleared(meta) || seeded("sweep-judges-before-the-lock"))
        {
            let _removed = self.unlink_locked(locked, id.with(meta), Why::Cleared);
        }
        Ok(())
    }

    #[inline(always)]
    fn unlink_locked(
        &mut self,
        mut locked: Locked<'_>,
        Named { id, node: meta }: Named<&Meta>,
        why: Why,
    ) -> Result<(), Kept> {
        let core = self.core;
        let gone = || core.mark_gone(meta);
        let (cause, deadline) = match why {
            Why::Full => (RemovalCause::Size, gone()),
            Why::Cleared => (RemovalCause::Explicit, gone()),
            Why::Expired(_) if seeded("expirer-ignores-extensions") => {
                (RemovalCause::Expired, gone())
            }
            Why::Expired(judged) if !meta.change_deadline(judged, GONE) => {
                return Err(Kept::ForNow);
            }
            Why::Expired(judged) => (RemovalCause::Expired, judged),
        };
        locked.remove();
        let empty_overflow = locked.take_empty_overflow();
        // The pass's time may be coarse. (A clock of the user's is never read here.)
        let now = core.ticker.reading_for(deadline, self.now);
        let notice = Notice { id, cause, deadline, at: now };
        core.notices.announce_gone(core, meta, notice);
        drop(locked);
        if let Some(empty_overflow) = empty_overflow {
            core.index.retire_overflow(empty_overflow);
        }
        self.unlink_lists(meta);
        self.note_removed(id, meta);
        Ok(())
    }
}
