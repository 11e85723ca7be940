//! A bucket, which is one cache line of slots: its layout, its control word, access to its
//! fingerprints, and its lock. The lock of a home bucket covers the bucket and its overflow.

use super::fingerprint::{EMPTY, Fingerprints, SLOTS, WORD_FINGERPRINTS};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::primitives::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::primitives::{Wait, ordering_unless_seeded, seeded};
use std::mem::ManuallyDrop;

/// The fingerprint of a hash: its low byte, but never that of an empty slot.
#[inline]
pub fn fingerprint_of(hash: Hash32) -> u8 {
    (hash.raw() as u8).max(1)
}

/// The control word as it was read. From the low bits up it contains:
///
/// * bits 0..16: the fingerprints of the last slots;
/// * [`Ctrl::LOCKED`], [`Ctrl::MOVED`], [`Ctrl::OVERFLOWS`];
/// * the version in the remaining 45 bits. At 20 million changes of one bucket per second the
///   version wraps around after 20 days.
#[derive(Clone, Copy)]
pub struct Ctrl(u64);

impl Ctrl {
    /// A writer is working in this bucket or its overflow.
    const LOCKED: u64 = 1 << 16;
    /// The entries are in the next table. The contents of this bucket are for readers that came
    /// earlier.
    const MOVED: u64 = 1 << 17;
    /// The overflow has entries, or had some a moment ago.
    const OVERFLOWS: u64 = 1 << 18;
    /// One step of the version, which occupies this bit and all higher ones.
    const VERSION: u64 = 1 << 19;

    #[inline]
    pub fn is_locked(self) -> bool {
        self.0 & Self::LOCKED != 0
    }

    #[inline]
    pub fn is_moved(self) -> bool {
        self.0 & Self::MOVED != 0
    }

    #[inline(always)]
    pub fn overflows(self) -> bool {
        self.0 & Self::OVERFLOWS != 0
    }
}

/// Ten slots in one cache line. A slot is empty (fingerprint and id are 0) or names a node.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Bucket {
    fingerprints: AtomicU64,
    ctrl: AtomicU64,
    /// Only [`memory`](super::memory) follows, extends and frees it.
    pub(super) overflow: AtomicPtr<Bucket>,
    ids: [AtomicU32; SLOTS],
}

#[cfg(not(cortado_loom))]
const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

impl Bucket {
    /// Reads the control word. Acquire pairs with `release`: the reader sees everything that the
    /// writer did before it.
    #[inline]
    pub fn ctrl(&self) -> Ctrl {
        Ctrl(self.ctrl.load(Acquire))
    }

    /// Ends the lock. Marks the bucket moved if `moved` is [`Ctrl::MOVED`]. Only the holder may
    /// call it.
    ///
    /// Release pairs with [`Bucket::ctrl`] and [`HomeLock::exactly`].
    #[inline]
    fn release(&self, changed: u64, moved: u64) {
        let unlocked = self.ctrl.load(Relaxed) & !Ctrl::LOCKED;
        let order = ordering_unless_seeded("index-unlock-relaxed", Release);
        self.ctrl.store(unlocked.wrapping_add(changed * Ctrl::VERSION) | moved, order);
    }

    /// Reads the fingerprints. They are hints, and the ids are authoritative (rule 2 of the
    /// [module](super)). Acquire pairs with the stores of fingerprints: a reader that sees the
    /// fingerprint of a slot's new entry does not see the id of its old entry.
    #[inline]
    pub fn fingerprints(&self) -> Fingerprints {
        let order = ordering_unless_seeded("index-tags-relaxed", Acquire);
        Fingerprints { word: self.fingerprints.load(order), ctrl: self.ctrl.load(order) }
    }

    /// [`fingerprints`](Self::fingerprints) for a caller that has just read the control word.
    #[inline]
    pub fn fingerprints_beside(&self, ctrl: Ctrl) -> Fingerprints {
        Fingerprints { word: self.fingerprints.load(Acquire), ctrl: ctrl.0 }
    }

    /// The id in a slot, or [`NodeId::NONE`]. Acquire pairs with the release in [`Bucket::put`] and
    /// [`Bucket::replace`]: the reader sees the node that the id names complete.
    #[inline]
    pub fn id(&self, slot: usize) -> NodeId {
        NodeId::from_raw(self.ids[slot].load(Acquire))
    }

    /// Fills an empty slot. The caller holds the lock, or no other thread can reach the bucket yet.
    #[inline]
    pub fn put(&self, slot: usize, fingerprint: u8, id: NodeId) {
        self.replace(slot, id);
        self.set_fingerprint(slot, fingerprint);
    }

    /// Stores an id in a slot. Release pairs with [`Bucket::id`]. The caller holds the lock.
    #[inline]
    pub fn replace(&self, slot: usize, id: NodeId) {
        let order = ordering_unless_seeded("index-publish-relaxed", Release);
        self.ids[slot].store(id.raw(), order);
    }

    /// Empties a slot. The caller holds the lock.
    #[inline]
    pub fn clear(&self, slot: usize) {
        self.set_fingerprint(slot, EMPTY);
        self.ids[slot].store(NodeId::NONE.raw(), Relaxed);
    }

    /// Whether there is an overflow, with or without entries in it. Only the holder of the lock may
    /// rely on the answer.
    #[inline(always)]
    pub fn has_overflow(&self) -> bool {
        !self.overflow.load(Relaxed).is_null()
    }

    /// Records whether there are entries in the overflow. To be called before the first entry is
    /// put there, and after the last one has left. The caller holds the lock, or no other thread
    /// can reach the bucket yet.
    ///
    /// Release pairs with [`Bucket::ctrl`]: a thread that sees the bit sees what earlier holders
    /// did to the overflow.
    #[cold]
    pub fn set_overflows(&self, overflows: bool) {
        let others = self.ctrl.load(Relaxed) & !Ctrl::OVERFLOWS;
        let bit = if overflows && !seeded("index-overflow-unmarked") { Ctrl::OVERFLOWS } else { 0 };
        self.ctrl.store(others | bit, Release);
    }

    /// Stores the fingerprint of a slot. Release pairs with the loads of
    /// [`fingerprints`](Self::fingerprints). In the control word, a weaker store would also hide
    /// everything that came before it from the readers of the word.
    fn set_fingerprint(&self, slot: usize, fingerprint: u8) {
        let order = ordering_unless_seeded("index-publish-relaxed", Release);
        let with = |word: u64, byte: usize| {
            word & !(0xff << (8 * byte)) | u64::from(fingerprint) << (8 * byte)
        };
        if slot < WORD_FINGERPRINTS {
            self.fingerprints.store(with(self.fingerprints.load(Relaxed), slot), order);
        } else {
            self.ctrl.store(with(self.ctrl.load(Relaxed), slot - WORD_FINGERPRINTS), order);
        }
    }
}

/// Another thread has locked the bucket, or keeps changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketBusy;

/// The lock, held. Dropping it unlocks the bucket, with a new version if anything was changed.
///
/// `changed` is a number where an `enum` would do: a type without padding and unused values is kept
/// in registers.
pub struct HomeLock<'g> {
    pub home: &'g Bucket,
    /// 1 if anything was changed, else 0.
    changed: u64,
}

impl<'g> HomeLock<'g> {
    /// Locks a bucket if its control word is still exactly `seen`.
    ///
    /// Acquire pairs with [`Bucket::release`]: the holder sees everything that earlier holders did.
    /// Rule 6 of the [module](super) explains why the loads *before* this one are current, too.
    #[inline(always)]
    pub fn exactly(home: &'g Bucket, seen: Ctrl) -> Option<Self> {
        let ignores_version = seeded("index-lock-ignores-version");
        let seen = if ignores_version { home.ctrl().0 & !Ctrl::LOCKED } else { seen.0 };
        let locked = home.ctrl.compare_exchange(seen, seen | Ctrl::LOCKED, Acquire, Relaxed);
        locked.is_ok().then(|| Self { home, changed: 0 })
    }

    /// Locks a bucket, whatever its control word is. Only for the mover of the bucket, or of ids
    /// that go into it: such a bucket has not moved.
    ///
    /// # Errors
    ///
    /// [`BucketBusy`] if another thread has locked the bucket, and `wait` is over.
    pub fn acquire(home: &'g Bucket, wait: &mut Wait) -> Result<Self, BucketBusy> {
        loop {
            let seen = home.ctrl();
            debug_assert!(!seen.is_moved(), "rule 7: one mover moves a bucket, once");
            if !seen.is_locked()
                && let Some(lock) = Self::exactly(home, seen)
            {
                return Ok(lock);
            }
            if !wait.pause() {
                return Err(BucketBusy);
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
        let home = ManuallyDrop::new(self).home;
        home.release(1, Ctrl::MOVED);
        home
    }
}

impl Drop for HomeLock<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.home.release(self.changed, 0);
    }
}
