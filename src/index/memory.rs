//! The code that follows pointers to the memory of tables and to overflow buckets. The rules cited
//! are those of the [module](super).
#![expect(unsafe_code, reason = "the epoch decides when overflow buckets are freed")]

use std::ops::Deref;
use std::ptr;

use super::bucket::{Bucket, Ctrl, HomeLock};
use crate::primitives::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(not(cortado_loom))]
use crate::system;

/// A home bucket and its overflow, for scanning. Having a `Chain` is the proof that rule 9
/// requires.
#[derive(Clone)]
pub struct Chain<'g>(Option<&'g Bucket>);

impl<'g> Chain<'g> {
    /// Opens a home bucket. Returns `None` if its entries have moved to the next table.
    #[inline]
    pub fn open(home: &'g Bucket) -> Option<(Ctrl, Self)> {
        let ctrl = home.ctrl();
        (!ctrl.is_moved()).then_some((ctrl, Self(Some(home))))
    }

    /// The chain of a locked bucket. Being locked, the bucket has not moved.
    pub fn locked(lock: &HomeLock<'g>) -> Self {
        Self(Some(lock.home))
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

/// The overflow of a bucket. Acquire pairs with [`append`]: the reader sees the overflow bucket
/// complete.
#[inline]
fn follow(bucket: &Bucket) -> Option<&Bucket> {
    // SAFETY: rule 9: the caller holds a `Chain`, or has just appended under the lock. For a
    // `Chain`, the home bucket was seen unmoved under the pin that the lifetime of the `Chain`
    // stands for.
    unsafe { bucket.overflow.load(Acquire).as_ref() }
}

/// Extends a chain by an empty bucket. The caller holds the lock, or no other thread can reach the
/// chain yet. Release pairs with [`follow`].
pub fn append(tail: &Bucket) -> &Bucket {
    tail.overflow.store(Box::into_raw(Box::default()), Release);
    follow(tail).expect("the line above has set the pointer")
}

/// The overflow of a bucket that no longer links to it. The caller must pass it to
/// [`Index::retire_overflow`](super::Index::retire_overflow), or its memory leaks.
#[must_use = "it is to be retired"]
pub struct EmptyOverflow(ptr::NonNull<Bucket>);

impl EmptyOverflow {
    /// Takes the overflow off a locked bucket, if it has one. It has no entries.
    pub fn take(lock: &HomeLock<'_>) -> Option<Self> {
        debug_assert!(!lock.home.ctrl().overflows(), "the overflow has entries");
        ptr::NonNull::new(lock.home.overflow.swap(ptr::null_mut(), Relaxed)).map(Self)
    }

    /// Marks a bucket moved and unlocks it. Its overflow, if it has one, is given up with it.
    pub fn of_moved(lock: HomeLock<'_>) -> Option<Self> {
        // Relaxed: the holder of the lock has seen the whole chain.
        ptr::NonNull::new(lock.release_moved().overflow.load(Relaxed)).map(Self)
    }

    /// Frees it, in a loop instead of a recursion, because a chain may be long.
    ///
    /// # Safety
    ///
    /// No thread can reach it any more: its grace period is over, or the index is being dropped.
    pub unsafe fn free(self) {
        let mut next = self.0.as_ptr();
        while !next.is_null() {
            // SAFETY: the caller guarantees that no other thread can reach the bucket, and this is
            // the one owner of the chain (rule 9); `append` made the bucket from a box.
            let bucket = unsafe { Box::from_raw(next) };
            next = bucket.overflow.load(Relaxed);
        }
    }

    /// Empties its first bucket. A seeded bug does this in place of freeing it too early.
    pub fn wipe(&self) {
        // SAFETY: rule 9: it is not freed as long as this value exists.
        wipe(unsafe { self.0.as_ref() });
    }
}

/// Frees the overflow of the buckets that have not moved: they own it (rule 9).
pub fn free_chains(buckets: &mut Buckets) {
    for bucket in buckets.iter().filter(|bucket| !bucket.ctrl().is_moved()) {
        let overflow = ptr::NonNull::new(bucket.overflow.swap(ptr::null_mut(), Relaxed));
        // SAFETY: rule 9: the bucket has not moved, so the chain is its own. No other thread can
        // reach the buckets (`&mut`), and the swap took the pointer out.
        overflow.map(EmptyOverflow).into_iter().for_each(|overflow| unsafe { overflow.free() });
    }
}

/// Empties a bucket. A seeded bug does this instead of freeing the bucket too early.
pub fn wipe(bucket: &Bucket) {
    bucket.fingerprints().occupied().for_each(|slot| bucket.clear(slot));
}

/// The home buckets of a table.
///
/// The memory is allocated as `u64`s, with seven more than needed to reach a cache line boundary.
/// Fresh memory from the operating system is already zero, and the system allocator makes use of
/// that (`calloc`) up to its natural alignment. Asked for an alignment of 64, it would write every
/// page. Tables that an index grows or shrinks to are zeroed by a [`Preparation`] instead.
#[cfg(not(cortado_loom))]
pub struct Buckets {
    memory: *mut [u64],
    first: *const Bucket,
    len: usize,
    /// The number of bytes, from the beginning of the memory, that were not given back.
    kept: usize,
}

#[cfg(not(cortado_loom))]
impl Buckets {
    const WORDS: usize = size_of::<Bucket>() / size_of::<u64>();

    /// The number of words that the memory of so many buckets has: they and the alignment.
    const fn words(len: usize) -> usize {
        len * Self::WORDS + (Self::WORDS - 1)
    }

    pub fn new(len: usize) -> Self {
        Self::of(vec![0; Self::words(len)].into_boxed_slice(), len)
    }

    /// Buckets in this memory, which is zero.
    fn of(memory: Box<[u64]>, len: usize) -> Self {
        debug_assert_eq!(memory.len(), Self::words(len));
        let memory = Box::into_raw(memory);
        let base = memory.cast::<u8>();
        let first = base.wrapping_add(base.align_offset(align_of::<Bucket>())).cast::<Bucket>();
        Self { memory, first, len, kept: size_of::<u64>() * memory.len() }
    }

    /// Gives so many bytes of the memory back to the system, from the end of a table that no thread
    /// is in any more. Returns false if nothing can be given back in pieces any more.
    pub fn give_back(&mut self, bytes: usize) -> bool {
        let Some(kept) = self.kept.checked_sub(bytes).filter(|_| system::GIVES_BACK) else {
            return false;
        };
        let Some(start) = ptr::NonNull::new(self.memory.cast::<u8>()) else { return false };
        self.kept = kept;
        // SAFETY: rule 8: the grace period is over and the table is out of the queue, so it is ours
        // alone (`&mut self`). Rule 10: the piece is part of the table's one allocation, and
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
        // SAFETY: rule 10: `len` buckets from `first` on lie inside `memory`, are aligned, and
        // began as zeros. All zeros is a valid `Bucket`: integers and a null pointer.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

#[cfg(not(cortado_loom))]
impl Drop for Buckets {
    fn drop(&mut self) {
        // SAFETY: rule 10: `memory` came out of a box in `of`, and is given back only here, once.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

// SAFETY: rule 10: `Buckets` owns its memory as a `Box<[Bucket]>` would, and such a box is `Send`.
#[cfg(not(cortado_loom))]
unsafe impl Send for Buckets {}
// SAFETY: as above, and such a box is `Sync`, because every field of a bucket is atomic.
#[cfg(not(cortado_loom))]
unsafe impl Sync for Buckets {}

/// The memory of a table to come, which is zeroed piece by piece: no operation has to zero a large
/// table. 16 MiB take 10 ms if the allocator does not get them from the system.
pub struct Preparation {
    /// The number of buckets.
    pub len: usize,
    words: Vec<u64>,
}

impl Preparation {
    /// The memory of so many buckets, none of it zeroed.
    pub fn new(len: usize) -> Self {
        Self { len, words: Vec::with_capacity(Buckets::words(len)) }
    }

    /// Zeroes so many bytes more. Returns the buckets when all are.
    ///
    /// # Errors
    ///
    /// The preparation, if there is more to zero.
    pub fn zero(mut self, bytes: usize) -> Result<Buckets, Self> {
        let all = Buckets::words(self.len);
        self.words.resize(all.min(self.words.len() + bytes / size_of::<u64>()), 0);
        if self.words.len() < all {
            return Err(self);
        }
        Ok(Buckets::of(self.words.into_boxed_slice(), self.len))
    }
}

/// The home buckets of a table for the model checker, which needs them made one by one.
#[cfg(cortado_loom)]
pub struct Buckets(Box<[Bucket]>);

#[cfg(cortado_loom)]
impl Buckets {
    const fn words(len: usize) -> usize {
        len
    }

    pub fn new(len: usize) -> Self {
        Self::of(Box::default(), len)
    }

    fn of(_memory: Box<[u64]>, len: usize) -> Self {
        Self((0..len).map(|_| Bucket::default()).collect())
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
