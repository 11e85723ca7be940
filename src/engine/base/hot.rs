//! The words that every read looks at beside the index and the node. A pass writes them once at
//! most, so they share a cache line that readers keep.

use crate::clock::{NEVER, Timestamp};
use crate::node::{Generation, Meta, NO_PERIOD};
use crate::primitives::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// See the [module](self).
#[derive(Debug)]
pub struct Hot {
    /// Grows with each `invalidate_all`; nodes carry its low bits.
    generation: AtomicU64,
    /// The generation in which an entry was last published.
    published: AtomicU64,
    /// When the next pass is due.
    next_pass: AtomicU64,
    /// Current record period. A node enters the read buffer at most once per period; `NO_PERIOD`
    /// disables recording.
    record_period: AtomicU8,
    /// Whether reads may change deadlines, which they do without a lock. Relaxed: true is always
    /// safe, and false is final.
    reads_prolong: AtomicBool,
}

impl Hot {
    pub fn new(reads_prolong: bool) -> Self {
        Self {
            generation: AtomicU64::new(Generation::FIRST.raw()),
            published: AtomicU64::new(Generation::FIRST.raw()),
            next_pass: AtomicU64::new(NEVER.raw()),
            record_period: AtomicU8::new(NO_PERIOD),
            reads_prolong: AtomicBool::new(reads_prolong),
        }
    }

    #[inline]
    pub fn generation(&self) -> Generation {
        Generation::from_raw(self.generation.load(Ordering::Acquire))
    }

    /// Makes every node inserted before this call invisible. Does nothing and returns false if more
    /// than `unswept` generations would then lie beyond `swept`.
    pub fn next_generation(&self, swept: Generation, unswept: u64) -> bool {
        let end = swept.raw() + unswept;
        let next = |generation: u64| (generation < end).then_some(generation + 1);
        // One step counts and checks, so concurrent callers cannot count too far.
        self.generation.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// Whether an `invalidate_all` took the node. The caller found the node in the index, or holds
    /// the lock under which it is published. So the node's generation is not newer than the
    /// one that is read here afterwards.
    #[inline(always)]
    pub fn is_cleared(&self, meta: &Meta) -> bool {
        meta.generation() != self.generation().mark()
    }

    /// Notes that an entry of this generation is about to be published. Relaxed: an
    /// `invalidate_all` that has to see it comes after the insert has returned. The number only
    /// grows, since a writer of an older generation may have been held up.
    #[inline(always)]
    pub fn note_published(&self, generation: Generation) {
        if self.published() < generation {
            self.published.fetch_max(generation.raw(), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn published(&self) -> Generation {
        Generation::from_raw(self.published.load(Ordering::Relaxed))
    }

    /// Whether nothing was published since the last `invalidate_all`.
    pub fn is_blank(&self) -> bool {
        let generation = self.generation();
        generation > Generation::FIRST && self.published() < generation
    }

    /// Whether a pass is due at `now`.
    #[inline]
    pub fn is_pass_due(&self, now: Timestamp) -> bool {
        now.raw() >= self.next_pass.load(Ordering::Relaxed)
    }

    /// Requests a pass that begins after this call, at `at` or earlier. Some operation or the
    /// scheduler runs it.
    pub fn request_pass_by(&self, at: Timestamp) {
        // AcqRel pairs with `clear_pass_requests`: a pass that takes this request back sees the
        // work that it was made for.
        self.next_pass.fetch_min(at.raw(), Ordering::AcqRel);
    }

    /// Takes back all requests for a pass: one is beginning.
    pub fn clear_pass_requests(&self) {
        self.next_pass.swap(NEVER.raw(), Ordering::AcqRel);
    }

    #[inline]
    pub fn record_period(&self) -> u8 {
        self.record_period.load(Ordering::Relaxed)
    }

    pub fn set_record_period(&self, period: u8) {
        self.record_period.store(period, Ordering::Relaxed);
    }

    #[inline]
    pub fn reads_prolong(&self) -> bool {
        self.reads_prolong.load(Ordering::Relaxed)
    }

    /// No read changes a deadline from now on.
    pub fn end_prolonging(&self) {
        self.reads_prolong.store(false, Ordering::Relaxed);
    }
}
