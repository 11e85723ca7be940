//! Who drains the buffers: one word that says whether a maintenance pass is required or running.
//!
//! ```text
//!               request
//!      IDLE ───────────────► REQUIRED ◄─────────────────────────┐
//!      ▲  │                     │                               │
//!      │  └───────┐   ┌─────────┘                               │ finish(either),
//!      │    begin ▼   ▼ begin                                   │ broken off
//!      │   PROCESSING_TO_IDLE ────── request ─────► PROCESSING_TO_REQUIRED
//!      │          │   │
//!      └──────────┘   └───► REQUIRED
//!   finish(Nothing)     finish(More), broken off
//! ```
//!
//! Beside it the client has a mutex, the maintenance lock, whose holder runs the pass.
//!
//! # Rules
//!
//! 1. Who leaves work behind (an event in a buffer) calls [`request`](DrainStatus::request) *after*
//!    leaving it. The answer [`Request::Run`] means that nobody is at it: try the lock and run a
//!    pass, now or soon. [`Request::HandedOver`] means that the running pass will see to it.
//! 2. [`begin`](DrainStatus::begin) is called by the holder of the maintenance lock, *before* it
//!    looks at the buffers, and [`Pass::finish`] before the lock is released.
//! 3. A pass is bounded. One that leaves work behind ends with [`Left::More`].
//! 4. Who has released the lock after a pass looks once more at
//!    [`should_drain`](DrainStatus::should_drain): between the end of a pass and the release of the
//!    lock, others find nobody at it and the lock taken. What they requested in that moment remains
//!    `REQUIRED`, and at the latest the next operation or the scheduler runs it.
//!
//! Then **no request is lost**: all transitions are read-modify-writes of one word, so each request
//! comes either before a `begin`, whose pass then sees the work that was left before the request
//! (release and acquire), or during a pass, which ends in `REQUIRED`, or after it and makes it
//! `REQUIRED`. Nothing but a `begin` leaves `REQUIRED`.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `word` | requesters: `fetch_or` of the low bit | `begin` | AcqRel with AcqRel | the work that was left before the request |
//! | | the lock's holder: `swap` in `begin`, `fetch_and` or `swap` in `finish` | requesters | AcqRel with AcqRel | a requester that comes after a `begin` sees what was done before it |
//! | | | `should_drain`, `status` | Relaxed | nothing: a hint; the lock synchronises |
//!
//! # Alternatives that lost
//!
//! * Compare-exchange loops and plain stores, as in Caffeine: with the two questions as two bits
//!   each transition is one unconditional instruction.
//! * Returning from a request after a mere load that shows `REQUIRED` or `PROCESSING_TO_REQUIRED`:
//!   the load may be stale, and the pass that it trusts long over.

use crate::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Relaxed};
use crate::sync::seeded;

/// A pass is wanted after the one that may be running.
const REQUIRED: u32 = 0b01;
/// A pass is running.
const PROCESSING: u32 = 0b10;

/// The word, after the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing to do.
    Idle,
    /// A pass is wanted.
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

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Request {
    /// Nobody is at it: the caller may run the pass.
    Run,
    /// The running pass will leave `REQUIRED` behind, for its holder or the next operation.
    HandedOver,
}

/// How much a caller wants a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urge {
    /// Only if one is required already.
    Delayable,
    /// Unless one is running.
    Now,
}

/// What a pass leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The buffers were found empty.
    Nothing,
    /// The budget was used up, or work arrived that was not looked at.
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
    /// Idle.
    pub fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// Makes sure that a pass begins after this, by someone. See rule 1.
    pub fn request(&self) -> Request {
        let order = if seeded("drain_request_is_relaxed") { Relaxed } else { AcqRel };
        match Status::of(self.word.fetch_or(REQUIRED, order)) {
            Status::Idle | Status::Required => Request::Run,
            Status::ProcessingToIdle | Status::ProcessingToRequired => Request::HandedOver,
        }
    }

    /// Whether to try the maintenance lock now: a hint that costs one load.
    #[inline]
    pub fn should_drain(&self, urge: Urge) -> bool {
        match self.status() {
            Status::Idle => urge == Urge::Now,
            Status::Required => true,
            Status::ProcessingToIdle | Status::ProcessingToRequired => false,
        }
    }

    /// As it was a moment ago.
    #[inline]
    pub fn status(&self) -> Status {
        Status::of(self.word.load(Relaxed))
    }

    /// Begins a pass. The caller holds the maintenance lock until the pass has ended.
    pub fn begin(&self) -> Pass<'_> {
        let before = self.word.swap(PROCESSING, AcqRel);
        debug_assert!(before & PROCESSING == 0, "two passes at once");
        Pass { status: self }
    }

    /// The status left behind: `Idle` or `Required`.
    fn end(&self, left: Left) -> Status {
        let before = match left {
            Left::Nothing if seeded("drain_finish_overwrites_required") => {
                self.word.swap(0, AcqRel) & PROCESSING
            }
            Left::Nothing => self.word.fetch_and(!PROCESSING, AcqRel),
            Left::More => self.word.swap(REQUIRED, AcqRel) | REQUIRED,
        };
        Status::of(before & !PROCESSING)
    }
}

/// A running pass. One that unwinds leaves `REQUIRED` behind.
#[derive(Debug)]
#[must_use = "dropping a pass means that it was broken off"]
pub struct Pass<'a> {
    status: &'a DrainStatus,
}

impl Pass<'_> {
    /// Ends the pass and tells the status left behind, `Idle` or `Required`.
    pub fn finish(self, left: Left) -> Status {
        let status = self.status;
        std::mem::forget(self);
        status.end(left)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.status.end(Left::More);
    }
}
