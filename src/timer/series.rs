//! The state of one job between its insertion and its end.
//!
//! ```text
//!            due                 begins               next run
//! Waiting ─────────► Queued ────────────► Running ───────────────► Waiting
//!    ▲                 │  │                  │
//!    └── rejected, ────┘  └── cancelled      └── last run, cancelled, panicked: gone
//!        rescheduled          gone
//! ```
//!
//! | state | in the wheel | body | counts as |
//! |---|---|---|---|
//! | waiting | yes | here | waiting |
//! | queued | no; an executor has a ticket | here | waiting |
//! | running | no | in the run | running |

use super::body::Body;
use super::schedule::Plan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting,
    Queued,
    Running,
}

/// One job.
pub struct Entry {
    pub state: State,
    /// `None` while it runs.
    pub body: Option<Body>,
    /// `None` while it runs.
    pub plan: Option<Plan>,
    /// When the next run, or the present one, was planned for. After a rejection the wheel waits
    /// for a later instant than this.
    pub planned: u64,
    /// How many runs have begun.
    pub runs: u64,
    /// Counts the tickets. A ticket of an earlier number is void.
    pub ticket: u32,
    /// Something that the timer does for itself: no id of the user's names it.
    pub is_errand: bool,
    /// It was cancelled while it ran.
    pub is_ending: bool,
    /// It can run more than once.
    pub plays_again: bool,
    /// It was rescheduled while it ran.
    pub next: Option<u64>,
    /// The next run is on the thread of the driver: the executor has rejected it.
    pub runs_here: bool,
}

impl Entry {
    /// What it counts for: the timer's own errands do not count.
    pub fn weight(&self) -> usize {
        usize::from(!self.is_errand)
    }

    pub fn new(planned: u64, plan: Plan, body: Body) -> Self {
        let plays_again = body.repeats();
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
            plays_again,
            next: None,
            runs_here: false,
        }
    }
}
