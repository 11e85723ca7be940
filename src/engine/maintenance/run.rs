//! When passes run, and on which thread. No user code runs here but the clock, and nothing here
//! knows keys or values.
//!
//! Without a scheduler the callers run passes: each write that completes a batch, each read that
//! half fills its stripe, each operation that finds the wheel due or an earlier pass unfinished
//! runs one bounded pass, unless another thread is at it. A writer whose entries are heavy runs as
//! many as their room takes, if the cache is beyond its promised bounds. With a scheduler its
//! thread runs passes too, so an idle cache is maintained as well. The notices and the dead values
//! that passes leave are [delivered](crate::engine::delivery).

use super::budget::{Budget, By, LEAST_EVICTIONS, Leftover};
use crate::clock::{NEVER, Nanos, Timestamp};
use crate::engine::core::{Core, Maintenance, PASS_DELAY, SLACK_SHARE};
use crate::epoch::Guard;
use crate::primitives::atomic::Ordering;
use crate::primitives::{MutexGuard, Patience, on_unwind, thread};
use crate::scheduler::Scheduled;
use std::time::Duration;

/// A write that finds the last pass this long ago runs a pass at once instead of waiting for a
/// batch.
pub const QUIET: Nanos = Nanos::from_raw(1_000_000);
/// Units of a pass that no caller runs beside its operation.
pub const PATIENT_UNITS: u32 = 4096;
/// A caller, beside its operation, and a run of the scheduler flush the epoch at most this often.
/// Two flushes end a grace period. (A model needs no haste.)
pub const FEW_FLUSHES: u32 = if cfg!(cortado_loom) { 1 } else { 3 };
/// After this many runs in which a computation is in the way, the scheduler looks half as often
/// each time. Until then its runs follow each other by [`PASS_DELAY`].
const EAGER_RUNS: u32 = 4;
/// How long dead nodes that no scheduler takes care of wait for an extra pass. Not less: a
/// simulated clock may move by milliseconds between two operations.
pub const GRACE_CHECK_DELAY: Nanos = Nanos::from_raw(16_000_000);
/// The scheduler waits no longer than this for what will not wake it: a computation, or an executor
/// that may have lost a job.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

impl Core {
    /// Runs a pass beside a read or a write, unless another thread is at it.
    pub fn try_pass(&self, budget: Budget) {
        if !self.upkeep.has_lock_waiters() {
            // The clock is user code and runs before the lock.
            let _ = self.pass_if_free((self.ticker.coarse(), None), budget);
        }
    }

    /// Runs a pass at the caller's `now`, unless another thread is at it. The pass also applies
    /// `refused`, an event for which the write buffer had no room. Returns whether it ran.
    pub(super) fn pass_if_free(
        &self,
        (now, refused): (Timestamp, Option<u64>),
        budget: Budget,
    ) -> bool {
        self.hasten_due_grace(now);
        let guard = crate::epoch::pin();
        let Some(state) = self.upkeep.state.try_lock() else { return false };
        self.pass_under(guard, state, (now, refused), budget);
        true
    }

    /// [`pass_if_free`](Self::pass_if_free) of a writer, after waiting for the maintenance lock.
    pub(super) fn pass_now(&self, now: Timestamp, refused: Option<u64>) -> Leftover {
        self.hasten_due_grace(now);
        // Its caller needs the room of writers that are in its way.
        let budget = Budget { patience: Patience::Wait, ..Budget::of_writer() };
        let guard = crate::epoch::pin();
        let state = self.upkeep.lock();
        self.pass_under(guard, state, (now, refused), budget)
    }

    /// Runs a pass, if the cache is beyond its promised bounds. Returns how much weight is gone,
    /// but at least [`LEAST_EVICTIONS`]; `None` if no other pass is of use.
    pub fn make_room(&self) -> Option<u64> {
        let (before, most) = (self.weight(), self.max_capacity());
        let is_over_slack = before > most.saturating_add(most / SLACK_SHARE);
        if !is_over_slack || self.pass_now(self.ticker.coarse(), None).blocked {
            return None;
        }
        // Other writers may have added as much.
        Some(before.saturating_sub(self.weight()).max(u64::from(LEAST_EVICTIONS)))
    }

    /// Runs a pass, and yields the writer's core after it, if the pass says so.
    ///
    /// With more threads than cores, nearly always some thread was preempted while it held a
    /// guard. It gets the core back when the other threads have used up their time, some
    /// milliseconds each. Until then nodes and values cannot be used again, so all writes go to
    /// memory that has left the processor's caches. `docs/performance.md` has the gain, which
    /// depends on what else the machine does.
    fn pass_under(
        &self,
        guard: Guard,
        mut state: MutexGuard<'_, Maintenance>,
        (now, refused): (Timestamp, Option<u64>),
        budget: Budget,
    ) -> Leftover {
        if state.ended {
            return Leftover::default();
        }
        let left = self.pass(&guard, &mut state, (now, refused), budget);
        drop(state);
        if left.hastens_grace {
            crate::epoch::advance(&guard);
            self.upkeep.published.set_last_advance(now);
        }
        drop(guard);
        if budget.run_by != By::Scheduler {
            if left.begins_grace {
                // The scheduler looks after it.
                self.upkeep.wake_within(PASS_DELAY);
            }
            self.leave_noted_reloads();
        }
        if left.yields {
            thread::yield_now();
        }
        left
    }

    /// Runs a pass of `units` units that a caller asked for.
    pub fn pass_of_units(&self, units: u32) -> Leftover {
        self.pass_within(Budget::of_units(units))
    }

    /// Runs a pass, after waiting for the maintenance lock.
    pub fn pass_within(&self, budget: Budget) -> Leftover {
        let now = self.ticker.now();
        let guard = crate::epoch::pin();
        let state = self.upkeep.lock();
        self.pass_under(guard, state, (now, None), budget)
    }

    /// Advances the epoch until a pass can reclaim something, by at most so many flushes. Where
    /// there are few operations, no other thread advances it. Returns whether a pass can.
    pub fn hasten_grace(&self, most_flushes: u32) -> bool {
        let grace = self.upkeep.published.grace();
        grace.is_some_and(|grace| crate::epoch::hasten(grace, most_flushes))
    }

    /// [`hasten_grace`](Self::hasten_grace) before a pass, so that this pass reclaims, if nobody
    /// has advanced the epoch for so long that nobody else is likely to. A scheduler does so
    /// sooner, if its thread or its runtime is still there.
    fn hasten_due_grace(&self, now: Timestamp) {
        let published = &self.upkeep.published;
        if self.waits_for_grace()
            && now.saturating_since(published.last_advance()) >= GRACE_CHECK_DELAY
        {
            published.set_last_advance(now);
            let _ = self.hasten_grace(FEW_FLUSHES);
        }
    }

    /// Changes the bound on the weight. Passes evict what is beyond it. Does nothing and returns
    /// false if there is no bound.
    pub fn change_max_capacity(&self, max_capacity: u64) -> bool {
        if self.capacity().is_none() {
            return false;
        }
        self.set_max_capacity(&mut self.upkeep.lock(), max_capacity);
        self.require_pass();
        self.wake_scheduler();
        true
    }

    /// Ends all passes. The typed part of the cache is being dropped, and no other thread but
    /// perhaps the scheduler's is inside.
    pub fn end(&self) {
        if let Some(alarm) = self.upkeep.alarm.get() {
            alarm.cancel();
        }
        self.upkeep.lock().ended = true;
    }

    /// How long to wait for a computation: a short time at first, then twice as long each time, up
    /// to [`LONGEST_DELAY`].
    fn back_off(&self) -> Duration {
        let idle_runs = &self.upkeep.idle_runs;
        let runs = idle_runs.load(Ordering::Relaxed);
        idle_runs.store(runs.saturating_add(1), Ordering::Relaxed);
        let doublings = runs.saturating_sub(EAGER_RUNS).min(16);
        (PASS_DELAY * (1 << doublings)).min(LONGEST_DELAY)
    }

    /// Runs one long pass, which skips buckets that other threads hold. If work is left, the
    /// scheduler comes back when the other caches have had their turn, or after [`PASS_DELAY`] if
    /// the pass has skipped a bucket.
    fn run_scheduled(&self) -> Option<Duration> {
        let (units, run_by) = (PATIENT_UNITS, By::Scheduler);
        let left = self.pass_within(Budget { units, run_by, ..Budget::of_reader() });
        self.submit_deliveries();
        if left.work || left.writes {
            // A thread that holds a bucket may have been preempted.
            if left.skipped_busy {
                return self.upkeep.come_back_in_real_time(PASS_DELAY);
            }
            return Some(Duration::ZERO);
        }
        if self.hasten_grace(FEW_FLUSHES) {
            return Some(Duration::ZERO);
        }
        if let Some((grace, alarm)) = self.upkeep.published.grace().zip(self.upkeep.alarm.get()) {
            alarm.wake_after(grace);
        }
        if !left.blocked {
            self.upkeep.idle_runs.store(0, Ordering::Relaxed);
        }
        let soon = left.blocked.then(|| self.back_off());
        // A clock of the user's cannot be waited for, so the scheduler reads it once per period.
        let until = |due| self.ticker.real_delay(due).unwrap_or(self.upkeep.clock_period);
        let due = self.upkeep.published.next_due();
        let mut due = (due != NEVER).then(|| until(due));
        if left.kept {
            // It waits for another thread, too.
            due = due.and_then(|delay| self.upkeep.come_back_in_real_time(delay));
        }
        let surplus = left.surplus.then_some(PASS_DELAY);
        // The executor may drop the submitted job at any time. If the job runs, it frees nodes, and
        // the next pass gives their memory back.
        let retry = self.needs_delivery().then_some(LONGEST_DELAY);
        // By real time: where the scheduler sleeps by a runtime's clock, paused time would run
        // away.
        let others = soon.into_iter().chain(surplus).chain(retry).min();
        let others = others.and_then(|delay| self.upkeep.come_back_in_real_time(delay));
        due.into_iter().chain(others).min()
    }
}

impl Scheduled for Core {
    /// Asks for another run a second later if a panic of the user's clock cuts this one short. The
    /// work is still to be done, and its requests are not made twice.
    fn run(&self) -> Option<Duration> {
        on_unwind(|| self.run_scheduled(), || self.upkeep.wake_within(LONGEST_DELAY))
    }
}
