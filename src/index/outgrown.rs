//! Tables that the index has moved from: outgrown, or too large since. When nobody can be in one
//! any more its memory goes back to the system piece by piece, so that no operation has to give
//! back all of a large one: 64 MiB take some 3 ms. (Where the system takes none back while
//! addresses stay, and at the end of the cache, the memory is freed in one go.)

use super::table::Table;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::queue::SegQueue;

/// What [`Outgrown::clear_away`] gives back at a time.
const PIECE: usize = 1 << 19;

/// Their number, and those of them in which nobody is.
#[derive(Debug)]
pub struct Outgrown {
    count: AtomicUsize,
    left: SegQueue<Box<Table>>,
}

impl Outgrown {
    pub fn new() -> Self {
        Self { count: AtomicUsize::new(0), left: SegQueue::new() }
    }

    /// There is one more, and readers may be in it.
    pub fn begin(&self) {
        self.count.fetch_add(1, Relaxed);
    }

    /// The last reader has left it.
    pub fn leave(&self, table: Box<Table>) {
        if cfg!(cortado_loom) {
            // As early as can be: what touched it later would be seen.
            drop(table);
            self.count.fetch_sub(1, Relaxed);
        } else {
            self.left.push(table);
        }
    }

    /// How many there are, of which nobody knows how much of their memory is left. Relaxed: it says
    /// when to look after them; the queue carries the tables.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Gives a piece of memory back; true if there is more that could be.
    pub fn clear_away(&self) -> bool {
        if self.count() == 0 {
            return false;
        }
        let Some(mut table) = self.left.pop() else { return false };
        if table.give_back(PIECE) {
            self.left.push(table);
            return true;
        }
        drop(table);
        self.count.fetch_sub(1, Relaxed);
        !self.left.is_empty()
    }
}
