//! What an operation does after its own work, and what a job of the executor does. Back-pressure:
//! writers wait while too many notices wait for the listener.

use crate::engine::delivery::{Delivered, DeliveryBudget};
use crate::engine::maintenance::{Budget, Core, FEW_FLUSHES, take_owed_room};
use crate::engine::{Engine, reentrancy};
use crate::entry::Entry;
use crate::executor::Running;
use crate::primitives::seeded;
use std::time::Duration;

/// How long a writer that is held back leaves the delivery to the executor.
const OTHERS_TURN: Duration = Duration::from_millis(10);

impl<K, V> Engine<K, V> {
    /// Does the chores of the cache, as the job of its executor.
    pub fn run_job(&self, mut running: Running) {
        let core = &self.core;
        loop {
            // At each beginning: a listener may have noted reloads, and who asks for another job
            // for them while this one runs is told that there is one.
            core.drop_caught(self.hand_reloads_on());
            if !core.deliver_at_most(DeliveryBudget::JOB) {
                // The executor has run this job at once, inside a callback, a flight or a delivery
                // of this thread. That delivery, or a later operation, goes on. The drop of
                // `running` leaves the work to them.
                return;
            }
            core.notices.ask_for_more();
            let Some(ticket) = running.finish() else { return };
            match core.notices.follow(ticket) {
                Ok(()) => return,
                Err(ticket) => running = ticket.begin(),
            }
        }
    }

    /// Runs the caller's share of the maintenance, after a read that found it due.
    #[cold]
    pub fn after_read(&self) {
        self.core.drop_caught(self.after_own_read());
    }

    /// [`after_read`](Self::after_read) for a reader that wants to know of the reload that its read
    /// has triggered. `None` if no reload has run here; otherwise what those have made that have,
    /// perhaps of other keys.
    #[cold]
    pub fn after_own_read(&self) -> Option<Vec<Entry<K, V>>> {
        let core = &self.core;
        // Handed on first: the executor need not wait for what this thread does next.
        let made = self.hand_reloads_on();
        core.try_pass(Budget::of_reader());
        let _ = core.hasten_grace(FEW_FLUSHES);
        core.deliver_as_caller();
        made
    }

    /// Runs the caller's share of the maintenance, after a write. Blocks the writer while too many
    /// notices wait.
    #[inline]
    pub fn after_write(&self) {
        self.maintain_after_write();
        if let Some(limit) = self.core.notices.exceeded_limit() {
            self.core.apply_back_pressure(limit);
        }
    }

    /// [`after_write`](Self::after_write) without back-pressure, for reloads: their thread may be
    /// the one that receives.
    #[inline]
    pub fn maintain_after_write(&self) {
        let core = &self.core;
        if core.is_pass_required() {
            core.try_pass(Budget::of_writer());
            core.make_owed_room();
        }
        if core.notices.has_deliveries() {
            core.deliver_as_caller();
        }
        if core.notices.has_noted_reloads() {
            core.drop_caught(self.hand_reloads_on());
        }
    }
}

impl Core {
    /// Makes room for the heavy entries that this thread has written. It hands over or delivers
    /// what each pass removes: the queue of notices may have a limit.
    #[cold]
    fn make_owed_room(&self) {
        let mut owed = take_owed_room();
        while owed > 0
            && let Some(made) = self.make_room()
        {
            owed = owed.saturating_sub(made);
            if self.notices.has_own_executor() {
                self.notices.submit_deliveries();
            } else {
                self.deliver_at_most(DeliveryBudget::JOB);
            }
        }
    }

    /// Runs a caller's share of the deliveries.
    #[cold]
    fn deliver_as_caller(&self) {
        if self.notices.has_own_executor() {
            self.notices.submit_deliveries();
            self.notices.drop_for_executor(self, self.entries());
        } else {
            self.deliver_at_most(DeliveryBudget::CALLER);
        }
    }

    /// Delivers within the budget, and has a later operation do the rest. Returns whether it has
    /// delivered: see [`Delivered::has_run`].
    pub fn deliver_at_most(&self, budget: DeliveryBudget) -> bool {
        let _held = seeded("listener-under-the-lock").then(|| self.lock_maintenance());
        let Delivered { has_run, has_more } = self.notices.deliver(self, budget);
        if has_more {
            self.require_pass();
            self.wake_scheduler();
        }
        has_run
    }

    /// Keeps a writer until at most `limit` notices wait. A receiver takes them out; it is woken
    /// and waited for. In a cache with an executor of its own, that delivers first. But it may have
    /// dropped the job, or may be the very thread that waits here; then the writer delivers, as it
    /// does in any other cache.
    #[cold]
    fn apply_back_pressure(&self, limit: usize) {
        let notices = &self.notices;
        let receiving = notices.receiving();
        let mut is_patient = notices.has_own_executor();
        while notices.outbox.len() > limit && !reentrancy::is_anything_under_way() {
            if receiving.is_some_and(|receiving| !receiving.is_awaited()) {
                return;
            }
            let submits = is_patient && receiving.is_none();
            if submits {
                notices.submit_deliveries();
            } else {
                self.deliver_at_most(DeliveryBudget::CALLER);
            }
            // A writer that is the only one to deliver does not sleep: nothing would wake it.
            if submits || receiving.is_some() || notices.outbox.is_delivering() {
                let is_enough = || notices.outbox.len() <= limit;
                notices.outbox.waiters().wait_until(OTHERS_TURN, is_enough);
            }
            is_patient = notices.has_own_executor() && notices.outbox.is_delivering();
        }
    }
}
