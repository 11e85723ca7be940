//! Node ids, and the links that lists and the wheel keep inside the nodes.
//!
//! A `u32` id names a node. The mechanisms never see a node. Through a store they see the pair of
//! links that belongs to them, and the other values that their trait asks for. Only the holder of
//! the maintenance lock writes links, so relaxed loads and stores are enough. The links are
//! atomics. So a stale id can cost hit rate but never memory safety, and no mechanism needs
//! `unsafe`.

use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::guarded::GuardedU32;

/// The id that names no node. It is never handed out.
pub const NIL: u32 = 0;

/// The first reserved id. Ids at or above it never name a node; mechanisms may use them for list
/// heads and marks.
pub const FIRST_RESERVED: u32 = 1 << 31;

/// One pair of intrusive links.
#[derive(Debug, Default)]
pub struct Links {
    prev: GuardedU32,
    next: GuardedU32,
}

impl Links {
    /// Links of an unlinked node: both ends are [`NIL`].
    pub fn new() -> Self {
        Self { prev: GuardedU32::new(NIL), next: GuardedU32::new(NIL) }
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
