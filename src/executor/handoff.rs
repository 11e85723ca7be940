//! The hand-off of one client to an executor: one word that says whether a job of the client is
//! outstanding.
//!
//! ```text
//!        request            begin             request
//! IDLE ───────────► QUEUED ─────────► RUNNING ─────────► RUNNING_AGAIN
//!                      ▲                                       │
//!                      └───────────── finish: Some ────────────┘
//!
//! RUNNING ──── finish: None ────► IDLE
//! QUEUED, RUNNING, RUNNING_AGAIN ──── dropped or panicked ────► IDLE
//! ```
//!
//! | state | `OUT` | `WANTED` | a job | what was requested |
//! |---|---|---|---|---|
//! | idle | 0 | 0 | none | is done, or was left by a job that was dropped or panicked |
//! | queued | 1 | 1 | was given to an executor | will be seen when the job begins |
//! | running | 1 | 0 | runs | was seen when the job began |
//! | running again | 1 | 1 | runs, and another one follows it | will be seen by the one that follows |
//!
//! The word does not distinguish *queued* from *running again*: a request does the same in both
//! states.
//!
//! # Rules
//!
//! 1. A thread that leaves work calls [`request`](Handoff::request) *after* leaving it. If it gets
//!    a [`Ticket`], it must submit a job that owns this ticket.
//! 2. The job calls [`begin`](Ticket::begin) *before* it looks for work, and
//!    [`finish`](Running::finish) when it finds no more. If it gets a ticket from `finish`, it must
//!    submit another job.
//! 3. A job that leaves work behind on purpose (it is bounded) requests that work before it
//!    finishes.
//! 4. A ticket that is dropped leaves work behind, and so does a job that panics. The client knows
//!    whether it has work. From time to time, if it has work, it requests a job again.
//! 5. An executor may run a job before `execute` returns. So a job must be submitted with no lock
//!    held that it needs. On such an executor, a job that follows another one is nested in it. A
//!    client that must bound the depth begins the ticket itself, and goes on in the same job.
//!
//! Then **at most one job is outstanding**. Only the request that raises `OUT` gets a ticket. `OUT`
//! stays raised until that ticket, or the one that `finish` made of it, is gone.
//!
//! And **no request is lost** except by a drop. All transitions are read-modify-writes of one word,
//! so each request comes before a `begin`, whose job then sees the work, or before a drop. Nothing
//! else lowers `WANTED`.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `word` | requesters: `fetch_or` of both bits | `begin` | AcqRel with AcqRel | the work that was left before the request |
//! | | `begin`: `swap` | requesters | AcqRel with AcqRel | nothing that requesters need |
//! | | `finish`: compare-exchange from `RUNNING`; drops: `swap` | the requester that gets the next ticket | AcqRel with AcqRel | the effects of one job, to the next one |
//! | | | `is_out` | Relaxed | nothing: a hint |
//!
//! # Alternatives that lost
//!
//! * The drain status (`drain`): it says which threads *may* run a pass, and may say so to any
//!   number of callers at once. Here each such answer becomes a job in a queue.
//! * A count of requests: a job does all the work that it finds, no matter which thread requested
//!   it.

use crate::primitives::Arc;
use crate::primitives::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Relaxed};
use crate::primitives::{ordering_unless_seeded, seeded};

/// This bit says that a job is wanted that begins after the request.
const WANTED: u32 = 0b01;
/// This bit says that a job is queued or running.
const OUT: u32 = 0b10;

/// No job is outstanding.
const IDLE: u32 = 0;
/// A job is queued, or it runs and another one follows it.
const QUEUED: u32 = OUT | WANTED;
/// A job runs, and no request came since it began.
const RUNNING: u32 = OUT;

/// See the [module](self). Tickets share the word, so that a job need not keep its client alive.
pub struct Handoff {
    word: Arc<AtomicU32>,
}

impl Handoff {
    /// Creates an idle hand-off.
    pub fn new() -> Self {
        Self { word: Arc::new(AtomicU32::new(IDLE)) }
    }

    /// Ensures that a job begins after this call. See rule 1.
    #[must_use = "a ticket that is dropped leaves the work behind"]
    pub fn request(&self) -> Option<Ticket> {
        let order = ordering_unless_seeded("handoff-request-is-relaxed", AcqRel);
        let before = self.word.fetch_or(QUEUED, order);
        let is_out = if seeded("handoff-overlooks-a-running-job") {
            before == QUEUED
        } else {
            before & OUT != 0
        };
        (!is_out).then(|| Ticket { word: Arc::clone(&self.word), raised: true })
    }

    /// Whether a job is outstanding. The answer may be outdated when this returns.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn is_out(&self) -> bool {
        self.word.load(Relaxed) & OUT != 0
    }
}

/// The right to submit one job, which owns the ticket. Dropping it lowers the bit `OUT` and leaves
/// the work behind.
#[must_use = "a ticket that is dropped leaves the work behind"]
pub struct Ticket {
    word: Arc<AtomicU32>,
    /// False once `OUT` was lowered by other means.
    raised: bool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.raised && !seeded("handoff-drop-stays-out") {
            self.word.swap(IDLE, AcqRel);
        }
    }
}

impl Ticket {
    /// Begins the job. It sees the work that was left before any request until now.
    pub fn begin(self) -> Running {
        self.word.swap(RUNNING, AcqRel);
        Running(self)
    }
}

/// A running job. If it unwinds, it leaves its work behind.
#[must_use = "dropping this means that the job was broken off"]
pub struct Running(Ticket);

impl Running {
    /// Ends the job, which has done the work that it saw. Returns a ticket for another job if there
    /// were requests since it began.
    pub fn finish(self) -> Option<Ticket> {
        let Self(mut ticket) = self;
        // Only requests change the word meanwhile, and they turn it into `QUEUED`.
        let ended = if seeded("handoff-finish-forgets-requests") {
            Ok(ticket.word.swap(IDLE, AcqRel))
        } else {
            ticket.word.compare_exchange(RUNNING, IDLE, AcqRel, Relaxed)
        };
        ticket.raised = ended.is_err();
        ticket.raised.then_some(ticket)
    }
}
