//! Taking a node out of the index on behalf of the maintenance.

use super::pass::Pass;
use crate::clock::Timestamp;
use crate::engine::delivery::Notice;
use crate::engine::flights::Blocked;
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
    pub fn unlink(&mut self, node: Named<&Meta>, why: Why) -> Result<(), Blocked> {
        let (id, hash) = (node.id, node.node.hash());
        // The locked bucket stays in registers, unless one look is not enough.
        if self.is_idle(hash)
            && let Some(found) = self.core.index.search_home(self.guard, hash, |other| other == id)
            && found.id().is_some()
            && let Ok(locked) = found.lock()
            && self.is_idle(hash)
        {
            return self.unlink_locked(locked, node, why);
        }
        self.unlink_slow(node, why)
    }

    /// [`unlink`](Self::unlink) where one look at the home bucket was not enough, or where a load
    /// or computation may be in the way.
    #[cold]
    #[inline(never)]
    fn unlink_slow(&mut self, node: Named<&Meta>, why: Why) -> Result<(), Blocked> {
        let hash = node.node.hash();
        let victim = matches!(why, Why::Full).then_some(node.id);
        let mut is_idle = self.is_idle(hash);
        loop {
            let (flights, patience) = (&self.core.flights, self.budget.patience);
            let permit = || flights.permit_without_computation(hash, patience, victim);
            // Must outlive the bucket's lock.
            let permit = if is_idle { None } else { Some(permit()?) };
            // If it is not there, a writer has removed the node before. Its event is on the way.
            let Some(locked) = self.lock_id(hash, node.id)? else { return Ok(()) };
            is_idle = self.is_idle(hash);
            if is_idle || permit.is_some() {
                return self.unlink_locked(locked, node, why);
            }
        }
    }

    /// Whether no load or computation can have a key with this hash.
    #[inline(always)]
    fn is_idle(&self, hash: Hash32) -> bool {
        self.core.flights.is_idle(hash) || seeded("maintenance-ignores-computations")
    }

    /// Locks the bucket of a node, as patiently as the pass is. `None` if the node is not in the
    /// index.
    ///
    /// # Errors
    /// [`Blocked::ForNow`] if another thread holds the bucket, and the pass does not wait.
    #[inline(always)]
    fn lock_id(&mut self, hash: Hash32, id: NodeId) -> Result<Option<Locked<'a>>, Blocked> {
        let waits = seeded("passes-wait-for-buckets");
        let patience = if waits { Patience::Wait } else { self.budget.patience };
        let locked = self.core.index.lock_id_with(self.guard, hash, id, patience);
        self.left.skipped_busy |= locked.is_err();
        locked.map_err(|BucketBusy| Blocked::ForNow)
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
    pub fn sweep_one(&mut self, id: NodeId) -> Result<(), Blocked> {
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
    ) -> Result<(), Blocked> {
        let core = self.core;
        let gone = || core.mark_gone(meta);
        let (cause, deadline) = match why {
            Why::Full => (RemovalCause::Size, gone()),
            Why::Cleared => (RemovalCause::Explicit, gone()),
            Why::Expired(_) if seeded("expirer-ignores-extensions") => {
                (RemovalCause::Expired, gone())
            }
            Why::Expired(deadline) if !meta.change_deadline(deadline, GONE) => {
                return Err(Blocked::ForNow);
            }
            Why::Expired(deadline) => (RemovalCause::Expired, deadline),
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
