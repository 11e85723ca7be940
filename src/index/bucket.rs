//! One cache line of slots: layout, the control word, and matching of tags.

use super::tags::Tags;
use crate::links::NIL;
use crate::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::seeded;

/// Tags in the word of their own, and tags in the low bytes of the control word. The model checker
/// gets one of each, so that its few entries reach both kinds and the overflow.
pub const WORD_TAGS: usize = if cfg!(cortado_loom) { 1 } else { 8 };
pub const CTRL_TAGS: usize = if cfg!(cortado_loom) { 1 } else { 2 };
/// Slots of a bucket.
pub const SLOTS: usize = WORD_TAGS + CTRL_TAGS;

/// The tag of an empty slot.
pub const EMPTY: u8 = 0;

/// The tag of a hash: its low byte, but never that of an empty slot.
#[inline]
pub fn tag_of(hash: u32) -> u8 {
    (hash as u8).max(1)
}

/// The control word as it was read: tags of the last slots in bits 0..16, then [`Ctrl::LOCKED`],
/// [`Ctrl::MOVED`], [`Ctrl::OVERFLOWS`], and the version in the 45 bits that are left. At 20
/// million changes of one bucket a second the version comes round after 20 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctrl(u64);

impl Ctrl {
    /// A writer is at work in this bucket or its overflow.
    const LOCKED: u64 = 1 << 16;
    /// The entries live in the next table; what is here is for readers that came before.
    const MOVED: u64 = 1 << 17;
    /// There are entries in the overflow, or have been a moment ago.
    const OVERFLOWS: u64 = 1 << 18;
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

    #[inline]
    fn locked(self) -> Self {
        Self(self.0 | Self::LOCKED)
    }

    /// Open again, with the contents as they were.
    #[inline]
    #[must_use]
    pub fn unlocked(self) -> Self {
        Self(self.0 & !Self::LOCKED)
    }

    /// So many versions later.
    #[inline]
    #[must_use]
    pub fn changed(self, times: u64) -> Self {
        Self(self.0.wrapping_add(times * Self::VERSION))
    }

    #[inline]
    #[must_use]
    pub fn moved(self) -> Self {
        Self(self.0 | Self::MOVED)
    }
}

/// Ten slots in one cache line. A slot is empty (tag and id 0) or names a node.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Bucket {
    tags: AtomicU64,
    ctrl: AtomicU64,
    /// Followed, extended and freed by [`memory`](super::memory) only.
    pub(super) overflow: AtomicPtr<Bucket>,
    ids: [AtomicU32; SLOTS],
}

#[cfg(not(cortado_loom))]
const _: () = assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64);

impl Bucket {
    pub fn new() -> Self {
        Self {
            tags: AtomicU64::new(0),
            ctrl: AtomicU64::new(0),
            overflow: AtomicPtr::new(std::ptr::null_mut()),
            ids: std::array::from_fn(|_| AtomicU32::new(NIL)),
        }
    }

    /// Pairs with [`Bucket::release`]: what the writer did before it is seen.
    #[inline]
    pub fn ctrl(&self) -> Ctrl {
        Ctrl(self.ctrl.load(Acquire))
    }

    /// Locks a bucket that is still exactly as it was `seen`.
    ///
    /// Acquire pairs with [`Bucket::release`]: the holder sees all that earlier holders did. That
    /// the loads *before* this are current, too, is rule 6 of the [module](super).
    #[inline]
    pub fn try_lock(&self, seen: Ctrl) -> bool {
        let seen = if seeded("index_lock_ignores_version") { self.ctrl().unlocked() } else { seen };
        self.ctrl.compare_exchange(seen.0, seen.locked().0, Acquire, Relaxed).is_ok()
    }

    /// Ends the lock with the control word that `end` makes of the present one. By the holder.
    ///
    /// Release pairs with [`Bucket::ctrl`] and [`Bucket::try_lock`].
    #[inline]
    pub fn release(&self, end: impl FnOnce(Ctrl) -> Ctrl) {
        let ctrl = end(Ctrl(self.ctrl.load(Relaxed)));
        let order = if seeded("index_unlock_relaxed") { Relaxed } else { Release };
        self.ctrl.store(ctrl.0, order);
    }

    /// A tag is a hint, the id is the truth (rule 2 of the [module](super)). Acquire pairs with the
    /// stores of tags: who sees that of a slot's new entry does not see its old one's id.
    #[inline]
    pub fn tags(&self) -> Tags {
        let order = if seeded("index_tags_relaxed") { Relaxed } else { Acquire };
        Tags::new(self.tags.load(order), self.ctrl.load(order))
    }

    /// [`tags`](Self::tags) for whoever has just read the control word.
    #[inline]
    pub fn tags_beside(&self, ctrl: Ctrl) -> Tags {
        Tags::new(self.tags.load(Acquire), ctrl.0)
    }

    /// The id in a slot, or [`NIL`]. Acquire pairs with the release in [`Bucket::put`] and
    /// [`Bucket::replace`]: the node that it names is seen complete.
    #[inline]
    pub fn id(&self, slot: usize) -> u32 {
        self.ids[slot].load(Acquire)
    }

    /// Fills an empty slot. By the holder of the lock, or before the bucket can be reached.
    #[inline]
    pub fn put(&self, slot: usize, tag: u8, id: u32) {
        self.replace(slot, id);
        self.set_tag(slot, tag);
    }

    /// Release pairs with [`Bucket::id`]. By the holder of the lock.
    #[inline]
    pub fn replace(&self, slot: usize, id: u32) {
        let order = if seeded("index_publish_relaxed") { Relaxed } else { Release };
        self.ids[slot].store(id, order);
    }

    /// Empties a slot. By the holder of the lock.
    #[inline]
    pub fn clear(&self, slot: usize) {
        self.set_tag(slot, EMPTY);
        self.ids[slot].store(NIL, Relaxed);
    }

    /// Whether there is an overflow, be there entries in it or not. To be relied on by the holder
    /// of the lock only.
    #[inline(always)]
    pub fn has_overflow(&self) -> bool {
        !self.overflow.load(Relaxed).is_null()
    }

    /// Says whether there are entries in the overflow: before the first one is put there, and after
    /// the last one has left. By the holder of the lock, or before the bucket can be reached.
    ///
    /// Release pairs with [`Bucket::ctrl`]: who sees the bit sees what earlier holders did to the
    /// overflow.
    #[cold]
    pub fn set_overflows(&self, overflows: bool) {
        let others = self.ctrl.load(Relaxed) & !Ctrl::OVERFLOWS;
        let bit = if overflows && !seeded("index_overflow_unmarked") { Ctrl::OVERFLOWS } else { 0 };
        self.ctrl.store(others | bit, Release);
    }

    /// Release pairs with the loads of [`tags`](Self::tags); and in the control word a weaker store
    /// would hide what came before it from those who read it.
    fn set_tag(&self, slot: usize, tag: u8) {
        let order = if seeded("index_publish_relaxed") { Relaxed } else { Release };
        let with =
            |word: u64, byte: usize| word & !(0xff << (8 * byte)) | u64::from(tag) << (8 * byte);
        if slot < WORD_TAGS {
            self.tags.store(with(self.tags.load(Relaxed), slot), order);
        } else {
            self.ctrl.store(with(self.ctrl.load(Relaxed), slot - WORD_TAGS), order);
        }
    }
}
