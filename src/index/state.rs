//! What an index consists of: the link at which every search begins, what the index has given up
//! while threads may still be in it (tables that it has moved from, and overflow buckets), and the
//! address of the buckets, for prefetching one before the thread has a guard. The rules cited are
//! those of the [module](super).
#![expect(unsafe_code, reason = "grace periods decide when tables and overflow buckets are freed")]

use super::bucket::Bucket;
use super::memory::{Buckets, EmptyOverflow, Preparation, wipe};
use super::table::{Link, Table, bits_for};
use crate::epoch::{Grace, Guard, next_grace};
use crate::hash::Hash32;
use crate::prefetch::prefetch_address;
use crate::primitives::atomic::AtomicUsize;
use crate::primitives::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::primitives::{Mutex, Patience, seeded};
use crossbeam_epoch::Atomic;
use std::collections::VecDeque;
use std::{mem, ptr};

/// The number of bytes that [`Index::free_retired`] gives back at a time.
const PIECE: usize = 1 << 19;
/// The number of overflows that [`Index::free_retired`] frees at a time.
const OVERFLOWS: usize = 256;

/// The index; see the [module](super).
///
/// A method that takes a guard requires one of [`crate::epoch::pin`]. Ids that such a method
/// returns or passes to closures name nodes that are not reclaimed before the guard is dropped.
/// This holds if nodes are retired through the same collector, after they were removed from the
/// index.
pub struct Index {
    current: Link,
    /// The number of things in `retired`. A hint: it tells when to take the lock.
    retired_count: AtomicUsize,
    retired: Mutex<Retired>,
    /// [`Table::hint`] of the current table. Accesses are relaxed, and it is out of date at times:
    /// then the prefetched line is useless, or no longer exists.
    hint: AtomicUsize,
    /// The size of the first table, as a power of two. The index never becomes smaller.
    pub(super) least_bits: u32,
    /// The table to come, while its memory is being zeroed.
    pub(super) preparation: Mutex<Option<Preparation>>,
}

/// Tables and overflow buckets in their grace periods, or after them.
///
/// When no thread can be in a table any more, its memory goes back to the system piece by piece. So
/// no operation has to give back all of a large table: 64 MiB take some 3 ms. The memory is freed
/// in one go in two cases: where the system takes no memory back while its addresses stay, and at
/// the end of the cache.
#[derive(Default)]
struct Retired {
    /// What waits for its grace period, the oldest first.
    waiting: VecDeque<Waiting>,
    /// A table that no thread is in any more. Its memory is given back.
    free: Option<Box<Table>>,
}

// SAFETY: rules 8 and 9: what is in here is reached by no link of the index. So it is owned by this
// value, which any thread may free once the grace periods are over.
unsafe impl Send for Retired {}

struct Waiting {
    grace: Grace,
    what: What,
}

enum What {
    Overflow(EmptyOverflow),
    /// Out of a box. No link leads to it any more (rule 8).
    Table(ptr::NonNull<Table>),
}

impl Retired {
    fn is_due(&self) -> bool {
        self.waiting.front().is_some_and(|oldest| oldest.grace.is_over())
    }
}

impl Index {
    /// An empty index with room for `entries` entries before it has to grow. It never gives up that
    /// room.
    pub fn with_capacity(entries: usize) -> Self {
        let least_bits = bits_for(entries);
        let table = Table::new(Buckets::new(1 << least_bits));
        Self {
            hint: AtomicUsize::new(table.hint()),
            current: Link(Atomic::new(table)),
            retired_count: AtomicUsize::new(0),
            retired: Mutex::default(),
            least_bits,
            preparation: Mutex::new(None),
        }
    }

    /// The table at which every search begins.
    #[inline]
    pub(super) fn current<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        self.current.get(guard).expect("the index has a current table until it is dropped")
    }

    /// Advances `current` from `done`, all of whose buckets have moved, to the next table, and
    /// retires `done`. Called by the helper that moved the last bucket, so only once, with
    /// [`Table::moving`] still locked.
    ///
    /// Release pairs with [`Link::get`]: a thread that finds the new table here sees what all
    /// helpers put into it, because the lock of [`Table::moving`] has gathered that.
    pub(super) fn advance(&self, done: &Table, guard: &Guard) {
        // Acquire pairs with `Link::install`.
        let next = done.next.0.load(Acquire, guard);
        assert!(!next.is_null(), "buckets move only if there is a next table");
        let old = self.current.0.swap(next, Release, guard);
        assert!(ptr::eq(old.as_raw(), done), "rule 7: only buckets of the current table move");
        if seeded("index-free-without-grace") {
            done.buckets.iter().for_each(wipe);
        }
        // Rule 8: the swap took away the only link to the table, and this thread is the one that
        // did so. References to the table end with the guards of now.
        let old = ptr::NonNull::new(old.as_raw().cast_mut()).expect("it is `done`");
        self.retire(What::Table(old));
    }

    /// Updates the hint to the current table, even if `current` advances meanwhile. If it advances
    /// at the very moment, the hint may stay out of date until it advances again.
    pub(super) fn update_hint(&self, guard: &Guard) {
        // The model checker skips the hint, because it has no effect on any result.
        while !cfg!(cortado_loom) {
            let table = self.current(guard);
            self.hint.store(table.hint(), Relaxed);
            if ptr::eq(table, self.current(guard)) {
                break;
            }
        }
    }

    /// Begins to load the home bucket of a hash. Needs no guard, because it follows no pointer.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash32) {
        if cfg!(cortado_loom) {
            return;
        }
        let hint = self.hint.load(Relaxed);
        let low = align_of::<Bucket>() - 1;
        let position = (u64::from(hash.raw()) >> (hint & low)) as usize;
        prefetch_address((hint & !low).wrapping_add(position * size_of::<Bucket>()));
    }

    /// The number of home buckets in the current table.
    pub fn buckets(&self, guard: &Guard) -> usize {
        self.current(guard).buckets.len()
    }

    /// The memory of the home buckets of all tables that are in use.
    pub fn bytes(&self, guard: &Guard) -> usize {
        let current = self.current(guard);
        let next = current.next.get(guard).map_or(0, |next| next.buckets.len());
        (current.buckets.len() + next) * size_of::<Bucket>()
    }

    /// Whether there is work for [`Index::help`].
    pub fn is_moving(&self, guard: &Guard) -> bool {
        self.current(guard).next.get(guard).is_some()
    }

    /// Whether the index is moving, and a helper left a bucket because another thread held it.
    pub fn is_held_up(&self, guard: &Guard) -> bool {
        let moving = self.current(guard).moving.lock_with(Patience::Skip);
        moving.is_some_and(|moving| !moving.held.is_empty())
    }

    /// Takes over what no link leads to any more.
    fn retire(&self, what: What) {
        self.retired_count.fetch_add(1, Relaxed);
        let mut retired = self.retired.lock();
        retired.waiting.push_back(Waiting { grace: next_grace(), what });
    }

    /// Takes over an overflow that
    /// [`Locked::take_empty_overflow`](super::Locked::take_empty_overflow) has returned, or that no
    /// bucket links to any more. The caller holds no bucket.
    pub fn retire_overflow(&self, overflow: EmptyOverflow) {
        if seeded("index-chain-without-grace") {
            overflow.wipe();
        }
        self.retire(What::Overflow(overflow));
    }

    /// The number of tables that the index has moved from, and whose memory is not all freed. It is
    /// not known how much of their memory is left.
    pub fn retired_tables(&self) -> usize {
        let retired = self.retired.lock();
        let is_table = |waiting: &&Waiting| matches!(waiting.what, What::Table(_));
        retired.waiting.iter().filter(is_table).count() + usize::from(retired.free.is_some())
    }

    /// The first grace period that retired tables or overflows wait for. When it is over,
    /// [`free_retired`](Self::free_retired) has something to free.
    pub fn awaited_grace(&self) -> Option<Grace> {
        if self.retired_count.load(Relaxed) == 0 {
            return None;
        }
        self.retired.lock().waiting.front().map(|oldest| oldest.grace)
    }

    /// Frees retired overflows, and gives a piece of a retired table's memory back to the system;
    /// true if there is more to free now.
    pub fn free_retired(&self) -> bool {
        if self.retired_count.load(Relaxed) == 0 {
            return false;
        }
        let mut retired = self.retired.lock();
        let mut freed = 0;
        while retired.free.is_none() && freed < OVERFLOWS && retired.is_due() {
            match retired.waiting.pop_front().map(|oldest| oldest.what) {
                // SAFETY: rule 9: the bucket no longer links to it, and every thread that was
                // pinned then has dropped its guard.
                Some(What::Overflow(overflow)) => unsafe { overflow.free() },
                Some(What::Table(table)) => {
                    // SAFETY: rule 8: no link leads to the table, and every thread that was pinned
                    // when the last one was taken away has dropped its guard.
                    let table = unsafe { Box::from_raw(table.as_ptr()) };
                    retired.free = Some(table);
                }
                None => {}
            }
            freed += usize::from(retired.free.is_none());
        }
        if let Some(table) = &mut retired.free
            && !table.buckets.give_back(PIECE)
        {
            retired.free = None;
            freed += 1;
        }
        self.retired_count.fetch_sub(freed, Relaxed);
        retired.free.is_some() || retired.is_due()
    }
}

impl Drop for Index {
    /// No thread is in any of the tables and overflows.
    fn drop(&mut self) {
        let mut link = mem::take(&mut self.current);
        // SAFETY: rule 8: the link owns its table, and no other thread can reach it (`&mut self`).
        while let Some(mut table) = unsafe { link.0.try_into_owned() } {
            link = mem::take(&mut table.next);
        }
        for Waiting { what, .. } in self.retired.get_mut().waiting.drain(..) {
            match what {
                // SAFETY: rule 9: no thread can reach it (`&mut self`), and nothing else frees it.
                What::Overflow(overflow) => unsafe { overflow.free() },
                // SAFETY: rule 8: no thread can reach it (`&mut self`), and nothing else frees it.
                What::Table(table) => drop(unsafe { Box::from_raw(table.as_ptr()) }),
            }
        }
    }
}
