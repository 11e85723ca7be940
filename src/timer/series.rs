//! The state of one job between its insertion and its end.
//!
//! ```text
//!            due                 begins               next run
//! Waiting ─────────► Queued ────────────► Running ───────────────► Waiting
//!    ▲                 │  │                  │
//!    └── rejected, ────┘  └── cancelled      └── last run, cancelled, panicked: gone
//!        rescheduled,         gone
//!        after a drain's limit
//! ```
//!
//! | state | in the wheel | body | counts as |
//! |---|---|---|---|
//! | waiting | yes | here | waiting |
//! | queued | no; an executor has a ticket | here | waiting |
//! | running | no | in the run | running |

use super::body::{Body, drop_user_code};
use super::id::TimerId;
use super::schedule::Plan;
use crate::primitives::atomic::{AtomicBool, Ordering};
use crate::primitives::plain::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting,
    Queued,
    Running,
}

/// A due job, and the number of its ticket.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub id: TimerId,
    pub ticket: u32,
    /// Whether it runs on the driver's thread.
    pub here: bool,
    pub is_errand: bool,
    pub is_async: bool,
}

/// How the run of an async job is ended from outside.
pub struct Abort {
    is_asked: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Abort {
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { is_asked: AtomicBool::new(false), wake: Box::new(wake) }
    }

    /// The wake that follows carries the mark to the next poll.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        (self.wake)();
    }

    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

/// Whether and how a run can be aborted. It outlives the job's [`Entry`], which the timer's end
/// takes out.
pub enum Abortable {
    /// The run has outlived its entry, and its future has not been pending.
    Begun,
    /// It was aborted before its future was pending.
    Aborted,
    Pending(Arc<Abort>),
}

/// One job.
pub struct Entry {
    pub state: State,
    /// `None` while it runs.
    pub body: Option<Body>,
    /// `None` while it runs.
    pub plan: Option<Plan>,
    /// The instant for which the next run, or the present one, is planned. After a rejection, or
    /// after the limit of a drain, the job's deadline in the wheel is later.
    pub planned: u64,
    /// How many runs have begun.
    pub runs: u64,
    /// The number of the latest ticket. A ticket with another number is void.
    pub ticket: u32,
    /// Whether it is an errand, a job of the timer's own. No user's id names it.
    pub is_errand: bool,
    /// Whether it was cancelled during its present run, which is then its last.
    pub is_ending: bool,
    /// How many runs follow the next one or, while it runs, the present one; see
    /// [`Run`](super::run::Run). After `Some(0)` no run is accepted.
    pub remaining: Option<u64>,
    /// The instant to which it was rescheduled during its present run.
    pub next: Option<u64>,
    /// Whether its next run is on the driver's thread: it is an errand, or the executor has
    /// rejected it.
    pub runs_here: bool,
}

/// The job and its schedule are two values of the user's, whose destructors may panic: each by
/// itself.
impl Drop for Entry {
    fn drop(&mut self) {
        drop_user_code(self.body.take());
        drop_user_code(self.plan.take());
    }
}

impl Entry {
    /// How much it adds to the counts of jobs: 1, or 0 for an errand.
    pub fn weight(&self) -> usize {
        usize::from(!self.is_errand)
    }

    /// Hands it to an executor: it waits for its turn there.
    pub fn queue(&mut self, id: TimerId) -> Due {
        self.state = State::Queued;
        self.ticket = self.ticket.wrapping_add(1);
        Due {
            id,
            ticket: self.ticket,
            here: self.runs_here,
            is_errand: self.is_errand,
            is_async: self.body.as_ref().is_some_and(Body::is_async),
        }
    }

    pub fn new(planned: u64, plan: Plan, body: Body) -> Self {
        let remaining = plan.remaining(1);
        let is_errand = matches!(body, Body::Errand(_));
        Self {
            is_errand,
            state: State::Waiting,
            body: Some(body),
            plan: Some(plan),
            planned,
            runs: 0,
            ticket: 0,
            is_ending: false,
            remaining,
            next: None,
            runs_here: false,
        }
    }
}
