//! Ids and the links that lists and wheel keep inside the nodes.
//!
//! A node is named by a `u32` id. The mechanisms never see a node: they see, through a store, the
//! pair of links that belongs to them, and what else their trait asks for. All links are written by
//! the holder of the maintenance lock only, so relaxed loads and stores are enough; being atomics,
//! a stale id can cost hit rate but never memory safety, and no mechanism needs `unsafe`.

use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::carried::AtomicU32;

/// No node: the id that is never handed out.
pub const NIL: u32 = 0;

/// Ids at or above this never name a node: mechanisms may use them for list heads and marks.
pub const FIRST_RESERVED: u32 = 1 << 31;

/// One pair of intrusive links.
#[derive(Debug, Default)]
pub struct Links {
    prev: AtomicU32,
    next: AtomicU32,
}

impl Links {
    /// Unlinked: both ends [`NIL`].
    pub fn new() -> Self {
        Self { prev: AtomicU32::new(NIL), next: AtomicU32::new(NIL) }
    }

    #[inline]
    pub fn prev(&self) -> u32 {
        self.prev.load(Relaxed)
    }

    #[inline]
    pub fn next(&self) -> u32 {
        self.next.load(Relaxed)
    }

    #[inline]
    pub fn set_prev(&self, id: u32) {
        self.prev.store(id, Relaxed);
    }

    #[inline]
    pub fn set_next(&self, id: u32) {
        self.next.store(id, Relaxed);
    }
}
