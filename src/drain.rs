//! The drain status: one word that says whether a maintenance pass is required or running.
//!
//! ```text
//!               request
//!      IDLE ───────────────► REQUIRED ◄─────────────────────────┐
//!      ▲  │                     │                               │
//!      │  └───────┐   ┌─────────┘                               │ finish(either),
//!      │    begin ▼   ▼ begin                                   │ unwinding
//!      │   PROCESSING_TO_IDLE ────── request ─────► PROCESSING_TO_REQUIRED
//!      │          │   │
//!      └──────────┘   └───► REQUIRED
//!   finish(Nothing)     finish(More), unwinding
//! ```
//!
//! The client also has a mutex, the maintenance lock. Its holder runs the pass.
//!
//! # Rules
//!
//! 1. A thread that leaves work behind (an event in a buffer) calls
//!    [`request`](DrainStatus::request) *after* leaving it. [`Request::Run`] means that no pass is
//!    running: the caller tries the lock and runs a pass, now or soon. [`Request::HandedOver`]
//!    means that the running pass takes care of the request.
//! 2. The holder of the maintenance lock calls [`begin`](DrainStatus::begin) *before* it looks at
//!    the buffers. It calls [`Processing::finish`] before it releases the lock.
//! 3. A pass is bounded. A pass that leaves work behind ends with [`Remaining::More`].
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
//! | | | `should_drain`, `status` | Relaxed | nothing: a hint; the lock synchronises |
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

/// The decoded word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No pass is wanted or running.
    Idle,
    /// A pass is wanted, and none is running.
    Required,
    /// A pass is running, and nothing is wanted after it.
    ProcessingToIdle,
    /// A pass is running, and another one is wanted after it.
    ProcessingToRequired,
}

impl Status {
    fn of(word: u32) -> Self {
        match word & (PROCESSING | REQUIRED) {
            0 => Self::Idle,
            REQUIRED => Self::Required,
            PROCESSING => Self::ProcessingToIdle,
            _ => Self::ProcessingToRequired,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Request {
    /// No pass is running: the caller may run one.
    Run,
    /// The running pass will leave `REQUIRED` behind, for its own thread or the next operation.
    HandedOver,
}

/// How urgently a caller wants a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urge {
    /// The caller runs a pass only if one is already required.
    Delayable,
    /// The caller runs a pass unless one is running.
    Now,
}

/// What a pass leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// The pass found the buffers empty.
    Nothing,
    /// The pass used up its budget, or work arrived that it did not look at.
    More,
}

/// See the [module](self).
#[derive(Debug)]
pub struct DrainStatus {
    word: AtomicU32,
}

impl Default for DrainStatus {
    fn default() -> Self {
        Self::new()
    }
}

impl DrainStatus {
    /// Creates an idle status.
    pub fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// Ensures that some thread begins a pass after this call. See rule 1.
    pub fn request(&self) -> Request {
        let order = ordering_unless_seeded("drain-request-is-relaxed", AcqRel);
        match Status::of(self.word.fetch_or(REQUIRED, order)) {
            Status::Idle | Status::Required => Request::Run,
            Status::ProcessingToIdle | Status::ProcessingToRequired => Request::HandedOver,
        }
    }

    /// Whether the caller should try the maintenance lock now. This is a hint that costs one load.
    #[inline]
    pub fn should_drain(&self, urge: Urge) -> bool {
        match self.status() {
            Status::Idle => urge == Urge::Now,
            Status::Required => true,
            Status::ProcessingToIdle | Status::ProcessingToRequired => false,
        }
    }

    /// The status, which may already have changed when this returns.
    #[inline]
    pub fn status(&self) -> Status {
        Status::of(self.word.load(Relaxed))
    }

    /// Begins a pass. The caller holds the maintenance lock until the pass has ended.
    pub fn begin(&self) -> Processing<'_> {
        let before = self.word.swap(PROCESSING, AcqRel);
        debug_assert!(before & PROCESSING == 0, "two passes at once");
        Processing { status: self }
    }

    /// Ends the pass. Returns the status that it leaves behind: `Idle` or `Required`.
    fn end(&self, left: Remaining) -> Status {
        let before = match left {
            Remaining::Nothing if seeded("drain-finish-overwrites-required") => {
                self.word.swap(0, AcqRel) & PROCESSING
            }
            Remaining::Nothing => self.word.fetch_and(!PROCESSING, AcqRel),
            Remaining::More => self.word.swap(REQUIRED, AcqRel) | REQUIRED,
        };
        Status::of(before & !PROCESSING)
    }
}

/// A running pass. If its code unwinds, it leaves `REQUIRED` behind.
#[derive(Debug)]
#[must_use = "dropping a pass means that it was broken off"]
pub struct Processing<'a> {
    status: &'a DrainStatus,
}

impl Processing<'_> {
    /// Ends the pass. Returns the status that it leaves behind: `Idle` or `Required`.
    pub fn finish(self, left: Remaining) -> Status {
        let status = self.status;
        std::mem::forget(self);
        status.end(left)
    }
}

impl Drop for Processing<'_> {
    fn drop(&mut self) {
        self.status.end(Remaining::More);
    }
}
