//! How much a maintenance pass may do, and what it leaves.

use crate::pool::Surplus;
use crate::sync::{Patience, seeded};

/// Units of work in a pass that a caller runs in passing.
const CALLER_UNITS: u32 = 64;
/// Units that are spent at once.
pub const UNITS_PER_LOOK: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Caller,
    Scheduler,
    Request,
}

/// How much a pass may do.
#[derive(Debug)]
pub struct Budget {
    units: u32,
    run_by: By,
    exact: bool,
    waits: bool,
}

impl Budget {
    /// What a caller does in passing.
    pub fn of_caller() -> Self {
        let units = if seeded("passes-without-end") { u32::MAX } else { CALLER_UNITS };
        Self { units, run_by: By::Caller, exact: false, waits: false }
    }

    /// So many units of a pass that nobody waits for.
    pub fn of_scheduler(units: u32) -> Self {
        Self { units, run_by: By::Scheduler, exact: false, waits: false }
    }

    /// So many units of what somebody asked for.
    pub fn of_units(units: u32) -> Self {
        Self { units, run_by: By::Request, exact: false, waits: true }
    }

    /// The same, for a pass that also looks at what is due within the current tick.
    pub fn exactly(self) -> Self {
        Self { exact: true, ..self }
    }

    /// The same, for a pass that waits for writers in its way: its caller needs what they have.
    pub fn patiently(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Whether the pass waits for a thread that holds a bucket or a place in the write buffer, and
    /// may be off its core.
    pub fn patience(&self) -> Patience {
        if self.waits { Patience::Wait } else { Patience::Skip }
    }

    /// Whether entries of the current tick are to be looked at.
    pub fn is_exact(&self) -> bool {
        self.exact && !seeded("the-current-tick-stays")
    }

    /// Whether a caller runs the pass beside what it came for.
    pub fn is_of_caller(&self) -> bool {
        self.run_by == By::Caller
    }

    /// Whether somebody asked for the pass, and for all that it can do.
    pub fn is_asked_for(&self) -> bool {
        self.run_by == By::Request
    }

    /// Takes a unit; false if there is none left.
    #[inline]
    pub fn take(&mut self) -> bool {
        let left = self.units > 0;
        self.units -= u32::from(left);
        left
    }

    /// Takes units for work that is done.
    pub fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }
}

/// What a pass did not do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leftover {
    /// Writes came while it ran, or are left of those that were spilled.
    pub writes: bool,
    /// The budget ended before the work did.
    pub work: bool,
    /// Entries are due.
    pub expirations: bool,
    /// By how much the weight is over the maximum.
    pub excess: u64,
    /// Something has to wait for a computation of the user's.
    pub blocked: bool,
    /// Something has to wait for a thread that holds a bucket, and may be off its core.
    pub held: bool,
    /// The epoch was given something to get rid of.
    pub retired: bool,
    /// Whether the pool has more memory than it needs.
    pub surplus: Surplus,
}
