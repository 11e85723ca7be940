//! How much a maintenance pass may do, and what it leaves.

use std::time::{Duration, Instant};

/// Units of work in a pass that a caller runs in passing.
const CALLER_UNITS: u32 = 64;
/// Time that a caller gives to a pass in passing, looked at every so many units.
const CALLER_TIME: Duration = Duration::from_micros(500);
pub const UNITS_PER_LOOK: u32 = 64;

/// How much a pass may do.
#[derive(Debug)]
pub struct Budget {
    units: u32,
    until: Option<Instant>,
    look: u32,
}

impl Budget {
    /// What a caller does in passing.
    pub fn of_caller() -> Self {
        Self {
            units: CALLER_UNITS,
            until: Some(Instant::now() + CALLER_TIME),
            look: UNITS_PER_LOOK,
        }
    }

    /// So many units, however long they take.
    pub fn of_units(units: u32) -> Self {
        Self { units, until: None, look: UNITS_PER_LOOK }
    }

    /// Takes a unit; false if there is none left, or no time.
    pub fn take(&mut self) -> bool {
        if self.units == 0 {
            return false;
        }
        self.units -= 1;
        self.look -= 1;
        if self.look == 0 {
            self.look = UNITS_PER_LOOK;
            if self.until.is_some_and(|until| Instant::now() >= until) {
                self.units = 0;
            }
        }
        true
    }

    /// Takes units for work that is done.
    pub fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }
}

/// What a pass did not do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leftover {
    /// Writes came while it ran.
    pub writes: bool,
    /// The budget ended before the work did.
    pub work: bool,
    /// Entries are due.
    pub expirations: bool,
    /// By how much the weight is over the maximum.
    pub excess: u64,
    /// Something has to wait for a computation of the user's.
    pub blocked: bool,
    /// The epoch was given something to get rid of.
    pub retired: bool,
}
