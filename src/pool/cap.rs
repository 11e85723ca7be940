//! When an entry of a cache with an idle time ends although it is read.

use crate::clock::NEVER;
use crate::node::Meta;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A node's cap. Most nodes of most caches have none, which a bit beside the deadline says: the
/// word, in a cache line of its own, is looked at only if there is one.
#[derive(Clone, Copy)]
pub struct Cap<'p> {
    pub(super) meta: &'p Meta,
    pub(super) word: &'p AtomicU64,
}

impl Cap<'_> {
    /// The cap; [`NEVER`] if there is none.
    #[inline]
    pub fn load(self) -> u64 {
        if self.meta.is_capped() { self.word.load(Ordering::Acquire) } else { NEVER }
    }

    /// Sets the cap: before publication, or under the bucket's lock, in both cases before the
    /// deadline that follows from it. `always` keeps the word also if it says never: for caches
    /// whose reads [exchange](Self::exchange) it.
    #[inline]
    pub fn store(self, cap: u64, always: bool) {
        if always || cap != NEVER || self.meta.is_capped() {
            self.word.store(cap, Ordering::Release);
            self.meta.set_capped();
        }
    }

    /// Sets the cap if it is as judged; without a lock, by a read whose hook gave another lifetime.
    #[inline]
    pub fn exchange(self, judged: u64, cap: u64) -> bool {
        debug_assert!(self.meta.is_capped(), "a cap that reads change is always kept");
        self.word.compare_exchange(judged, cap, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
