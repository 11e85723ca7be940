//! The drain status: one word that says whether a maintenance pass is required or running.
//!
//! ```text
//!               request
//!      IDLE ───────────────► REQUIRED ◄─────────────────────────┐
//!      ▲  │                     │                               │
//!      │  └───────┐   ┌─────────┘                               │ finish,
//!      │    begin ▼   ▼ begin                                   │ unwinding
//!      │   PROCESSING_TO_IDLE ────── request ─────► PROCESSING_TO_REQUIRED
//!      │          │   │
//!      └──────────┘   └───► REQUIRED
//!   finish(false)       finish(true), unwinding
//! ```
//!
//! The client also has a mutex, the maintenance lock. Its holder runs the pass.
//!
//! # Rules
//!
//! 1. A thread that leaves work behind (an event in a buffer) calls
//!    [`request`](DrainStatus::request) *after* leaving it. If no pass is running
//!    ([`is_required`](DrainStatus::is_required)), this thread, a later operation or the scheduler
//!    tries the lock and runs a pass. A running pass leaves `REQUIRED` behind, for its own thread
//!    or the next operation.
//! 2. The holder of the maintenance lock calls [`begin`](DrainStatus::begin) *before* it looks at
//!    the buffers. It calls [`Processing::finish`] before it releases the lock.
//! 3. A pass is bounded. A pass that leaves work behind says so when it ends.
//! 4. Between the end of a pass and the release of the lock, other threads see that no pass is
//!    running, but find the lock taken. A request that they make in that moment remains `REQUIRED`:
//!    the next operation or the scheduler runs it.
//!
//! Then **no request is lost**. All transitions are read-modify-writes of one word, so there are
//! three cases:
//!
//! * The request comes before a `begin`. The pass then sees the work that was left before the
//!   request (release and acquire).
//! * The request comes during a pass, which then ends in `REQUIRED`.
//! * The request comes after a pass, and makes the word `REQUIRED`.
//!
//! Only a `begin` leaves `REQUIRED`.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `word` | requesters: `fetch_or` of the low bit | `begin` | AcqRel with AcqRel | the work that was left before the request |
//! | | the lock's holder: `swap` in `begin`, `fetch_and` or `swap` in `finish` | requesters | AcqRel with AcqRel | what was done before a `begin`, to a requester that comes after it |
//! | | | `is_required` | Relaxed | nothing: a hint; the lock synchronises |
//!
//! # Alternatives that lost
//!
//! * Compare-exchange loops and plain stores, as in Caffeine: with one bit for *required* and one
//!   for *running*, each transition is one unconditional instruction.
//! * Returning from a request after a mere load that shows `REQUIRED` or `PROCESSING_TO_REQUIRED`:
//!   the load may be stale, and the pass that it relies on long over.

use crate::primitives::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Relaxed};
use crate::primitives::{ordering_unless_seeded, seeded};

/// This bit says that another pass is wanted, after the one that may be running.
const REQUIRED: u32 = 0b01;
/// This bit says that a pass is running.
const PROCESSING: u32 = 0b10;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct DrainStatus {
    word: AtomicU32,
}

impl DrainStatus {
    /// Ensures that some thread begins a pass after this call. See rule 1.
    pub fn request(&self) {
        let order = ordering_unless_seeded("drain-request-is-relaxed", AcqRel);
        self.word.fetch_or(REQUIRED, order);
    }

    /// Whether a pass is required and not begun: the caller should try the maintenance lock now.
    /// This is a hint that costs one load.
    #[inline]
    pub fn is_required(&self) -> bool {
        self.word.load(Relaxed) & (PROCESSING | REQUIRED) == REQUIRED
    }

    /// Begins a pass. The caller holds the maintenance lock until the pass has ended.
    pub fn begin(&self) -> Processing<'_> {
        let before = self.word.swap(PROCESSING, AcqRel);
        debug_assert!(before & PROCESSING == 0, "two passes at once");
        Processing { status: self }
    }

    /// Ends the pass, which requires another one if it `leaves_work` behind.
    fn end(&self, leaves_work: bool) {
        if leaves_work {
            self.word.swap(REQUIRED, AcqRel);
        } else if seeded("drain-finish-overwrites-required") {
            self.word.swap(0, AcqRel);
        } else {
            self.word.fetch_and(!PROCESSING, AcqRel);
        }
    }
}

/// A running pass. If its code unwinds, it leaves `REQUIRED` behind.
#[must_use = "dropping a pass means that it was broken off"]
pub struct Processing<'a> {
    status: &'a DrainStatus,
}

impl Processing<'_> {
    /// Ends the pass. It leaves work behind if it has used up its budget, or if work arrived that
    /// it did not look at.
    pub fn finish(self, leaves_work: bool) {
        let status = self.status;
        std::mem::forget(self);
        status.end(leaves_work);
    }
}

impl Drop for Processing<'_> {
    fn drop(&mut self) {
        self.status.end(true);
    }
}
