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
    /// The number of tables and overflows. A hint: it tells when to take the lock.
    waiting: AtomicUsize,
    /// Made when it is needed: most caches retire nothing for long.
    state: Mutex<Option<Box<State>>>,
}

#[derive(Debug, Default)]
struct State {
    overflows: VecDeque<Leaving<EmptyOverflow>>,
    tables: VecDeque<Leaving<NonNull<Table>>>,
    /// A table that no thread is in any more. Its memory is given back.
    free: Option<Box<Table>>,
}

// SAFETY: rules 8 and 9: what is in here is reached by no link of the index. So it is owned by the
// state, which any thread may free once the grace periods are over.
unsafe impl Send for State {}

/// Something that waits for a grace period.
#[derive(Debug)]
struct Leaving<T> {
    grace: Grace,
    what: T,
}

impl<T> Leaving<T> {
    /// Takes out the oldest of these, if its grace period is over.
    fn pop(waiting: &mut VecDeque<Self>) -> Option<T> {
        let is_over = waiting.front().is_some_and(|oldest| oldest.grace.is_over());
        is_over.then(|| waiting.pop_front()).flatten().map(|oldest| oldest.what)
    }
}

impl Retired {
    /// Takes over an overflow that no bucket links to any more. The caller holds no bucket.
    pub fn retire_overflow(&self, what: EmptyOverflow) {
        if seeded("index-chain-without-grace") {
            what.wipe();
        }
        self.waiting.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        let state = state.get_or_insert_default();
        state.overflows.push_back(Leaving { grace: next_grace(), what });
    }

    /// Takes over a table that no link leads to any more.
    ///
    /// # Safety
    ///
    /// The caller has taken the one link to the table away (rule 8). No reference to the table
    /// outlives the guards of now.
    pub unsafe fn retire_table(&self, what: NonNull<Table>) {
        self.waiting.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        let state = state.get_or_insert_default();
        state.tables.push_back(Leaving { grace: next_grace(), what });
    }

    /// The number of tables. It is not known how much of their memory is left.
    pub fn tables(&self) -> usize {
        let state = self.state.lock();
        let of = |state: &State| state.tables.len() + usize::from(state.free.is_some());
        state.as_deref().map_or(0, of)
    }

    /// The first grace period that anything here waits for.
    pub fn grace(&self) -> Option<Grace> {
        if self.waiting.load(Relaxed) == 0 {
            return None;
        }
        let state = self.state.lock();
        let state = state.as_deref()?;
        let table = state.tables.front().map(|table| table.grace);
        let overflow = state.overflows.front().map(|overflow| overflow.grace);
        table.into_iter().chain(overflow).min()
    }

    /// Frees some overflows, and a piece of a table. Returns true if more could be freed.
    pub fn free(&self) -> bool {
        if self.waiting.load(Relaxed) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let Some(state) = state.as_deref_mut() else { return false };
        let mut overflows = 0;
        while overflows < OVERFLOWS
            && let Some(overflow) = Leaving::pop(&mut state.overflows)
        {
            // SAFETY: rule 9: the bucket no longer links to it, and every thread that was pinned
            // then has dropped its guard.
            unsafe { overflow.free() };
            overflows += 1;
        }
        if state.free.is_none() {
            // SAFETY: rule 8: no link leads to the table, and every thread that was pinned when the
            // last one was taken away has dropped its guard. The table came out of a box.
            state.free = Leaving::pop(&mut state.tables)
                .map(|table| unsafe { Box::from_raw(table.as_ptr()) });
        }
        let mut tables = 0;
        if let Some(table) = &mut state.free
            && !table.buckets.give_back(PIECE)
        {
            state.free = None;
            tables = 1;
        }
        self.waiting.fetch_sub(overflows + tables, Relaxed);
        let is_due = state.tables.front().is_some_and(|table| table.grace.is_over());
        state.free.is_some() || is_due || overflows == OVERFLOWS
    }
}

impl Drop for Retired {
    /// The index is being dropped, so no thread is in any of it.
    fn drop(&mut self) {
        let Some(state) = self.state.get_mut() else { return };
        for Leaving { what, .. } in state.overflows.drain(..) {
            // SAFETY: rule 9: no thread can reach it (`&mut self`), and nothing else frees it.
            unsafe { what.free() };
        }
        for Leaving { what, .. } in state.tables.drain(..) {
            // SAFETY: rule 8: no thread can reach it (`&mut self`), and nothing else frees it.
            drop(unsafe { Box::from_raw(what.as_ptr()) });
        }
    }
}
