//! Delivery: telling the listener, and dropping what passes took out. `docs/notifications.md` says
//! who does it when. All of it runs user code: no lock and no guard is held.

use super::Engine;
use super::budget::Budget;
use super::core::{Core, Notice};
use super::reentry::{self, Deliver, Mark};
use super::run::{GRACE_ROUNDS, PATIENT_UNITS};
use crate::drain::Urge;
use crate::entry::{Facts, Removed};
use crate::executor::{Running, Ticket};
use crate::node::remaining;
use crate::outbox::Outbox;
use crate::pool::RawHandle;
use crate::removal::RemovalCause;
use crate::sync::atomic::Ordering;
use crate::sync::{catch_user_panic, seeded};
use std::time::Duration;

/// Removals that a caller announces in passing.
const CALLER_NOTICES: usize = 64;
/// Removals that a job announces before other caches get their turn.
const JOB_NOTICES: usize = 4096;
/// How long a writer that is held back leaves the delivery to the executor.
const OTHERS_TURN: Duration = Duration::from_millis(10);
/// Flushes of the epoch that a caller makes in passing while each of them brings something back.
const CALLER_FLUSHES: u32 = 8;

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
    /// Other work: recorded writes, a growing index, the sweep after an `invalidate_all`, memory
    /// to be given back.
    pub other: bool,
}

impl Pending {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::default()
    }
}

/// Runs code of the user's; false if it panicked.
fn is_completed(run: impl FnOnce()) -> bool {
    if seeded("panics-are-let-through") {
        run();
        return true;
    }
    catch_user_panic(run).is_some()
}

impl Core {
    /// Whether there is something to tell or to drop.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.doomed.is_empty() || (self.announces && !self.outbox.is_empty())
    }

    /// Hands what there is to tell and to drop to the executor. With no lock held.
    pub fn hand_over(&self) {
        if self.has_deliveries()
            && let Some(ticket) = self.handoff.request()
        {
            self.submit(ticket);
        }
    }

    fn submit(&self, ticket: Ticket) {
        let Some(client) = self.client.get().cloned() else { return };
        self.executor.execute(Box::new(move || {
            let running = ticket.begin();
            // Perhaps the last handle: then the cache ends here.
            if let Some(client) = client.upgrade() {
                client.deliver_job(running);
            }
        }));
    }
}

impl<K, V, S> Deliver for Engine<K, V, S>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    fn deliver_some(&self) {
        self.deliver_at_most(CALLER_NOTICES);
    }

    fn deliver_job(&self, mut running: Running) {
        let core = &self.core;
        loop {
            if !self.deliver_at_most(JOB_NOTICES) {
                // On a thread that is in the middle of something, which an executor that runs jobs
                // at once may be called by. Whoever is delivering there, or its
                // end, sees to it. Dropped, the job leaves its work.
                return;
            }
            if core.has_deliveries() && !core.outbox.is_delivering() {
                let _ = core.handoff.request();
            }
            match running.finish() {
                None => return,
                // Behind the jobs of other caches.
                Some(ticket) if core.executor.is_shared() => return core.submit(ticket),
                // Not by another job, which might run inside this one.
                Some(ticket) => running = ticket.begin(),
            }
        }
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// The caller's share of the maintenance, after an operation that found it due.
    #[cold]
    pub fn attend(&self) {
        let core = &self.core;
        if reentry::has_put_off() {
            reentry::deliver_put_off();
        }
        core.try_pass();
        let mut flushes = 0;
        // Nobody else may do so: where there are few reads, and nothing else, the epoch stands.
        while core.waits_for_grace() && flushes < CALLER_FLUSHES && core.push_epoch_on() {
            flushes += 1;
        }
        self.deliver_in_passing();
    }

    /// The caller's share of the maintenance, after a write.
    #[inline]
    pub fn tend(&self) {
        let core = &self.core;
        if core.status.should_drain(Urge::Delayable) {
            core.try_pass();
        }
        if core.has_deliveries() {
            self.deliver_in_passing();
            if let Some(limit) = core.holds_back_at {
                self.hold_back(limit);
            }
        }
    }

    /// A caller's share of the deliveries.
    #[cold]
    fn deliver_in_passing(&self) {
        if self.core.delivers_elsewhere {
            self.core.hand_over();
        } else {
            self.deliver_at_most(CALLER_NOTICES);
        }
    }

    /// Keeps a writer until so few notices wait, by others' help or its own. Others' comes first.
    /// But an executor may have dropped the job, or be the very thread that waits here: then
    /// the writer delivers.
    #[cold]
    fn hold_back(&self, limit: usize) {
        let core = &self.core;
        let mut is_patient = core.delivers_elsewhere;
        while core.outbox.len() > limit && !reentry::is_anything_under_way() {
            if is_patient {
                core.hand_over();
            } else {
                self.deliver_at_most(CALLER_NOTICES);
            }
            let is_enough = |outbox: &Outbox<Notice>| outbox.len() <= limit;
            core.outbox.wait_until(OTHERS_TURN, is_enough);
            is_patient = core.delivers_elsewhere && core.outbox.is_delivering();
        }
    }

    /// Drops what passes took out, and announces at most so many removals. Nothing is locked. False
    /// if this thread is in the middle of something: where it owns a key, or runs a callback,
    /// deliveries are put off until that has ended, and those of a cache within another of its
    /// own deliveries are left to that.
    pub fn deliver_at_most(&self, notices: usize) -> bool {
        let core = &self.core;
        if reentry::puts_deliveries_off() && !seeded("owners-deliver") {
            if core.has_deliveries()
                && let Some(client) = core.client.get()
            {
                reentry::put_off(client);
            }
            return false;
        }
        let Some(_mark) = Mark::delivery(core) else { return false };
        let _held = seeded("listener-under-the-lock").then(|| core.maintenance.lock());
        let mut left = notices;
        // Calls of listeners and destructors leave to this one what they cause.
        loop {
            self.drop_doomed();
            if !core.announces {
                return true;
            }
            let delivered = core.outbox.deliver(left, |notice| self.deliver(notice));
            left -= delivered.count;
            if delivered.more {
                let _ = core.status.request();
                core.wake_within(Duration::ZERO);
                return true;
            }
            if delivered.count == 0 && core.doomed.is_empty() {
                return true;
            }
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
            if !is_completed(drop_contents)
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
        if !is_completed(|| listener(removed))
            && let Some(recorder) = &self.core.recorder
        {
            recorder.listener_panicked();
        }
    }

    fn removed(&self, notice: Notice) -> Removed<K, V> {
        let Notice { id, cause, deadline, at } = notice;
        let node = self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), id));
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
        let core = &self.core;
        let mut grace = 0;
        // What was spilled before is taken out first, a portion by each pass.
        let mut owed = core.writes.spilled();
        let mut is_exact = false;
        loop {
            // The current tick is looked at once, when all that was written before is on the wheel.
            let exactly = owed == 0 && !is_exact;
            let budget = Budget::of_units(PATIENT_UNITS);
            let left = core.pass_within(&mut if exactly { budget.exactly() } else { budget });
            is_exact |= exactly;
            self.deliver_at_most(usize::MAX);
            owed = owed.saturating_sub(core.writes.portion());
            if left.work || owed > 0 || !is_exact {
                continue;
            }
            if !core.waits_for_grace() || grace == GRACE_ROUNDS {
                return;
            }
            grace = if core.push_epoch_on() { 0 } else { grace + 1 };
        }
    }

    /// Up to `units` units of maintenance, and as many announcements.
    pub fn run_pending_within(&self, units: usize) -> Pending {
        let core = &self.core;
        let left = core.pass_of_units(u32::try_from(units).unwrap_or(u32::MAX));
        self.deliver_at_most(units);
        Pending {
            expirations: left.expirations,
            excess_weight: left.excess,
            notifications: if core.announces { core.outbox.len() } else { 0 },
            reclamations: core.undropped.load(Ordering::Relaxed),
            other: left.writes || left.work || left.blocked || core.index.outgrown() > 0,
        }
    }

    /// Announces everything, and waits for what another thread is announcing: unless this call
    /// comes from within a callback, a load, a computation, an announcement or a destructor, of
    /// any cache, which two threads might then wait for.
    pub fn announce_all(&self) {
        let waits = !reentry::is_anything_under_way();
        self.deliver_at_most(usize::MAX);
        let outbox = &self.core.outbox;
        while waits && !outbox.is_idle() && !seeded("close-does-not-wait") {
            outbox.wait_until(Duration::MAX, |outbox| !outbox.is_delivering());
            self.deliver_at_most(usize::MAX);
        }
    }

    /// Delivers what is still to be announced when the cache is dropped.
    pub fn announce_rest(&self) {
        while self.core.outbox.deliver(usize::MAX, |notice| self.deliver(notice)).count > 0 {}
    }
}
