//! Writing: search without a lock, then lock exactly the state that the search has seen.

use crate::epoch::Guard;
use crate::hash::Hash32;

use super::bucket::{Bucket, BucketBusy, Ctrl, HomeLock, fingerprint_of};
use super::fingerprint::SLOTS;
use super::memory::{Chain, EmptyOverflow, append};
use super::state::Index;
use crate::links::NodeId;
use crate::primitives::{Patience, Wait, seeded};
use std::ptr;

/// A home bucket with this many free slots gives up an empty overflow, because it will not need one
/// soon.
const MIN_FREE_SLOTS: usize = if cfg!(cortado_loom) { 1 } else { 3 };

/// A caller that does not wait searches a bucket at most this many times, after its first look, if
/// other threads keep changing it.
const ATTEMPTS: u32 = if cfg!(cortado_loom) { 2 } else { 8 };

/// The bucket changed between a search and the attempt to lock it. The caller must search again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

/// The result of scanning a chain: the matching entry; else the first free slot; else the last
/// bucket, with no slot.
#[derive(Clone, Copy)]
pub(super) struct ScanResult<'g> {
    bucket: &'g Bucket,
    slot: u32,
    /// The id of the entry, or [`NodeId::NONE`].
    id: NodeId,
}

impl ScanResult<'_> {
    const NO_SLOT: u32 = u32::MAX;

    #[inline(always)]
    fn hit(&self) -> Option<NodeId> {
        (self.id != NodeId::NONE).then_some(self.id)
    }
}

/// The result of a search, and the control word that the home bucket had when the search began.
#[must_use = "a search changes nothing"]
pub struct Found<'g> {
    home: &'g Bucket,
    version: Ctrl,
    fingerprint: u32,
    seen: ScanResult<'g>,
}

impl Index {
    /// Searches for an entry in order to change it. The next step is [`Found::lock`]. If that step
    /// finds that the bucket has changed, the caller must search again.
    ///
    /// `is_match` compares keys and runs without a lock. Waits while the bucket is locked.
    pub fn search<'g>(
        &'g self,
        guard: &'g Guard,
        hash: Hash32,
        is_match: impl FnMut(NodeId) -> bool,
    ) -> Found<'g> {
        let mut wait = Wait::new(Patience::Wait);
        self.search_with(guard, hash, is_match, &mut wait).expect("this wait has no end")
    }

    /// A [`search`](Self::search) that looks at the home bucket once, and waits for nothing.
    /// Returns `None` if one look is not enough. Nearly always it is enough, because one of these
    /// holds:
    ///
    /// * the entry is the first one with its fingerprint;
    /// * no slot has the fingerprint, a slot is free, and there is no entry in the overflow.
    #[inline(always)]
    pub fn search_home<'g>(
        &'g self,
        guard: &'g Guard,
        hash: Hash32,
        is_match: impl FnOnce(NodeId) -> bool,
    ) -> Option<Found<'g>> {
        let fingerprint = fingerprint_of(hash);
        let home = self.current(guard).home(hash);
        let (version, _) = Chain::open(home)?;
        if version.is_locked() {
            return None;
        }
        let fingerprints = home.fingerprints_beside(version);
        let (slot, id) = match fingerprints.matching(fingerprint).next() {
            Some(slot) => {
                let id = home.id(slot);
                if id == NodeId::NONE || !is_match(id) {
                    return None;
                }
                (slot as u32, id)
            }
            None if !version.overflows() => (fingerprints.free().next()? as u32, NodeId::NONE),
            None => return None,
        };
        let seen = ScanResult { bucket: home, slot, id };
        Some(Found { home, version, fingerprint: fingerprint.into(), seen })
    }

    /// Searches for an entry. Returns `None` if the bucket is locked, and `wait` is over.
    #[inline(always)]
    fn search_with<'g>(
        &'g self,
        guard: &'g Guard,
        hash: Hash32,
        mut is_match: impl FnMut(NodeId) -> bool,
        wait: &mut Wait,
    ) -> Option<Found<'g>> {
        let fingerprint = fingerprint_of(hash);
        let mut table = self.current(guard);
        loop {
            let home = table.home(hash);
            match Chain::open(home) {
                None => table = table.successor(guard),
                Some((version, chain)) if !version.is_locked() => {
                    let seen = scan(home, chain, fingerprint, &mut is_match);
                    return Some(Found { home, version, fingerprint: fingerprint.into(), seen });
                }
                Some(_) if wait.pause() => {}
                Some(_) => return None,
            }
        }
    }

    /// Locks the bucket that holds this very id, which was inserted under this hash. Returns `None`
    /// if the index does not contain the id.
    #[inline]
    pub fn lock_id<'g>(&'g self, guard: &'g Guard, hash: Hash32, id: NodeId) -> Option<Locked<'g>> {
        // A caller that waits is never told that the bucket is busy.
        self.lock_id_with(guard, hash, id, Patience::Wait).ok().flatten()
    }

    /// [`lock_id`](Self::lock_id) with a choice of patience. With [`Patience::Skip`] it gives up
    /// after a short spin, and never yields.
    ///
    /// # Errors
    ///
    /// [`BucketBusy`] if another thread has locked the bucket, or keeps changing it. In that case
    /// it is unknown whether the index contains the id.
    #[inline(always)]
    pub fn lock_id_with<'g>(
        &'g self,
        guard: &'g Guard,
        hash: Hash32,
        id: NodeId,
        patience: Patience,
    ) -> Result<Option<Locked<'g>>, BucketBusy> {
        let first = self.search_home(guard, hash, |other| other == id);
        if let Some(found) = first {
            if found.id().is_none() {
                return Ok(None);
            }
            if let Ok(locked) = found.lock() {
                return Ok(Some(locked));
            }
        }
        self.lock_id_slow(guard, hash, id, patience)
    }

    #[cold]
    #[inline(never)]
    fn lock_id_slow<'g>(
        &'g self,
        guard: &'g Guard,
        hash: Hash32,
        id: NodeId,
        patience: Patience,
    ) -> Result<Option<Locked<'g>>, BucketBusy> {
        // One wait for all attempts together.
        let (mut wait, mut attempts) = (Wait::new(patience), 0);
        while patience == Patience::Wait || attempts < ATTEMPTS {
            attempts += 1;
            let found = match self.search_with(guard, hash, |other| other == id, &mut wait) {
                None if seeded("index-held-is-absent") => return Ok(None),
                found => found.ok_or(BucketBusy)?,
            };
            if found.id().is_none() {
                return Ok(None);
            }
            if let Ok(locked) = found.lock() {
                return Ok(Some(locked));
            }
        }
        Err(BucketBusy)
    }
}

/// Scans a chain, from its home bucket on.
pub(super) fn scan<'g>(
    home: &'g Bucket,
    chain: Chain<'g>,
    fingerprint: u8,
    is_match: &mut impl FnMut(NodeId) -> bool,
) -> ScanResult<'g> {
    let mut seen = ScanResult { bucket: home, slot: ScanResult::NO_SLOT, id: NodeId::NONE };
    for bucket in chain {
        let fingerprints = bucket.fingerprints();
        for slot in fingerprints.matching(fingerprint) {
            let id = bucket.id(slot);
            if id != NodeId::NONE && is_match(id) {
                return ScanResult { bucket, slot: slot as u32, id };
            }
        }
        if seen.slot == ScanResult::NO_SLOT {
            let slot = fingerprints.free().next().map_or(ScanResult::NO_SLOT, |slot| slot as u32);
            seen = ScanResult { bucket, slot, id: NodeId::NONE };
        }
    }
    seen
}

impl<'g> Found<'g> {
    /// The id that matched when the search examined it.
    #[inline(always)]
    pub fn id(&self) -> Option<NodeId> {
        self.seen.hit()
    }

    /// Locks the bucket if it has not changed since the search began. The result of the search,
    /// entry or no entry, then stays true until the lock is dropped.
    ///
    /// # Errors
    ///
    /// [`Changed`] if another thread has changed anything in the bucket, or holds its lock.
    #[inline(always)]
    pub fn lock(self) -> Result<Locked<'g>, Changed> {
        let Self { home, version, fingerprint, seen } = self;
        let lock = HomeLock::exactly(home, version).ok_or(Changed)?;
        Ok(Locked { lock, fingerprint, seen })
    }
}

/// A locked bucket, with the place of the entry that was searched for. Dropping it unlocks the
/// bucket.
///
/// A thread that holds it runs no user code, waits for nothing, and locks no second bucket.
#[must_use = "dropping it unlocks the bucket"]
pub struct Locked<'g> {
    pub(super) lock: HomeLock<'g>,
    pub(super) fingerprint: u32,
    pub(super) seen: ScanResult<'g>,
}

impl<'g> Locked<'g> {
    /// The entry's id, if it is in the index.
    #[inline(always)]
    pub fn id(&self) -> Option<NodeId> {
        self.seen.hit()
    }

    /// Adds the entry. The node must be complete, because readers may find it at once.
    ///
    /// # Panics
    ///
    /// If the entry is already present.
    #[inline(always)]
    pub fn insert(&mut self, id: NodeId) {
        assert!(self.seen.id == NodeId::NONE, "the entry is already present");
        debug_assert_ne!(id, NodeId::NONE);
        if self.seen.slot == ScanResult::NO_SLOT {
            self.seen = ScanResult { bucket: append(self.seen.bucket), slot: 0, id: NodeId::NONE };
        }
        self.lock.mark_changed();
        if self.is_in_overflow() && !seeded("index-overflow-marked-late") {
            self.lock.home.set_overflows(true);
        }
        self.seen.bucket.put(self.seen.slot as usize, self.fingerprint as u8, id);
        self.seen.id = id;
        if self.is_in_overflow() && seeded("index-overflow-marked-late") {
            self.lock.home.set_overflows(true);
        }
    }

    /// Replaces the id of the entry, and returns the old id. The new node must be complete. The old
    /// node may be marked gone only after this (rule 4 of the [module](super)).
    ///
    /// # Panics
    ///
    /// If there is no entry.
    #[inline(always)]
    pub fn replace(&mut self, id: NodeId) -> NodeId {
        debug_assert_ne!(id, NodeId::NONE);
        let old = self.seen.hit().expect("there is no entry");
        self.lock.mark_changed();
        self.seen.bucket.replace(self.seen.slot as usize, id);
        self.seen.id = id;
        old
    }

    /// Removes the entry and returns its id.
    ///
    /// # Panics
    ///
    /// If there is no entry.
    #[inline(always)]
    pub fn remove(&mut self) -> NodeId {
        let old = self.seen.hit().expect("there is no entry");
        self.lock.mark_changed();
        self.seen.bucket.clear(self.seen.slot as usize);
        self.seen.id = NodeId::NONE;
        if self.is_in_overflow() {
            self.update_overflow_bit();
        }
        old
    }

    /// Detaches the overflow if it is empty and the home bucket has at least `MIN_FREE_SLOTS` free
    /// slots. The caller must retire it after unlocking.
    ///
    /// Callers that remove many entries should call this. Nearly every bucket is full at some time
    /// and gets an overflow, which only this call takes away again.
    #[inline(always)]
    pub fn take_empty_overflow(&mut self) -> Option<EmptyOverflow> {
        let home = self.lock.home;
        // `has_overflow`: there are overflow buckets. `overflows`: they have entries.
        let is_empty_overflow = home.has_overflow() && !home.ctrl().overflows();
        if is_empty_overflow && !seeded("index-keeps-its-overflows") {
            self.take_overflow()
        } else {
            None
        }
    }

    #[cold]
    fn take_overflow(&mut self) -> Option<EmptyOverflow> {
        let home = self.lock.home;
        let fingerprints = home.fingerprints();
        let slot = fingerprints
            .free()
            .next()
            .filter(|_| fingerprints.occupied().count() + MIN_FREE_SLOTS <= SLOTS)?;
        self.lock.mark_changed();
        if self.is_in_overflow() {
            // No entry may be put into a detached overflow.
            self.seen = ScanResult { bucket: home, slot: slot as u32, id: NodeId::NONE };
        }
        EmptyOverflow::take(&self.lock)
    }

    #[inline(always)]
    fn is_in_overflow(&self) -> bool {
        !ptr::eq(self.seen.bucket, self.lock.home)
    }

    /// Clears the `OVERFLOWS` bit if the overflow is empty. The caller has removed an entry from
    /// it.
    #[cold]
    fn update_overflow_bit(&mut self) {
        let overflow = Chain::locked(&self.lock).skip(1);
        if overflow.flat_map(|bucket| bucket.fingerprints().occupied()).next().is_none() {
            self.lock.home.set_overflows(false);
        }
    }
}
