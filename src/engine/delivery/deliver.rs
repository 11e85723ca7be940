//! Notifying listeners: the part of a delivery that knows the types. The other modules of the
//! folder have the rest.

use super::budget::{DeliveryBudget, is_completed};
use crate::engine::Engine;
use crate::engine::core::{Core, Notice, Receiving};
use crate::engine::maintenance::{Budget, FEW_FLUSHES};
use crate::engine::typed::Listener;
use crate::entry::{Entry, Facts, Removed};
use crate::executor::Running;
use crate::node::remaining;
use crate::pool::{Pool, RawHandle};
use crate::removal::RemovalCause;

impl<K, V> Engine<K, V> {
    /// See [`Deliver`](crate::engine::reentrancy::Deliver).
    pub fn deliver_job(&self, mut running: Running) {
        let core = &self.core;
        loop {
            // At each beginning: a listener may have noted reloads, and who asks for another job
            // for them while this one runs is told that there is one.
            core.drop_caught(self.hand_reloads_on());
            if !self.deliver_at_most(DeliveryBudget::JOB) {
                // The executor has run this job at once, inside a callback, a flight or a delivery
                // of this thread. That delivery, or a later operation, goes on. The drop of
                // `running` leaves the work to them.
                return;
            }
            core.notices.ask_for_more();
            match running.finish() {
                None => return,
                // Submitted again, so that jobs of other caches come first. A runtime that has
                // ended drops the job.
                Some(ticket) if core.notices.executor.is_shared() => {
                    return core.notices.submit(ticket);
                }
                // A user's executor might run another job at once, inside this one.
                Some(ticket) => running = ticket.begin(),
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
        self.deliver_as_caller();
        made
    }

    /// Runs the caller's share of the maintenance, after a write. Blocks the writer while too many
    /// notices wait.
    #[inline]
    pub fn after_write(&self) {
        self.maintain_after_write();
        if let Some(limit) = self.core.notices.exceeded_limit() {
            self.core.apply_back_pressure(limit, &|notice| self.deliver(notice));
        }
    }

    /// [`after_write`](Self::after_write) without back-pressure, for reloads: their thread may be
    /// the one that receives.
    #[inline]
    pub fn maintain_after_write(&self) {
        let core = &self.core;
        if core.is_pass_required() {
            core.try_pass(Budget::of_writer());
            core.make_owed_room(&|notice| self.deliver(notice));
        }
        if core.notices.has_deliveries() {
            self.deliver_as_caller();
        }
        if core.notices.has_noted_reloads() {
            core.drop_caught(self.hand_reloads_on());
        }
    }

    /// Runs a caller's share of the deliveries.
    #[cold]
    fn deliver_as_caller(&self) {
        self.core.deliver_as_caller(&|notice| self.deliver(notice));
    }

    /// See [`Core::deliver_at_most`].
    pub fn deliver_at_most(&self, budget: DeliveryBudget) -> bool {
        self.core.deliver_at_most(budget, &|notice| self.deliver(notice))
    }

    /// Tells the listeners of one removal.
    pub(super) fn deliver(&self, notice: Notice) {
        let removed = removed(&self.core, &self.pool, notice);
        let Some((last, others)) = self.hooks.listeners.split_last() else {
            // Removals are for a receiver that nobody took. The notice may have the last count.
            return self.core.drop_caught(removed);
        };
        for listener in others {
            self.tell(listener, removed.clone());
        }
        self.tell(last, removed);
    }

    fn tell(&self, listener: &Listener<K, V>, removed: Removed<K, V>) {
        if !is_completed(|| listener(removed))
            && let Some(recorder) = &self.core.recorder
        {
            recorder.listener_panicked();
        }
    }

    /// Delivers the notices that are left when the cache is dropped, unless there is a receiver: it
    /// outlives the cache, and takes them.
    pub fn announce_rest(&self) {
        if self.core.notices.receiving.as_deref().is_some_and(Receiving::is_taken) {
            return;
        }
        let outbox = &self.core.notices.outbox;
        while outbox.deliver(usize::MAX, |notice| self.deliver(notice)).count > 0 {}
    }
}

/// The removal that a notice tells of.
pub fn removed<K, V>(core: &Core, pool: &Pool<K, V>, notice: Notice) -> Removed<K, V> {
    let Notice { id, cause, deadline, at } = notice;
    let node = pool.handle(RawHandle::from_count(pool.raw().clone(), id));
    let created = node.meta().created();
    let late = at.saturating_since(deadline).to_duration();
    let facts = Facts {
        cause,
        deadline: remaining(deadline, at).map(|_| core.ticker.instant_of(deadline)),
        late_by: (cause == RemovalCause::Expired).then_some(late),
        age: at.saturating_since(created).to_duration(),
    };
    Removed::new(node, facts)
}
