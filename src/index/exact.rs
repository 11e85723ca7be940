//! Locking the result of a search even if the bucket has changed, as long as the entries of this
//! hash have not.
//!
//! A search by version fails whenever a neighbour in the bucket is written. Two kinds of operations
//! use the exact search instead: those that must run user code between search and lock, and those
//! that keep losing to writers of other keys. An exact search takes three steps:
//!
//! 1. It notes the ids of all entries with the hash.
//! 2. It locks the bucket, whatever its version is.
//! 3. It compares the ids.
//!
//! The guard under which the ids were found keeps them from being reused. So the same ids mean the
//! same keys, and no key is compared under the lock.

use super::bucket::{HomeLock, fingerprint_of};
use super::memory::Chain;
use super::state::Index;
use super::table::HashOf;
use super::write::{Changed, Found, Locked, scan};
use crate::epoch::Guard;
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::primitives::{Patience, Wait};

/// The result of a search for all entries of a hash.
#[must_use = "a search changes nothing"]
pub struct Exact<'g, H> {
    index: &'g Index,
    guard: &'g Guard,
    store: &'g H,
    hash: Hash32,
    /// The ids of the entries with the hash, in the order of the chain.
    ids: Vec<NodeId>,
    /// The id that matched, or [`NodeId::NONE`].
    hit: NodeId,
}

impl Index {
    /// Searches for an entry in order to change it, regardless of changes to its neighbours.
    /// [`Exact::lock`] fails only if an entry of this very hash was added or removed meanwhile. For
    /// a second attempt.
    ///
    /// `is_match` compares keys and runs without a lock. Waits while the bucket is locked.
    pub fn search_exact<'g, H: HashOf>(
        &'g self,
        guard: &'g Guard,
        hash: Hash32,
        store: &'g H,
        mut is_match: impl FnMut(NodeId) -> bool,
    ) -> Exact<'g, H> {
        let mut ids = Vec::new();
        let _ = self.search(guard, hash, |id| {
            if store.hash(id) == hash {
                ids.push(id);
            }
            false
        });
        let hit = ids.iter().copied().find(|&id| is_match(id)).unwrap_or(NodeId::NONE);
        Exact { index: self, guard, store, hash, ids, hit }
    }
}

impl<'g, H: HashOf> Exact<'g, H> {
    /// The id that matched.
    pub fn id(&self) -> Option<NodeId> {
        (self.hit != NodeId::NONE).then_some(self.hit)
    }

    /// Locks the bucket, and waits while another thread holds it.
    ///
    /// # Errors
    ///
    /// [`Changed`] if another entry has this hash by now, or if one of the noted entries has left.
    /// That entry may be the key's own, or another one with the same hash.
    pub fn lock(self) -> Result<Locked<'g>, Changed> {
        let mut table = self.index.current(self.guard);
        let mut wait = Wait::new(Patience::Wait);
        let lock = loop {
            let home = table.home(self.hash);
            let ctrl = home.ctrl();
            if ctrl.is_moved() {
                table = table.successor(self.guard);
            } else if !ctrl.is_locked()
                && let Some(lock) = HomeLock::exactly(home, ctrl)
            {
                break lock;
            } else {
                wait.pause();
            }
        };
        let fingerprint = fingerprint_of(self.hash);
        let (mut same, mut is_changed) = (0, false);
        scan(lock.home, Chain::locked(&lock), fingerprint, &mut |id| {
            if self.store.hash(id) == self.hash {
                is_changed |= self.ids.get(same) != Some(&id) && !self.ids.contains(&id);
                same += 1;
            }
            false
        });
        if is_changed || same != self.ids.len() {
            return Err(Changed);
        }
        let seen = scan(lock.home, Chain::locked(&lock), fingerprint, &mut |id| id == self.hit);
        Ok(Locked { lock, fingerprint: fingerprint.into(), seen })
    }
}

/// The result of either kind of search.
#[must_use = "a search changes nothing"]
pub enum Search<'g, H> {
    /// The result of a search that holds for one version of the bucket.
    Versioned(Found<'g>),
    /// The result of a search for all entries of the hash.
    Exact(Exact<'g, H>),
}

impl<'g, H: HashOf> Search<'g, H> {
    /// Locks the bucket if the result of the search still holds.
    ///
    /// # Errors
    ///
    /// [`Changed`] if it does not. The caller must search again.
    #[inline(always)]
    pub fn lock(self) -> Result<Locked<'g>, Changed> {
        match self {
            Self::Versioned(found) => found.lock(),
            Self::Exact(found) => found.lock(),
        }
    }
}
