//! Who runs passes, and when. None of it knows keys or values, and none of it runs user code but
//! the clock.
//!
//! Without a scheduler it is the callers: each write that completes a batch, each read that fills
//! its buffer, each operation that finds the wheel due or an earlier pass unfinished runs one
//! bounded pass, if nobody else is at it. With a scheduler its thread does so too, so that an idle
//! cache is tended as well. What passes leave to be told and dropped is
//! [delivered](super::deliver).

use super::budget::{Budget, Leftover};
use super::core::{Core, PASS_DELAY};
use super::event::Packed;
use super::maintenance::Maintenance;
use crate::buffer::write::Pressure;
use crate::epoch::Guard;
use crate::pool::Surplus;
use crate::scheduler::Scheduled;
use crate::sync::atomic::Ordering;
use crate::sync::{MutexGuard, seeded};
use std::time::Duration;

/// A write that finds the last pass this long ago runs one at once rather than wait for a batch.
const QUIET: u64 = 1_000_000;
/// Units of a pass that has no caller waiting, or a caller who asked for it.
pub const PATIENT_UNITS: u32 = 4096;
/// Flushes of the epoch that bring nothing back, after which the rest is left to later passes: some
/// thread holds a guard.
pub const GRACE_ROUNDS: u32 = if cfg!(cortado_loom) { 3 } else { 16 };
/// Runs of the scheduler that bring nothing back and still follow each other by [`PASS_DELAY`].
/// After them it looks half as often each time.
const EAGER_RUNS: u32 = 4;

impl Core {
    /// Hands an event to the maintenance. Called with no lock held, right after the commit, with
    /// nothing of the user's in between or in here (the clock was read before it): an event that a
    /// panic kept back would leave a node in the index of which the maintenance never hears.
    pub fn write_event(&self, event: Packed, weight: u32, now: u64) {
        let event = event.word();
        let pressure = match self.writes.push(event, weight) {
            Ok(pressure) => pressure,
            Err(_) if seeded("full-buffer-drops-the-event") => return,
            Err(_) => self.push_again(event, weight, now),
        };
        if pressure > Pressure::Low {
            // The scheduler has to hear of it, also if a pass of this thread's is what puts it on
            // the wheel: it may be sleeping for longer than the entry is to live.
            self.wake_within(PASS_DELAY);
        }
        match pressure {
            Pressure::Low => {
                // A cache that is only written to must not wait for the batch to be full.
                if self.is_due(now) {
                    let _ = self.status.request();
                }
            }
            Pressure::First => {
                let quiet = now.saturating_sub(self.last_pass.load(Ordering::Relaxed)) >= QUIET;
                if quiet {
                    let _ = self.status.request();
                } else {
                    // Or else reads alone would leave it for ever.
                    self.pass_by(now.saturating_add(QUIET));
                }
            }
            Pressure::Drain => {
                let _ = self.status.request();
            }
            Pressure::Urgent if seeded("urgent-writers-go-on") => {}
            Pressure::Urgent => self.pass_now(now),
        }
    }

    /// Makes room for an event that the write buffer has refused; or, while somebody else has the
    /// maintenance lock, who may be off its core, spills it.
    #[cold]
    fn push_again(&self, mut event: u64, weight: u32, now: u64) -> Pressure {
        let mut is_first = true;
        loop {
            if self.is_awaited() || !is_first || !self.pass_if_free(now) {
                if self.spill(event) {
                    return Pressure::Drain;
                }
                self.pass_now(now);
            }
            match self.writes.push(event, weight) {
                Ok(pressure) => return pressure,
                Err(full) => event = full,
            }
            // Its pass has come to other stripes before.
            if self.spill(event) {
                return Pressure::Drain;
            }
            // Or it did not wait for another writer of this stripe, who is storing an event and may
            // be off its core.
            is_first = false;
        }
    }

    /// Runs a pass unless somebody else is at it.
    pub fn try_pass(&self) {
        if !self.is_awaited() {
            // The clock is the user's: before the lock.
            let _ = self.pass_if_free(self.ticker.coarse());
        }
    }

    /// Runs a pass at the caller's `now`, unless somebody else is at it; whether it did.
    fn pass_if_free(&self, now: u64) -> bool {
        let guard = crate::epoch::pin();
        let Some(state) = self.maintenance.try_lock() else { return false };
        let _ = self.pass_under(&guard, state, now, &mut Budget::of_caller());
        true
    }

    /// Runs a pass at the caller's `now`, after whoever is at it.
    fn pass_now(&self, now: u64) {
        let guard = crate::epoch::pin();
        let state = self.lock_maintenance();
        let _ = self.pass_under(&guard, state, now, &mut Budget::of_caller().patiently());
    }

    fn pass_under(
        &self,
        guard: &Guard,
        mut state: MutexGuard<'_, Maintenance>,
        now: u64,
        budget: &mut Budget,
    ) -> Leftover {
        if state.ended {
            return Leftover::default();
        }
        let left = self.pass(guard, &mut state, now, budget);
        drop(state);
        if left.retired || self.index.outgrown() > 0 {
            guard.flush();
        }
        if left.retired {
            // The scheduler is to look after what it has retired.
            self.wake_within(PASS_DELAY);
        }
        left
    }

    /// Runs a pass of so many units that somebody asked for.
    pub fn pass_of_units(&self, units: u32) -> Leftover {
        self.pass_within(&mut Budget::of_units(units))
    }

    /// Runs a pass, after whoever is at it.
    pub fn pass_within(&self, budget: &mut Budget) -> Leftover {
        let now = self.ticker.now();
        let guard = crate::epoch::pin();
        let state = self.lock_maintenance();
        self.pass_under(&guard, state, now, budget)
    }

    /// Passes until no work is left but what has to wait for somebody.
    pub fn finish_work(&self) {
        while self.pass_of_units(PATIENT_UNITS).work {}
    }

    /// Pushes the epoch on. True if something came back that a pass can free now.
    pub fn push_epoch_on(&self) -> bool {
        let outgrown = self.index.outgrown();
        crate::epoch::pin().flush();
        self.is_grace_over() || self.index.outgrown() < outgrown
    }

    /// Ends all passes: the typed part of the cache is being dropped, and nobody else is inside but
    /// perhaps the scheduler.
    pub fn end(&self) {
        if let Some(registration) = self.registration.get() {
            registration.cancel();
        }
        self.lock_maintenance().ended = true;
    }

    /// Takes back what the epoch still has of this cache, as far as no guard keeps it.
    pub fn flush_rest(&self) {
        let mut batches = self.lock_maintenance().in_grace.len();
        let mut rounds = 0;
        while rounds < GRACE_ROUNDS && (batches > 0 || self.index.outgrown() > 0) {
            rounds = if self.push_epoch_on() { 0 } else { rounds + 1 };
            batches = batches.saturating_sub(self.grace_ended.swap(0, Ordering::Relaxed));
            while self.index.clear_away() {}
        }
    }
}

/// Asks for another run a tick later if this one is cut short by a panic, which is the clock's:
/// what it was asked for is still to be done, and nobody asks twice.
struct Retry<'a>(&'a Core);

impl Drop for Retry<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.wake_within(self.0.tick);
        }
    }
}

impl Scheduled for Core {
    /// One patient pass; what is left comes back at once, so that other caches get their turn.
    fn run(&self) -> Option<Duration> {
        let _retry = Retry(self);
        let left = self.pass_within(&mut Budget::of_scheduler(PATIENT_UNITS));
        self.hand_over();
        if left.work || left.writes {
            // Whoever holds a bucket may be off its core.
            return Some(if left.held { PASS_DELAY } else { Duration::ZERO });
        }
        let in_grace = self.waits_for_grace();
        if in_grace && self.push_epoch_on() {
            self.idle_runs.store(0, Ordering::Relaxed);
            return Some(Duration::ZERO);
        }
        let soon = (in_grace || left.blocked).then(|| self.back_off(left.retired));
        let due = self.until_due();
        let surplus = match left.surplus {
            Surplus::None => None,
            Surplus::Unsettled(time) => Some(self.until(time).max(PASS_DELAY)),
            Surplus::Left => Some(Duration::ZERO),
        };
        // An executor may have dropped the job.
        let untold = (self.has_deliveries() && !self.handoff.is_out()).then_some(self.tick);
        soon.into_iter().chain(due).chain(surplus).chain(untold).min()
    }
}

impl Core {
    /// How long to wait for somebody's guard or computation: not long at first, then twice as long
    /// each time, up to a tick.
    fn back_off(&self, is_new: bool) -> Duration {
        let runs = if is_new { 0 } else { self.idle_runs.load(Ordering::Relaxed) };
        self.idle_runs.store(runs.saturating_add(1), Ordering::Relaxed);
        let doublings = runs.saturating_sub(EAGER_RUNS).min(16);
        let doublings = if seeded("guards-are-polled") { 0 } else { doublings };
        (PASS_DELAY * (1 << doublings)).min(self.tick.max(PASS_DELAY))
    }
}
