//! Retired tables: tables that the index has moved from, because they were too small or became too
//! large. When no thread can be in such a table any more, its memory goes back to the system piece
//! by piece. So no operation has to give back all of a large table: 64 MiB take some 3 ms.
//!
//! The memory is freed in one go in two cases: where the system takes no memory back while its
//! addresses stay, and at the end of the cache.

use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::primitives::queue::SegQueue;

/// The number of bytes that [`RetiredTables::free_retired`] gives back at a time.
const PIECE: usize = 1 << 19;

/// A table whose memory can go back to the system piece by piece.
pub trait Retire: Send {
    /// Gives some of the memory back to the system, from the end of a table that no thread is in
    /// any more. Returns false if nothing can be given back in pieces any more.
    fn give_back(&mut self, bytes: usize) -> bool;
}

/// The number of retired tables, and a queue of those that no thread is in any more.
#[derive(Debug)]
pub struct RetiredTables<T> {
    count: AtomicUsize,
    tables: SegQueue<Box<T>>,
}

impl<T: Retire> RetiredTables<T> {
    pub fn new() -> Self {
        Self { count: AtomicUsize::new(0), tables: SegQueue::new() }
    }

    /// Counts one more retired table. Readers may still be in it.
    pub fn begin(&self) {
        self.count.fetch_add(1, Relaxed);
    }

    /// Takes over a table that the last reader has left.
    pub fn leave(&self, table: Box<T>) {
        if cfg!(cortado_loom) {
            // Dropped as early as possible, so that the model checker sees every later access.
            drop(table);
            self.count.fetch_sub(1, Relaxed);
        } else {
            self.tables.push(table);
        }
    }

    /// The number of retired tables. It is not known how much of their memory is left. Relaxed: the
    /// count only tells when to look into the queue; the queue carries the tables.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Gives a piece of memory back. Returns true if more could be given back.
    pub fn free_retired(&self) -> bool {
        if self.count() == 0 {
            return false;
        }
        let Some(mut table) = self.tables.pop() else { return false };
        if table.give_back(PIECE) {
            self.tables.push(table);
            return true;
        }
        drop(table);
        self.count.fetch_sub(1, Relaxed);
        !self.tables.is_empty()
    }
}
