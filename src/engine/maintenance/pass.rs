//! One maintenance pass.
//!
//! A pass drains what reads and writes recorded, brings the wheel to the present and works off what
//! is due, evicts what exceeds the capacity, resizes the index, sweeps what `invalidate_all`
//! left, and frees what no thread can see any more. Expirations, cascades and sweeps cost
//! units of the pass's [`Budget`]; evictions have a budget of their own, unless a caller asked for
//! the pass. Work that does not fit is
//! carried forward: the drain status stays `REQUIRED`, so the next operation goes on.
//!
//! **Lock order**: [`engine`](crate::engine) states it. No user code runs under any lock: the pass
//! returns values to drop and notices to deliver, for its caller to handle after the lock. It waits
//! for no load and no computation, since either may be waiting for the pass.

use super::core::{Core, Keeper};
use super::upkeep::{Maintenance, Upkeep};
use crate::clock::{Nanos, Timestamp};
use crate::epoch::Guard;
use crate::pool::{FARTHEST, Timers};
use crate::primitives::{Patience, seeded};

/// A pass takes out at most this many events, unless a caller asked for all. Two stripes hold this
/// many events. More cores mean more stripes, but not longer passes.
pub const MAX_DRAINED: usize = 2 * crate::buffer::ring::MAX_CAPACITY;
/// If the time of a pass is this far behind the wheel's, the cache's clock was set back. The wheel
/// then follows; otherwise new entries would stay until the clock has caught up. A pass whose
/// thread was preempted for longer than this, after it had read the clock, looks the same: the
/// wheel goes back, and the next pass advances it again.
const SET_BACK: Nanos = Nanos::from_raw(1 << 30);

/// A write that finds the last pass this long ago runs a pass at once instead of waiting for a
/// batch.
pub const QUIET: Nanos = Nanos::from_raw(1_000_000);

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

/// A pass to run.
#[derive(Clone, Copy)]
pub struct PassOrder {
    pub now: Timestamp,
    /// An event of the caller's for which the write buffer has no room.
    pub refused: Option<u64>,
    pub budget: Budget,
}

/// A pass under way: the state under the lock, and what the pass needs beside it.
pub struct Pass<'a> {
    pub core: &'a Core,
    pub upkeep: &'a Upkeep,
    pub state: &'a mut Maintenance,
    pub guard: &'a Guard,
    pub now: Timestamp,
    /// Nodes that died in this pass, and their weight.
    pub died: usize,
    pub died_weight: u64,
    pub budget: Budget,
    pub left: Leftover,
}

impl Keeper<'_> {
    /// Runs a pass, with the lock already held. Values to drop wait until the lock is released.
    ///
    /// The caller pins before it takes the lock, because pinning and flushing may run deferred
    /// functions, which may use this cache. For the same reason, the caller flushes, if the
    /// pass asks for it, after it has released the lock.
    #[inline(never)]
    pub fn pass(self, guard: &Guard, state: &mut Maintenance, order: PassOrder) -> Leftover {
        let (Self { core, upkeep }, PassOrder { now, refused, budget }) = (self, order);
        let running = core.status.begin();
        core.hot.clear_pass_requests();
        let (died, died_weight, left) = (0, 0, Leftover::default());
        let mut pass = Pass { core, upkeep, state, guard, now, died, died_weight, budget, left };
        pass.follow_clock_back();
        let drained = pass.drain();
        // A drain that takes out nothing and leaves events has most likely met an event that its
        // writer is still storing. (Or the event came after the drain had looked.)
        pass.left.skipped_busy |= drained.more && drained.count == 0;
        if let Some(event) = refused.filter(|_| !seeded("full-buffer-drops-the-event")) {
            pass.apply(event);
        }
        pass.expire();
        let stuck = pass.evict_within(drained.count);
        let mut work = pass.resize_index(drained.count);
        work |= pass.sweep();
        let expirations = pass.state.wheel.has_backlog();
        let policy = pass.state.policy.as_ref();
        let excess = policy.map_or(0, |it| it.weight().saturating_sub(it.max_weight()));
        let blocked = stuck != Stuck::Not;
        work |= expirations || (excess > 0 && !blocked);
        work |= core.flights.has_released();
        pass.publish_progress();
        let reclaimable = pass.reclaim();
        work |= reclaimable;
        let mut left =
            Leftover { writes: drained.more, work, expirations, excess, blocked, ..pass.left };
        // Nodes that a pass may reclaim wait for passes, not for guards.
        left.yields = budget.yields && !reclaimable && pass.takes_yield();
        pass.request_grace_check();
        if !left.work {
            // Giving memory back takes the system's time. So it waits until nothing else is due.
            left.surplus = core.trim(budget.run_by);
        }
        // Their ends ask for a pass, unless they are cancelled. (A model's clock stands still.)
        if stuck == Stuck::ByComputations && !cfg!(cortado_loom) {
            core.hot.request_pass_by(now.saturating_add(QUIET));
        }
        let has_more = left.writes || left.work || stuck == Stuck::ByThreads;
        // Whoever requested a pass meanwhile finds the request in the status.
        running.finish(has_more);
        left
    }
}

impl<'a> Pass<'a> {
    pub fn timers(&self) -> Timers<'a> {
        Timers { pool: &self.core.pool, now: self.now }
    }

    /// Follows a clock that was set back. This comes before anything is scheduled, since the
    /// wheel's time decides in which bucket an entry goes.
    fn follow_clock_back(&mut self) {
        if seeded("wheel-never-turns-back") {
            return;
        }
        let wheel = &mut self.state.wheel;
        // A step back is less than a quarter of the circle of instants. The wheel would take a
        // longer one for a step forward.
        let step = FARTHEST - Nanos::from_raw(1);
        while self.now.saturating_add(SET_BACK) < wheel.clock() {
            let now = self.now.max(wheel.clock().saturating_sub(step));
            wheel.rewind(&Timers { pool: &self.core.pool, now }, now);
        }
    }
}
