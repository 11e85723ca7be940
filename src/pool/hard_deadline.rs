//! The hard deadline: when an entry of a cache with an idle time ends even if it is read.

use crate::clock::{NEVER, Timestamp};
use crate::node::Meta;
use crate::primitives::atomic::{
    AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release,
};

/// A node's hard deadline. Most nodes of most caches have none, which a bit in the node's [`Meta`]
/// says. The word is in another cache line than the node, so it is read only if the bit is set.
#[derive(Clone, Copy)]
pub struct HardDeadline<'p> {
    pub(super) meta: &'p Meta,
    pub(super) word: &'p AtomicU64,
}

impl HardDeadline<'_> {
    /// The hard deadline; [`NEVER`] if there is none.
    #[inline]
    pub fn load(self) -> Timestamp {
        if self.meta.has_hard_deadline() {
            Timestamp::from_raw(self.word.load(Acquire))
        } else {
            NEVER
        }
    }

    /// Sets the hard deadline. The caller does so before publication, or under the bucket's lock
    /// and before it sets the deadline that follows from it. `always` stores the word even if it is
    /// [`NEVER`], for caches whose reads [exchange](Self::exchange) it.
    #[inline]
    pub fn store(self, hard_deadline: Timestamp, always: bool) {
        if always || hard_deadline != NEVER || self.meta.has_hard_deadline() {
            self.word.store(hard_deadline.raw(), Release);
            self.meta.set_has_hard_deadline();
        }
    }

    /// [`store`](Self::store) of a published node's. Returns what it was before, also if a read
    /// exchanges it at this moment.
    pub fn replace(self, hard_deadline: Timestamp) -> Timestamp {
        if !self.meta.has_hard_deadline() {
            self.store(hard_deadline, false);
            return NEVER;
        }
        Timestamp::from_raw(self.word.swap(hard_deadline.raw(), AcqRel))
    }

    /// Sets the hard deadline if it is still `judged`. A read whose hook gave another lifetime
    /// calls this, without a lock.
    #[inline]
    pub fn exchange(self, judged: Timestamp, hard_deadline: Timestamp) -> bool {
        debug_assert!(self.meta.has_hard_deadline(), "reads change only a stored hard deadline");
        self.word.compare_exchange(judged.raw(), hard_deadline.raw(), AcqRel, Acquire).is_ok()
    }
}
