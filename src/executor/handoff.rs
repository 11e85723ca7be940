//! What one client has given to an executor: one word that says whether a job of it is on the way.
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
//! The word does not tell *queued* from *running again*: a request does the same in both.
//!
//! # Rules
//!
//! 1. Who leaves work calls [`request`](Handoff::request) *after* leaving it. A [`Ticket`] in
//!    return means: submit a job that owns this ticket.
//! 2. The job calls [`begin`](Ticket::begin) *before* it looks for work, and
//!    [`finish`](Running::finish) when it found no more. A ticket in return means: submit another
//!    job.
//! 3. A job that leaves work behind on purpose (it is bounded) requests it before it finishes.
//! 4. A ticket that is dropped leaves work behind, and so does a job that panics. The client knows
//!    whether it has work: from time to time, if it has and no job [is out](Handoff::is_out), it
//!    requests one again.
//! 5. An executor may run a job before `execute` returns. So a job is submitted with no lock held
//!    that it needs. On such an executor, a job that follows another one is nested in it. A client
//!    that must bound the depth begins the ticket itself, and goes on in the same job.
//!
//! Then **at most one job is on the way**: only the request that raises `OUT` gets a ticket, and
//! `OUT` stays raised until that ticket, or the one that `finish` made of it, is gone. And **no
//! request is lost** but by a drop: all transitions are read-modify-writes of one word, so each
//! request comes before a `begin`, whose job then sees the work, or before a drop. Nothing else
//! lowers `WANTED`.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `word` | requesters: `fetch_or` of both bits | `begin` | AcqRel with AcqRel | the work that was left before the request |
//! | | `begin`: `swap` | requesters | AcqRel with AcqRel | nothing that they need |
//! | | `finish`: compare-exchange from `RUNNING`; drops: `swap` | the requester that gets the next ticket | AcqRel with AcqRel | what one job did, to the next one |
//! | | | `is_out` | Relaxed | nothing: a hint |
//!
//! # Alternatives that lost
//!
//! * The drain status (`drain`): it says who *may* run a pass, and may say so to any number of
//!   callers at once. Here each answer becomes a job in a queue.
//! * A count of requests: a job does all the work that it finds, whoever asked for it.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Relaxed};
use crate::sync::seeded;

/// A job is wanted that begins after now.
const WANTED: u32 = 0b01;
/// A job is queued or running.
const OUT: u32 = 0b10;

const IDLE: u32 = 0;
const QUEUED: u32 = OUT | WANTED;
const RUNNING: u32 = OUT;

/// See the [module](self). Tickets share the word, so that a job need not keep its client alive.
#[derive(Debug)]
pub struct Handoff {
    word: Arc<AtomicU32>,
}

impl Default for Handoff {
    fn default() -> Self {
        Self::new()
    }
}

impl Handoff {
    /// Idle.
    pub fn new() -> Self {
        Self { word: Arc::new(AtomicU32::new(IDLE)) }
    }

    /// Makes sure that a job begins after this. See rule 1.
    #[must_use = "a ticket that is dropped leaves the work behind"]
    pub fn request(&self) -> Option<Ticket> {
        let order = if seeded("handoff_request_is_relaxed") { Relaxed } else { AcqRel };
        let before = self.word.fetch_or(QUEUED, order);
        let is_out = if seeded("handoff_overlooks_a_running_job") {
            before == QUEUED
        } else {
            before & OUT != 0
        };
        (!is_out).then(|| self.ticket())
    }

    /// Whether a job is on the way, as it was a moment ago.
    pub fn is_out(&self) -> bool {
        self.word.load(Relaxed) & OUT != 0
    }

    fn ticket(&self) -> Ticket {
        Ticket(Out { word: Arc::clone(&self.word), raised: true })
    }
}

/// The raised `OUT`. A drop of it lowers `OUT`, and leaves the work behind.
#[derive(Debug)]
struct Out {
    word: Arc<AtomicU32>,
    /// False once `OUT` was lowered otherwise.
    raised: bool,
}

impl Drop for Out {
    fn drop(&mut self) {
        if self.raised && !seeded("handoff_drop_stays_out") {
            self.word.swap(IDLE, AcqRel);
        }
    }
}

/// The right to submit one job, which owns it.
#[derive(Debug)]
#[must_use = "a ticket that is dropped leaves the work behind"]
pub struct Ticket(Out);

impl Ticket {
    /// The job begins. It sees the work that was left before any request until now.
    pub fn begin(self) -> Running {
        let Self(out) = self;
        out.word.swap(RUNNING, AcqRel);
        Running(out)
    }
}

/// A running job. One that unwinds leaves its work behind.
#[derive(Debug)]
#[must_use = "dropping this means that the job was broken off"]
pub struct Running(Out);

impl Running {
    /// The job has done what it saw. A ticket in return is for another one: there were requests
    /// since.
    pub fn finish(self) -> Option<Ticket> {
        let Self(mut out) = self;
        // Only requests change the word meanwhile, and they make `QUEUED` of it.
        let ended = if seeded("handoff_finish_forgets_requests") {
            Ok(out.word.swap(IDLE, AcqRel))
        } else {
            out.word.compare_exchange(RUNNING, IDLE, AcqRel, Relaxed)
        };
        out.raised = ended.is_err();
        out.raised.then(|| Ticket(out))
    }
}
