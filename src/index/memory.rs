//! Where pointers are followed: tables, their memory, and overflow buckets. All of the index's
//! `unsafe` is here; the rules cited are those of the [module](super).
#![expect(unsafe_code, reason = "tables and overflow buckets live until the epoch lets go of them")]

use std::ops::Deref;
use std::{mem, ptr};

use crate::epoch::Guard;
use crossbeam_epoch::{Atomic, Owned, Shared};

use super::bucket::{Bucket, Ctrl};
use super::lock::HomeLock;
use super::outgrown::Outgrown;
use super::table::Table;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Arc, seeded};
#[cfg(not(cortado_loom))]
use crate::system;

/// The pointer that owns a table: the index's `current`, or a table's `next`.
#[derive(Debug, Default)]
pub struct TableLink(Atomic<Table>);

impl TableLink {
    pub fn new(table: Table) -> Self {
        Self(Atomic::new(table))
    }

    /// The table, if there is one. Acquire pairs with [`TableLink::install`] and
    /// [`Root::advance`].
    #[inline]
    pub fn get<'g>(&'g self, guard: &'g Guard) -> Option<&'g Table> {
        debug_assert!(
            guard.collector() == Some(crate::epoch::collector()),
            "rule 8: the index is used under the default collector"
        );
        // SAFETY: rule 8: `guard` keeps a table that was reachable from being freed.
        unsafe { self.0.load(Acquire, guard).as_ref() }
    }

    /// Sets an empty link; drops `table` if another was faster. Release pairs with
    /// [`TableLink::get`]: the table is seen complete.
    pub fn install(&self, table: Table, guard: &Guard) {
        let null = Shared::null();
        drop(self.0.compare_exchange(null, Owned::new(table), Release, Relaxed, guard));
    }
}

impl Drop for Table {
    /// The buckets that have not moved own their overflow (rule 9). A table is retired when all
    /// have moved, so whoever clears it away does not walk it, nor look at what was given back.
    fn drop(&mut self) {
        if self.is_finished() {
            return;
        }
        for bucket in self.buckets().iter().filter(|bucket| !bucket.ctrl().is_moved()) {
            // SAFETY: rule 9: the bucket has not moved, so the chain is its own; nobody else is
            // here (`&mut self`), and the pointer was taken out.
            unsafe { free_chain(bucket.overflow.swap(ptr::null_mut(), Relaxed)) };
        }
    }
}

/// The index's hold on its tables.
#[derive(Debug)]
pub struct Root {
    current: TableLink,
    outgrown: Arc<Outgrown>,
}

impl Root {
    pub fn new(table: Table) -> Self {
        Self { current: TableLink::new(table), outgrown: Arc::new(Outgrown::new()) }
    }

    pub fn outgrown(&self) -> &Outgrown {
        &self.outgrown
    }

    /// The table at which every search begins.
    #[inline]
    pub fn current<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        self.current.get(guard).expect("the index has a table from its making to its drop")
    }

    /// Passes on from `done`, all of whose buckets have moved, to the table after it, and retires
    /// it. By the helper that moved the last bucket, so only once, with [`Table::moving`] still
    /// locked.
    ///
    /// Release pairs with [`TableLink::get`]: who finds the new table here sees what all helpers
    /// put into it (that lock has gathered it).
    pub fn advance(&self, done: &Table, guard: &Guard) {
        // Acquire pairs with `TableLink::install`.
        let next = done.next().0.load(Acquire, guard);
        assert!(!next.is_null(), "buckets move when there is a table to move to");
        let old = self.current.0.swap(next, Release, guard);
        assert!(ptr::eq(old.as_raw(), done), "rule 7: only buckets of the current table move");
        if seeded("index_free_without_grace") {
            done.buckets().iter().for_each(wipe);
        }
        self.outgrown.begin();
        let outgrown = Arc::clone(&self.outgrown);
        // SAFETY: rule 8: the swap took `old` out of the one link to it, so that only threads
        // that are pinned now can know it, and made this thread the one to retire it. So the
        // closure, which runs when they are not any more, may own it; it has all that it
        // touches, on whichever thread.
        unsafe { guard.defer_unchecked(move || outgrown.leave(old.into_owned().into_box())) };
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let mut link = mem::take(&mut self.current);
        // SAFETY: rule 8: the link owns its table, and nobody else is here (`&mut self`).
        while let Some(mut table) = unsafe { link.0.try_into_owned() } {
            link = mem::take(table.next_mut());
        }
    }
}

/// A home bucket and its overflow, for scanning. Having one is the proof that rule 9 asks for.
#[derive(Clone)]
pub struct Chain<'g>(Option<&'g Bucket>);

impl<'g> Chain<'g> {
    /// Opens a home bucket; `None` if its entries have moved to the next table.
    #[inline]
    pub fn open(home: &'g Bucket) -> Option<(Ctrl, Self)> {
        let ctrl = home.ctrl();
        (!ctrl.is_moved()).then_some((ctrl, Self(Some(home))))
    }

    /// The buckets of a chain that has just been opened, with this control word, in which there are
    /// entries.
    #[inline(always)]
    pub fn in_use(self, ctrl: Ctrl) -> impl Iterator<Item = &'g Bucket> + Clone {
        self.take(if ctrl.overflows() { usize::MAX } else { 1 })
    }

    /// The chain of a bucket that is locked, hence has not moved.
    pub fn locked(lock: &HomeLock<'g>) -> Self {
        Self(Some(lock.home()))
    }
}

impl<'g> Iterator for Chain<'g> {
    type Item = &'g Bucket;

    #[inline]
    fn next(&mut self) -> Option<&'g Bucket> {
        let bucket = self.0?;
        self.0 = follow(bucket);
        Some(bucket)
    }
}

/// The overflow of a bucket. Acquire pairs with [`append`]: the bucket is seen complete.
#[inline]
fn follow(bucket: &Bucket) -> Option<&Bucket> {
    // SAFETY: rule 9: callers hold a `Chain` (its home was seen unmoved under the pin that its
    // lifetime stands for) or have just appended under the lock.
    unsafe { bucket.overflow.load(Acquire).as_ref() }
}

/// Extends a chain by an empty bucket. By the holder of the lock, or before the chain can be
/// reached. Release pairs with [`follow`].
pub fn append(tail: &Bucket) -> &Bucket {
    tail.overflow.store(Box::into_raw(Box::new(Bucket::new())), Release);
    follow(tail).expect("it was set in the line above")
}

/// The overflow of a bucket, taken off by the holder of its lock when no entry was in it. To be
/// [kept](Spares::keep), or its memory is lost.
#[derive(Debug)]
#[must_use = "it is to be retired"]
pub struct Spare(ptr::NonNull<Bucket>);

impl Spare {
    /// Takes the overflow off a locked bucket, if it has one.
    pub fn take(lock: &HomeLock<'_>) -> Option<Self> {
        debug_assert!(!lock.home().ctrl().overflows(), "there are entries in it");
        ptr::NonNull::new(lock.home().overflow.swap(ptr::null_mut(), Relaxed)).map(Self)
    }
}

/// Overflows that were taken off, to be retired together: what is left to the epoch one by one
/// keeps the rest waiting when there is much of it, as after a guard was held for long.
#[derive(Debug, Default)]
pub struct Spares(Vec<Spare>);

// SAFETY: rule 9: the chains are its own, and what frees them in the end may be any thread.
unsafe impl Send for Spares {}

impl Spares {
    /// Keeps one until the next [`retire`](Self::retire).
    #[inline]
    pub fn keep(&mut self, spare: Spare) {
        self.0.push(spare);
    }

    /// Leaves them to the epoch. With no bucket locked.
    pub fn retire(&mut self, guard: &Guard) {
        if self.0.is_empty() {
            return;
        }
        let spares = mem::take(&mut self.0);
        // SAFETY: rule 9: the holders of the locks took them off, so that only threads that are
        // pinned now can reach the chains, and nobody else frees them, on whichever thread
        // it is.
        unsafe {
            guard.defer_unchecked(move || spares.iter().for_each(|it| free_chain(it.0.as_ptr())))
        };
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            self.retire(&crate::epoch::pin());
        }
    }
}

/// Marks a bucket moved, unlocks it, and retires its overflow.
pub fn retire_moved(lock: HomeLock<'_>, guard: &Guard) {
    let home = lock.release_moved();
    // Relaxed: the lock's holder has seen all of the chain.
    let overflow = home.overflow.load(Relaxed);
    if overflow.is_null() {
        return;
    }
    if seeded("index_chain_without_grace") {
        follow(home).into_iter().for_each(wipe);
    }
    // SAFETY: rule 9: the bucket has moved, by the one holder of its lock, so that only threads
    // that are pinned now can reach the chain, and nobody else frees it, on whichever thread it
    // is.
    unsafe { guard.defer_unchecked(move || free_chain(overflow)) };
}

/// Frees overflow buckets, in a loop: a chain may be long.
///
/// # Safety
///
/// The chain is the caller's alone.
unsafe fn free_chain(first: *mut Bucket) {
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the caller guarantees that nobody else can reach it; `append` made it of a box.
        let bucket = unsafe { Box::from_raw(next) };
        next = bucket.overflow.load(Relaxed);
    }
}

/// What a seeded bug does in place of freeing too early.
fn wipe(bucket: &Bucket) {
    bucket.tags().occupied().for_each(|slot| bucket.clear(slot));
}

/// The home buckets of a table, zeroed without being touched.
///
/// A big table must not stall the caller that happens to start its growth. Fresh memory from the
/// operating system is zero already, and the system allocator makes use of that (`calloc`) only up
/// to its natural alignment: asked for 64 it would write every page. So the memory is one of
/// `u64`s, with a slack of seven of them to reach a cache line.
#[cfg(not(cortado_loom))]
#[derive(Debug)]
pub struct Buckets {
    memory: *mut [u64],
    first: *const Bucket,
    len: usize,
    /// Bytes from the beginning of the memory that were not given back.
    kept: usize,
}

#[cfg(not(cortado_loom))]
impl Buckets {
    const WORDS: usize = size_of::<Bucket>() / size_of::<u64>();

    pub fn new(len: usize) -> Self {
        let memory = vec![0_u64; len * Self::WORDS + (Self::WORDS - 1)].into_boxed_slice();
        let memory = Box::into_raw(memory);
        let base = memory.cast::<u8>();
        let first = base.wrapping_add(base.align_offset(align_of::<Bucket>())).cast::<Bucket>();
        Self { memory, first, len, kept: size_of::<u64>() * memory.len() }
    }

    /// See [`Table::give_back`].
    pub fn give_back(&mut self, bytes: usize) -> bool {
        let Some(kept) = self.kept.checked_sub(bytes).filter(|_| system::GIVES_BACK) else {
            return false;
        };
        let Some(start) = ptr::NonNull::new(self.memory.cast::<u8>()) else { return false };
        self.kept = kept;
        // SAFETY: rule 8: the grace period is over and the table out of the queue, so it is ours
        // alone (`&mut self`). Rule 10: the piece is part of its one allocation, and
        // buckets may be zero.
        unsafe { system::give_back(start.add(kept), bytes) };
        true
    }
}

#[cfg(not(cortado_loom))]
impl Deref for Buckets {
    type Target = [Bucket];

    #[inline]
    fn deref(&self) -> &[Bucket] {
        // SAFETY: rule 10: `len` buckets from `first` lie inside `memory`, are aligned and began as
        // zeros, which is a valid `Bucket`: integers and a null pointer.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

#[cfg(not(cortado_loom))]
impl Drop for Buckets {
    fn drop(&mut self) {
        // SAFETY: rule 10: `memory` came out of a box in `new` and is given back this once.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

// SAFETY: rule 10: `Buckets` owns its memory as a `Box<[Bucket]>` would, and that is `Send`.
#[cfg(not(cortado_loom))]
unsafe impl Send for Buckets {}
// SAFETY: as above; and that is `Sync`: all of a bucket is atomic.
#[cfg(not(cortado_loom))]
unsafe impl Sync for Buckets {}

/// The home buckets of a table, as the model checker needs them: made one by one.
#[cfg(cortado_loom)]
#[derive(Debug)]
pub struct Buckets(Box<[Bucket]>);

#[cfg(cortado_loom)]
impl Buckets {
    pub fn new(len: usize) -> Self {
        Self((0..len).map(|_| Bucket::new()).collect())
    }

    pub fn give_back(&mut self, _bytes: usize) -> bool {
        false
    }
}

#[cfg(cortado_loom)]
impl Deref for Buckets {
    type Target = [Bucket];

    fn deref(&self) -> &[Bucket] {
        &self.0
    }
}
