//! When passes run, and on which thread. No user code runs here but the clock, and nothing here
//! knows keys or values.
//!
//! Without a scheduler the callers run passes: each write that completes a batch, each read that
//! half fills its stripe, each operation that finds the wheel due or an earlier pass unfinished
//! runs one bounded pass, unless another thread is at it. A writer whose entries are heavy runs as
//! many as their room takes, if the cache is beyond its promised bounds. With a scheduler its
//! thread runs passes too, so an idle cache is maintained as well. The notices and the dead values
//! that passes leave are [delivered](crate::engine::delivery).

use super::core::{Core, Keeper};
use super::pass::{Budget, By, LEAST_EVICTIONS, Leftover, PassOrder};
use super::schedule::LONGEST_DELAY;
use super::upkeep::{Maintenance, PASS_DELAY, SLACK_SHARE};
use crate::clock::{Nanos, Timestamp};
use crate::epoch::{Grace, Guard};
use crate::primitives::{MutexGuard, Patience, on_unwind, thread};
use crate::scheduler::Scheduled;
use std::time::Duration;

/// Units of a pass that no caller runs beside its operation.
pub const PATIENT_UNITS: u32 = 4096;
/// A caller, beside its operation, and a run of the scheduler flush the epoch at most this often.
/// Two flushes end a grace period. (A model needs no haste.)
pub const FEW_FLUSHES: u32 = if cfg!(cortado_loom) { 1 } else { 3 };
/// How long dead nodes that no scheduler takes care of wait for an extra pass. Not less: a
/// simulated clock may move by milliseconds between two operations.
pub const GRACE_CHECK_DELAY: Nanos = Nanos::from_raw(16_000_000);

impl Core {
    /// Runs a pass beside a read or a write, unless another thread is at it.
    pub fn try_pass(&self, budget: Budget) {
        if let Some(keeper) = self.keeper_if_made()
            && !keeper.upkeep.has_lock_waiters()
        {
            // The clock is user code and runs before the lock.
            let _ =
                keeper.pass_if_free(PassOrder { now: self.ticker.coarse(), refused: None, budget });
        }
    }

    /// Runs a pass, if the cache is beyond its promised bounds. Returns how much weight is gone,
    /// but at least [`LEAST_EVICTIONS`]; `None` if no other pass is of use.
    pub fn make_room(&self) -> Option<u64> {
        let (before, most) = (self.weight(), self.max_capacity());
        let is_over_slack = before > most.saturating_add(most / SLACK_SHARE);
        let keeper = self.keeper_if_made().filter(|_| is_over_slack)?;
        if keeper.pass_now(self.ticker.coarse(), None).blocked {
            return None;
        }
        // Other writers may have added as much.
        Some(before.saturating_sub(self.weight()).max(u64::from(LEAST_EVICTIONS)))
    }

    /// Runs a pass of `units` units that a caller asked for.
    pub fn pass_of_units(&self, units: u32) -> Leftover {
        self.pass_within(Budget::of_units(units))
    }

    /// Runs a pass, after waiting for the maintenance lock.
    pub fn pass_within(&self, budget: Budget) -> Leftover {
        let now = self.ticker.now();
        if budget.is_asked_for() && self.has_surplus() {
            // Of drafts, and of values that were refused. Only a pass gives their memory back.
            let _ = self.keeper();
        }
        let Some(keeper) = self.keeper_if_made() else { return Leftover::default() };
        let guard = crate::epoch::pin();
        let state = keeper.upkeep.lock();
        keeper.pass_under(guard, state, PassOrder { now, refused: None, budget })
    }

    /// The next grace period that nodes, or what the index has retired, wait for.
    fn grace(&self) -> Option<Grace> {
        self.keeper_if_made()?.upkeep.published.grace()
    }

    /// Advances the epoch until a pass can reclaim something, by at most so many flushes. Where
    /// there are few operations, no other thread advances it. Returns whether a pass can.
    pub fn hasten_grace(&self, most_flushes: u32) -> bool {
        self.grace().is_some_and(|grace| crate::epoch::hasten(grace, most_flushes))
    }

    /// Changes the bound on the weight. Passes evict what is beyond it. Does nothing and returns
    /// false if there is no bound.
    pub fn change_max_capacity(&self, max_capacity: u64) -> bool {
        if self.capacity().is_none() {
            return false;
        }
        // Made first: a write that came meanwhile would make one with the old bound.
        let upkeep = self.keeper().upkeep;
        let mut state = upkeep.lock();
        self.set_max_capacity(max_capacity);
        upkeep.set_capacity(&mut state, max_capacity);
        drop(state);
        self.require_pass();
        self.wake_scheduler();
        true
    }

    /// Ends all passes. The typed part of the cache is being dropped, and no other thread but
    /// perhaps the scheduler's is inside.
    pub fn end(&self) {
        if let Some(alarm) = self.schedule.alarm.get() {
            alarm.cancel();
        }
        if let Some(keeper) = self.keeper_if_made() {
            keeper.upkeep.lock().ended = true;
        }
    }

    /// Runs one long pass, which skips buckets that other threads hold. If work is left, the
    /// scheduler comes back when the other caches have had their turn, or after [`PASS_DELAY`] if
    /// the pass has skipped a bucket.
    fn run_scheduled(&self) -> Option<Duration> {
        let (units, run_by, schedule) = (PATIENT_UNITS, By::Scheduler, &self.schedule);
        let left = self.pass_within(Budget { units, run_by, ..Budget::of_reader() });
        self.notices.submit_for_scheduler();
        if left.work || left.writes {
            // A thread that holds a bucket may have been preempted.
            if left.skipped_busy {
                return schedule.come_back_in_real_time(PASS_DELAY);
            }
            return Some(Duration::ZERO);
        }
        if self.hasten_grace(FEW_FLUSHES) {
            return Some(Duration::ZERO);
        }
        if let Some((grace, alarm)) = self.grace().zip(schedule.alarm.get()) {
            alarm.wake_after(grace);
        }
        if !left.blocked {
            schedule.end_back_off();
        }
        let soon = left.blocked.then(|| schedule.back_off());
        // A clock of the user's cannot be waited for, so the scheduler reads it once per period.
        let until = |due| self.ticker.real_delay(due).unwrap_or(schedule.clock_period);
        let mut due = self.next_due().map(until);
        if left.kept {
            // It waits for another thread, too.
            due = due.and_then(|delay| schedule.come_back_in_real_time(delay));
        }
        let surplus = left.surplus.then_some(PASS_DELAY);
        // The executor may drop the submitted job at any time. If the job runs, it frees nodes, and
        // the next pass gives their memory back.
        let retry = self.notices.has_work().then_some(LONGEST_DELAY);
        // By real time: where the scheduler sleeps by a runtime's clock, paused time would run
        // away.
        let others = soon.into_iter().chain(surplus).chain(retry).min();
        let others = others.and_then(|delay| schedule.come_back_in_real_time(delay));
        due.into_iter().chain(others).min()
    }
}

impl Keeper<'_> {
    /// Runs a pass, unless another thread is at it. Returns whether it ran.
    pub fn pass_if_free(self, order: PassOrder) -> bool {
        self.hasten_due_grace(order.now);
        let guard = crate::epoch::pin();
        let Some(state) = self.upkeep.state.try_lock() else { return false };
        self.pass_under(guard, state, order);
        true
    }

    /// [`pass_if_free`](Self::pass_if_free) of a writer, after waiting for the maintenance lock.
    pub fn pass_now(self, now: Timestamp, refused: Option<u64>) -> Leftover {
        self.hasten_due_grace(now);
        // Its caller needs the room of writers that are in its way.
        let budget = Budget { patience: Patience::Wait, ..Budget::of_writer() };
        let guard = crate::epoch::pin();
        let state = self.upkeep.lock();
        self.pass_under(guard, state, PassOrder { now, refused, budget })
    }

    /// Runs a pass, and yields the writer's core after it, if the pass says so.
    ///
    /// With more threads than cores, nearly always some thread was preempted while it held a
    /// guard. It gets the core back when the other threads have used up their time, some
    /// milliseconds each. Until then nodes and values cannot be used again, so all writes go to
    /// memory that has left the processor's caches. `docs/notes/2026-11-29-performance.md` has the
    /// gain, which depends on what else the machine does.
    fn pass_under(
        self,
        guard: Guard,
        mut state: MutexGuard<'_, Maintenance>,
        order: PassOrder,
    ) -> Leftover {
        if state.ended {
            return Leftover::default();
        }
        let left = self.pass(&guard, &mut state, order);
        drop(state);
        if left.hastens_grace {
            crate::epoch::advance(&guard);
            self.upkeep.published.set_last_advance(order.now);
        }
        drop(guard);
        if order.budget.run_by != By::Scheduler {
            if left.begins_grace {
                // The scheduler looks after it.
                self.core.schedule.wake_within(PASS_DELAY);
            }
            self.core.leave_noted_reloads();
        }
        if left.yields {
            thread::yield_now();
        }
        left
    }

    /// [`hasten_grace`](Core::hasten_grace) before a pass, so that this pass reclaims, if nobody
    /// has advanced the epoch for so long that nobody else is likely to. A scheduler does so
    /// sooner, if its thread or its runtime is still there.
    fn hasten_due_grace(self, now: Timestamp) {
        let published = &self.upkeep.published;
        if let Some(grace) = published.grace()
            && now.saturating_since(published.last_advance()) >= GRACE_CHECK_DELAY
        {
            published.set_last_advance(now);
            crate::epoch::hasten(grace, FEW_FLUSHES);
        }
    }
}

impl Scheduled for Core {
    /// Asks for another run a second later if a panic of the user's clock cuts this one short. The
    /// work is still to be done, and its requests are not made twice.
    fn run(&self) -> Option<Duration> {
        on_unwind(|| self.run_scheduled(), || self.schedule.wake_within(LONGEST_DELAY))
    }
}
