//! Who runs the maintenance, and when.
//!
//! Without a scheduler it is the callers: each write that completes a batch, each read that fills
//! its buffer, each operation that finds the wheel due or an earlier pass unfinished runs one
//! bounded pass, if nobody else is at it. With a scheduler its thread does so too, so that an idle
//! cache is tended as well.

use super::Engine;
use super::budget::{Budget, Leftover};
use super::core::{Core, Notice, PASS_DELAY};
use super::event::Packed;
use super::maintenance::Maintenance;
use crate::buffer::write::Pressure;
use crate::drain::Urge;
use crate::entry::{Facts, Removed};
use crate::node::remaining;
use crate::pool::Surplus;
use crate::removal::RemovalCause;
use crate::scheduler::Scheduled;
use crate::sync::atomic::Ordering;
use crate::sync::{MutexGuard, discard, seeded};
use crate::epoch::Guard;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A write that finds the last pass this long ago runs one at once rather than wait for a batch.
const QUIET: u64 = 1_000_000;
/// Removals that a caller announces in passing.
const CALLER_NOTICES: usize = 64;
/// Units of a pass that has no caller waiting, or a caller who asked for it.
const PATIENT_UNITS: u32 = 4096;
/// Rounds of pushing the epoch on, after which the rest is left to later passes: some thread holds a
/// guard.
const GRACE_ROUNDS: u32 = if cfg!(cortado_loom) { 3 } else { 16 };

/// What a budgeted [`run_pending_tasks`](crate::Cache::run_pending_tasks_within) left undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// Entries are due that have not been removed.
    pub expirations: bool,
    /// By how much the weight exceeds the capacity.
    pub excess_weight: u64,
    /// Removals that the listener has not heard of.
    pub notifications: usize,
    /// Removed entries whose memory has not been released: some thread may still be reading them.
    pub reclamations: usize,
    /// Other work: recorded writes, a growing index, the sweep after an `invalidate_all`, memory to be given
    /// back.
    pub other: bool,
}

impl Pending {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::default()
    }
}

crate::sync::thread_local! {
    /// The caches whose aftermath this thread is seeing to, from the outermost in.
    static TENDING: RefCell<Vec<usize>> = RefCell::default();
}

/// A mark that this thread sees to a cache's aftermath. A destructor or listener that uses the same
/// cache leaves what it causes to the outer call, so that no chain of them grows the stack.
struct Tending(usize);

impl Tending {
    fn of<T>(cache: &T) -> Option<Self> {
        let address = std::ptr::from_ref(cache).addr();
        TENDING
            .try_with(|stack| {
                let mut stack = stack.borrow_mut();
                (!stack.contains(&address)).then(|| stack.push(address))
            })
            // While the thread's locals are being destroyed: somebody else will see to it.
            .inspect_err(|_| assert!(!seeded("locals-outlive-their-threads")))
            .ok()??;
        Some(Self(address))
    }

    /// Whether this thread is seeing to any cache's aftermath.
    fn is_under_way() -> bool {
        TENDING.try_with(|stack| !stack.borrow().is_empty()).unwrap_or(true)
    }
}

impl Drop for Tending {
    fn drop(&mut self) {
        let _ = TENDING.try_with(|stack| stack.borrow_mut().retain(|&address| address != self.0));
    }
}

/// Runs code of the user's; false if it panicked.
fn contained(run: impl FnOnce()) -> bool {
    if seeded("panics-are-let-through") {
        run();
        return true;
    }
    let Err(payload) = catch_unwind(AssertUnwindSafe(run)) else { return true };
    discard(payload);
    false
}

impl<K, V, S> Engine<K, V, S> {
    /// Hands an event to the maintenance. Called with no lock held, right after the commit, with
    /// nothing of the user's in between or in here (the clock was read before it): an event that a
    /// panic kept back would leave a node in the index of which the maintenance never hears.
    pub fn write_event(&self, event: Packed, weight: u32, now: u64) {
        let core = &self.core;
        let event = event.word();
        let pressure = match core.writes.push(event, weight) {
            Ok(pressure) => pressure,
            Err(_) if seeded("full-buffer-drops-the-event") => return,
            Err(_) => self.push_again(event, weight, now),
        };
        if pressure > Pressure::Low {
            // The scheduler has to hear of it, also if a pass of this thread's is what puts it on the wheel: it
            // may be sleeping for longer than the entry is to live.
            core.wake_within(PASS_DELAY);
        }
        match pressure {
            Pressure::Low => {
                // A cache that is only written to must not wait for the batch to be full.
                if core.is_due(now) {
                    let _ = core.status.request();
                }
            }
            Pressure::First => {
                let quiet = now.saturating_sub(core.last_pass.load(Ordering::Relaxed)) >= QUIET;
                if quiet {
                    let _ = core.status.request();
                } else {
                    // Or else reads alone would leave it for ever.
                    core.pass_by(now.saturating_add(QUIET));
                }
            }
            Pressure::Drain => {
                let _ = core.status.request();
            }
            Pressure::Urgent if seeded("urgent-writers-go-on") => {}
            Pressure::Urgent => self.pass_now(now),
        }
    }

    /// Makes room for an event that the write buffer has refused; or, while somebody else has the maintenance lock,
    /// who may be off its core, spills it.
    #[cold]
    fn push_again(&self, mut event: u64, weight: u32, now: u64) -> Pressure {
        loop {
            if self.core.is_awaited() || !self.pass_if_free(now) {
                if self.core.spill(event) {
                    return Pressure::Drain;
                }
                self.pass_now(now);
            }
            match self.core.writes.push(event, weight) {
                Ok(pressure) => return pressure,
                Err(full) => event = full,
            }
            // Its pass has come to other stripes before.
            if self.core.spill(event) {
                return Pressure::Drain;
            }
        }
    }

    /// The caller's share of the maintenance, after an operation that found it due.
    #[cold]
    pub fn attend(&self) {
        self.try_pass();
        if self.core.waits_for_grace() {
            // Nobody else may do so: where there are few reads, and nothing else, the epoch stands.
            crate::epoch::pin().flush();
        }
        self.aftermath(CALLER_NOTICES);
    }

    /// The caller's share of the maintenance, after a write.
    #[inline]
    pub fn tend(&self) {
        let core = &self.core;
        if core.status.should_drain(Urge::Delayable) {
            self.try_pass();
        }
        if !core.doomed.is_empty() || (core.announces && !core.outbox.is_empty()) {
            self.aftermath(CALLER_NOTICES);
        }
    }

    /// Runs a pass unless somebody else is at it.
    fn try_pass(&self) {
        if !self.core.is_awaited() {
            // The clock is the user's: before the lock.
            let _ = self.pass_if_free(self.core.ticker.coarse());
        }
    }

    /// Runs a pass at the caller's `now`, unless somebody else is at it; whether it did.
    fn pass_if_free(&self, now: u64) -> bool {
        // What pinning may run is anybody's: before the lock.
        let guard = crate::epoch::pin();
        let Some(state) = self.core.maintenance.try_lock() else { return false };
        let _ = self.pass(&guard, state, now, &mut Budget::of_caller());
        true
    }

    /// Runs a pass at the caller's `now`, after whoever is at it.
    fn pass_now(&self, now: u64) {
        let guard = crate::epoch::pin();
        let state = self.core.lock_maintenance();
        let _ = self.pass(&guard, state, now, &mut Budget::of_caller());
    }

    fn pass(
        &self,
        guard: &Guard,
        mut state: MutexGuard<'_, Maintenance>,
        now: u64,
        budget: &mut Budget,
    ) -> Leftover {
        let left = self.core.pass(guard, &mut state, now, budget);
        drop(state);
        if left.retired {
            guard.flush();
            // The scheduler is to look after what it has retired.
            self.core.wake_within(PASS_DELAY);
        }
        left
    }

    /// Drops what passes took out, and announces removals, at most `notices` of them. Nothing is
    /// locked.
    fn aftermath(&self, notices: usize) {
        let Some(_tending) = Tending::of(&self.core) else { return };
        let _held = seeded("listener-under-the-lock").then(|| self.core.maintenance.lock());
        self.drop_doomed();
        if self.core.announces {
            let delivered = self.core.outbox.deliver(notices, |notice| self.deliver(notice));
            if delivered.more {
                let _ = self.core.status.request();
                self.core.wake_within(Duration::ZERO);
            }
            // What calls of the listener have left to this one.
            self.drop_doomed();
        }
    }

    /// Drops the keys and values of nodes without a count.
    pub fn drop_doomed(&self) {
        while let Some(doomed) = self.core.doomed.pop() {
            self.destroy(&doomed);
        }
    }

    /// Drops the keys and values of nodes without a count.
    pub fn destroy(&self, ids: &[u32]) {
        self.pool.raw().destroy_all(ids, |drop_contents| {
            if !contained(drop_contents)
                && let Some(recorder) = &self.core.recorder
            {
                recorder.drop_panicked();
            }
        });
    }

    /// Tells the listener of one removal.
    fn deliver(&self, notice: Notice) {
        let removed = self.removed(notice);
        let Some(listener) = &self.hooks.listener else { return };
        if !contained(|| listener(removed))
            && let Some(recorder) = &self.core.recorder
        {
            recorder.listener_panicked();
        }
    }

    fn removed(&self, notice: Notice) -> Removed<K, V> {
        let Notice { id, cause, deadline, at } = notice;
        let raw = crate::pool::RawHandle::from_count(self.pool.raw().clone(), id);
        let node = self.pool.handle(raw);
        let created = node.meta().created();
        let late = Duration::from_nanos(at.saturating_sub(deadline));
        let facts = Facts {
            cause,
            deadline: remaining(deadline, at).map(|_| self.core.ticker.instant_of(deadline)),
            late_by: (cause == RemovalCause::Expired).then_some(late),
            age: Duration::from_nanos(at.saturating_sub(created)),
        };
        Removed::new(node, facts)
    }

    /// Finishes all maintenance that is due now; see
    /// [`Cache::run_pending_tasks`](crate::Cache::run_pending_tasks).
    pub fn run_pending(&self) {
        let mut grace = 0;
        // What was spilled before is taken out first, a portion by each pass.
        let mut owed = self.core.writes.spilled();
        let mut is_exact = false;
        loop {
            // The current tick is looked at once, when all that was written before is on the wheel.
            let exactly = owed == 0 && !is_exact;
            let budget = Budget::of_units(PATIENT_UNITS);
            let left = self.pass_within(&mut if exactly { budget.exactly() } else { budget });
            is_exact |= exactly;
            self.aftermath(usize::MAX);
            owed = owed.saturating_sub(self.core.writes.portion());
            if left.work || owed > 0 || !is_exact {
                continue;
            }
            if !self.core.waits_for_grace() || grace == GRACE_ROUNDS {
                return;
            }
            grace += 1;
            crate::epoch::pin().flush();
        }
    }

    /// Up to `units` units of maintenance, and as many announcements.
    pub fn run_pending_within(&self, units: usize) -> Pending {
        let left = self.units(u32::try_from(units).unwrap_or(u32::MAX));
        self.aftermath(units);
        Pending {
            expirations: left.expirations,
            excess_weight: left.excess,
            notifications: if self.core.announces { self.core.outbox.len() } else { 0 },
            reclamations: self.core.undropped.load(Ordering::Relaxed),
            other: left.writes || left.work || left.blocked || self.core.index.outgrown() > 0,
        }
    }

    /// Passes until no work is left but what has to wait for somebody.
    pub fn finish_work(&self) {
        while self.patient_pass().work {}
    }

    /// Runs a pass of so many units for an operation that needs it.
    pub fn run_units(&self, units: u32) {
        let _ = self.units(units);
    }

    fn patient_pass(&self) -> Leftover {
        self.units(PATIENT_UNITS)
    }

    /// Runs a pass of so many units that somebody asked for.
    fn units(&self, units: u32) -> Leftover {
        self.pass_within(&mut Budget::of_units(units))
    }

    /// Runs a pass, after whoever is at it.
    fn pass_within(&self, budget: &mut Budget) -> Leftover {
        let now = self.core.ticker.now();
        let guard = crate::epoch::pin();
        let state = self.core.lock_maintenance();
        self.pass(&guard, state, now, budget)
    }

    /// Announces everything, and waits for what another thread is announcing: unless this call comes from
    /// within an announcement or a destructor, of any cache, which two threads might then wait for.
    pub fn announce_all(&self) {
        let waits = !Tending::is_under_way();
        let _tending = Tending::of(&self.core);
        self.announce_rest();
        while waits && !self.core.outbox.is_idle() && !seeded("close-does-not-wait") {
            crate::sync::thread::yield_now();
            self.announce_rest();
        }
    }

    /// Delivers what is still to be announced when the cache is dropped.
    pub fn announce_rest(&self) {
        while self.core.outbox.deliver(usize::MAX, |notice| self.deliver(notice)).count > 0 {}
    }
}

/// Asks for another run a tick later if this one is cut short by a panic, which is the clock's: what
/// it was asked for is still to be done, and nobody asks twice.
struct Retry<'a>(&'a Core);

impl Drop for Retry<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.wake_within(self.0.tick);
        }
    }
}

impl<K, V, S> Scheduled for Engine<K, V, S>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// One patient pass; what is left comes back at once, so that other caches get their turn.
    fn run(&self) -> Option<Duration> {
        let _retry = Retry(&self.core);
        let left = self.pass_within(&mut Budget::of_scheduler(PATIENT_UNITS));
        self.aftermath(PATIENT_UNITS as usize);
        if left.work || left.writes || (self.core.announces && !self.core.outbox.is_empty()) {
            return Some(Duration::ZERO);
        }
        let in_grace = self.core.waits_for_grace();
        if in_grace {
            crate::epoch::pin().flush();
        }
        let soon = (in_grace || left.blocked).then_some(PASS_DELAY);
        let due = self.core.until_due();
        let surplus = match left.surplus {
            Surplus::None => None,
            Surplus::Unsettled(time) => Some(self.core.until(time).max(PASS_DELAY)),
            Surplus::Left => Some(Duration::ZERO),
        };
        soon.into_iter().chain(due).chain(surplus).min()
    }
}
