//! What the index has given up while threads may still be in it: tables that it has moved from, and
//! overflow buckets. The rules cited are those of the [module](super).
#![expect(unsafe_code, reason = "grace periods decide when tables and overflow buckets are freed")]

use super::memory::EmptyOverflow;
use super::table::Table;
use crate::epoch::{Grace, next_grace};
use crate::primitives::atomic::AtomicUsize;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::{Mutex, seeded};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// The number of bytes that [`Retired::free`] gives back at a time.
const PIECE: usize = 1 << 19;
/// The number of overflows that [`Retired::free`] frees at a time.
const OVERFLOWS: usize = 256;

/// Tables and overflow buckets in their grace periods, or after them.
///
/// When no thread can be in a table any more, its memory goes back to the system piece by piece. So
/// no operation has to give back all of a large table: 64 MiB take some 3 ms. The memory is freed
/// in one go in two cases: where the system takes no memory back while its addresses stay, and at
/// the end of the cache.
#[derive(Debug, Default)]
pub struct Retired {
    /// The number of things in the state. A hint: it tells when to take the lock.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What waits for its grace period, the oldest first.
    waiting: VecDeque<Waiting>,
    /// A table that no thread is in any more. Its memory is given back.
    free: Option<Box<Table>>,
}

// SAFETY: rules 8 and 9: what is in here is reached by no link of the index. So it is owned by the
// state, which any thread may free once the grace periods are over.
unsafe impl Send for State {}

#[derive(Debug)]
struct Waiting {
    grace: Grace,
    what: What,
}

#[derive(Debug)]
enum What {
    Overflow(EmptyOverflow),
    /// Out of a box.
    Table(NonNull<Table>),
}

impl State {
    fn is_due(&self) -> bool {
        self.waiting.front().is_some_and(|oldest| oldest.grace.is_over())
    }

    fn tables(&self) -> usize {
        let is_table = |waiting: &&Waiting| matches!(waiting.what, What::Table(_));
        self.waiting.iter().filter(is_table).count() + usize::from(self.free.is_some())
    }
}

impl Retired {
    /// Takes over an overflow that no bucket links to any more. The caller holds no bucket.
    pub fn retire_overflow(&self, overflow: EmptyOverflow) {
        if seeded("index-chain-without-grace") {
            overflow.wipe();
        }
        self.push(What::Overflow(overflow));
    }

    /// Takes over a table that no link leads to any more.
    ///
    /// # Safety
    ///
    /// The caller has taken the one link to the table away (rule 8). No reference to the table
    /// outlives the guards of now.
    pub unsafe fn retire_table(&self, table: NonNull<Table>) {
        self.push(What::Table(table));
    }

    fn push(&self, what: What) {
        self.count.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        state.waiting.push_back(Waiting { grace: next_grace(), what });
    }

    /// The number of tables. It is not known how much of their memory is left.
    pub fn tables(&self) -> usize {
        self.state.lock().tables()
    }

    /// The first grace period that anything here waits for.
    pub fn grace(&self) -> Option<Grace> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        self.state.lock().waiting.front().map(|oldest| oldest.grace)
    }

    /// Frees some overflows, and a piece of a table. Returns true if more could be freed.
    pub fn free(&self) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let mut freed = 0;
        while state.free.is_none() && freed < OVERFLOWS && state.is_due() {
            match state.waiting.pop_front().map(|oldest| oldest.what) {
                // SAFETY: rule 9: the bucket no longer links to it, and every thread that was
                // pinned then has dropped its guard.
                Some(What::Overflow(overflow)) => unsafe { overflow.free() },
                Some(What::Table(table)) => {
                    // SAFETY: rule 8: no link leads to the table, and every thread that was pinned
                    // when the last one was taken away has dropped its guard.
                    let table = unsafe { Box::from_raw(table.as_ptr()) };
                    state.free = Some(table);
                }
                None => {}
            }
            freed += usize::from(state.free.is_none());
        }
        if let Some(table) = &mut state.free
            && !table.buckets.give_back(PIECE)
        {
            state.free = None;
            freed += 1;
        }
        self.count.fetch_sub(freed, Relaxed);
        state.free.is_some() || state.is_due()
    }
}

impl Drop for Retired {
    /// The index is being dropped, so no thread is in any of it.
    fn drop(&mut self) {
        for Waiting { what, .. } in self.state.get_mut().waiting.drain(..) {
            match what {
                // SAFETY: rule 9: no thread can reach it (`&mut self`), and nothing else frees it.
                What::Overflow(overflow) => unsafe { overflow.free() },
                // SAFETY: rule 8: no thread can reach it (`&mut self`), and nothing else frees it.
                What::Table(table) => drop(unsafe { Box::from_raw(table.as_ptr()) }),
            }
        }
    }
}
