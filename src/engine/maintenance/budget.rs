//! How much a maintenance pass may do, and what it leaves.

use crate::primitives::{Patience, seeded};

/// Units of a pass that a caller runs beside its operation.
const CALLER_UNITS: u32 = 64;
/// Evictions that a pass may do beyond its drain limit, or beyond the writes that it drained if
/// these are more. So a pass beside a write may always do as many.
pub const LEAST_EVICTIONS: u32 = 64;
/// Units that one look at the wheel may spend.
pub const UNITS_PER_LOOK: u32 = 64;

/// On whose behalf a pass runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A caller runs it beside its operation.
    Caller,
    Scheduler,
    /// A caller asked for it, and for all that it can do.
    Request,
}

/// How much a pass may do.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The units that are left.
    pub units: u32,
    pub run_by: By,
    /// Whether the pass looks at entries of the current tick.
    pub exact: bool,
    /// Whether the pass waits for a thread that holds a bucket, a shard of the flights or a slot
    /// of the write buffer. That thread may have been preempted.
    pub patience: Patience,
    /// Whether the caller may have to yield its core after the pass.
    pub yields: bool,
    /// Whether the pass takes out no more entries than it has units: evictions for recorded writes
    /// are within the units, not on top of them.
    pub strict: bool,
}

impl Budget {
    /// For a pass that a caller runs beside a read.
    pub fn of_reader() -> Self {
        let units = if seeded("passes-without-end") { u32::MAX } else { CALLER_UNITS };
        let (run_by, patience) = (By::Caller, Patience::Skip);
        Self { units, run_by, exact: false, patience, yields: false, strict: false }
    }

    /// For a pass that a caller runs beside a write. After it the caller may have to yield its
    /// core, unless it holds a guard. (A read waits for no other thread, so it does not yield.)
    pub fn of_writer() -> Self {
        Self { yields: !crate::epoch::is_pinned(), ..Self::of_reader() }
    }

    /// So many units, for a pass that a caller asked for.
    pub fn of_units(units: u32) -> Self {
        Self { units, run_by: By::Request, patience: Patience::Wait, ..Self::of_reader() }
    }

    /// Whether a caller asked for the pass, and for all that it can do.
    pub fn is_asked_for(&self) -> bool {
        self.run_by == By::Request
    }

    /// Takes units for work that is done.
    pub fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }
}

/// Takes a unit; false if there is none left.
#[inline]
pub fn take_unit(units: &mut u32) -> bool {
    let left = *units > 0;
    *units -= u32::from(left);
    left
}

/// What keeps a pass from evicting all that exceeds the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Nothing but its budget.
    Not,
    /// Computations use the entries that are left, or are of keys with their hashes.
    ByComputations,
    /// Other threads hold buckets.
    ByThreads,
}

/// What a pass did not do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leftover {
    /// Writes came while it ran, or spilled writes are left.
    pub writes: bool,
    /// The budget ended before the work did.
    pub work: bool,
    /// Entries are due.
    pub expirations: bool,
    /// By how much the weight is over the maximum.
    pub excess: u64,
    /// Something has to wait for a computation.
    pub blocked: bool,
    /// The pass skipped a bucket that another thread had locked, or an event that its writer was
    /// still storing. That thread may have been preempted.
    pub skipped_busy: bool,
    /// An entry that has ended stays until a computation of its key, or whoever holds its bucket,
    /// has ended. The wheel hands it out again within a tick.
    pub kept: bool,
    /// The cache waits for another grace period than before.
    pub begins_grace: bool,
    /// So much waits for a grace period that the pass has to move it on.
    pub hastens_grace: bool,
    /// The writer that ran the pass must yield its core: guards hold many dead nodes back.
    pub yields: bool,
    /// More nodes may be free than the pool keeps at hand.
    pub surplus: bool,
}
