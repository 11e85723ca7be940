//! How much a maintenance pass may do, and what it leaves.

use crate::primitives::{Patience, seeded};

/// Units of a pass that a caller runs beside its operation.
const CALLER_UNITS: u32 = 64;
/// Evictions that a pass may do beyond its drain limit, or beyond the writes that it drained if
/// these are more. So a pass beside a write may always do as many.
pub const LEAST_EVICTIONS: u32 = 64;
/// Units that one look at the wheel may spend.
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
    yields: bool,
    /// Whether evictions for recorded writes are within the units, not on top of them.
    strict: bool,
}

impl Budget {
    /// For a pass that a caller runs beside a read.
    pub fn of_reader() -> Self {
        let units = if seeded("passes-without-end") { u32::MAX } else { CALLER_UNITS };
        let run_by = By::Caller;
        Self { units, run_by, exact: false, waits: false, yields: false, strict: false }
    }

    /// For a pass that a caller runs beside a write. After it the caller may have to yield its
    /// core, unless it holds a guard. (A read waits for no other thread, so it does not yield.)
    pub fn of_writer() -> Self {
        Self { yields: !crate::epoch::is_pinned(), ..Self::of_reader() }
    }

    /// So many units, for a pass that nobody waits for.
    pub fn of_scheduler(units: u32) -> Self {
        Self { units, run_by: By::Scheduler, ..Self::of_reader() }
    }

    /// So many units, for a pass that a caller asked for.
    pub fn of_units(units: u32) -> Self {
        Self { units, run_by: By::Request, waits: true, ..Self::of_reader() }
    }

    /// The same, for a pass that also looks at what is due within the current tick.
    pub fn exactly(self) -> Self {
        Self { exact: true, ..self }
    }

    /// The same, for a pass that takes out no more entries than it has units.
    pub fn strictly(self) -> Self {
        Self { strict: true, ..self }
    }

    /// Whether evictions for recorded writes are within the units, not on top of them.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// The same, for a pass that waits for writers in its way, since its caller needs their room.
    pub fn patiently(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Whether the pass waits for a thread that holds a bucket or a slot of the write buffer. That
    /// thread may be off its core.
    pub fn patience(&self) -> Patience {
        if self.waits { Patience::Wait } else { Patience::Skip }
    }

    /// Whether the pass looks at entries of the current tick.
    pub fn includes_current_tick(&self) -> bool {
        self.exact && !seeded("the-current-tick-stays")
    }

    /// Whether the caller may have to yield its core after the pass.
    pub fn may_yield(&self) -> bool {
        self.yields
    }

    /// Whether a caller runs the pass beside its operation.
    pub fn is_of_caller(&self) -> bool {
        self.run_by == By::Caller
    }

    /// Whether a caller asked for the pass, and for all that it can do.
    pub fn is_asked_for(&self) -> bool {
        self.run_by == By::Request
    }

    /// The units that are left.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Takes a unit; false if there is none left.
    #[inline]
    pub fn take_unit(&mut self) -> bool {
        let left = self.units > 0;
        self.units -= u32::from(left);
        left
    }

    /// Returns a unit that was taken for work that was not there.
    pub fn return_unit(&mut self) {
        self.units += 1;
    }

    /// Takes units for work that is done.
    pub fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }
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
    /// still storing. That thread may be off its core.
    pub skipped_busy: bool,
    /// An entry that has ended stays until a computation of its key, or whoever holds its bucket,
    /// has ended. The wheel hands it out again within a tick.
    pub kept: bool,
    /// Something was handed to the epoch.
    pub deferred: bool,
    /// The writer that ran the pass must yield its core: guards hold many dead nodes back.
    pub yields: bool,
    /// More nodes may be free than the pool keeps at hand.
    pub surplus: bool,
}
