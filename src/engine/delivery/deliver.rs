//! Notifying listeners, and dropping keys and values.

use crate::engine::Engine;
use crate::engine::core::{Core, Notice, Receiving};
use crate::engine::maintenance::{Budget, take_owed_room};
use crate::engine::reentrancy::{self, Deliver, ReentrancyMark};
use crate::engine::reloads::Reloading;
use crate::engine::typed::Listener;
use crate::entry::{Entry, Facts, Removed};
use crate::executor::Running;
use crate::links::NodeId;
use crate::node::remaining;
use crate::pool::{Pool, RawHandle};
use crate::primitives::{catch_user_panic, seeded};
use crate::removal::RemovalCause;

/// How much one call delivers.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    notices: usize,
    /// Batches of nodes whose keys and values are dropped. A pass leaves fewer than sixteen, so
    /// threads that all run passes keep up with each other.
    batches: usize,
}

impl Share {
    /// Of a caller, beside its operation.
    pub const CALLER: Self = Self { notices: 64, batches: 16 };
    /// Of a job, before other caches have their turn.
    const JOB: Self = Self { notices: 4096, batches: 16 };
    pub const ALL: Self = Self { notices: usize::MAX, batches: usize::MAX };

    /// Of a caller that asked for so many units.
    pub fn of_units(notices: usize) -> Self {
        Self { notices, ..Self::ALL }
    }
}

/// Runs user code; false if it panicked.
pub fn is_completed(run: impl FnOnce()) -> bool {
    if seeded("panics-are-let-through") {
        run();
        return true;
    }
    catch_user_panic(run).is_some()
}

impl<K, V, S> Deliver for Engine<K, V, S>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    fn deliver_some(&self, nodes: Vec<NodeId>, is_outermost: bool) {
        let Some(reloads) = self.reloads.as_ref().filter(|_| !nodes.is_empty()) else {
            return self.deliver_as_caller();
        };
        if !is_outermost || crate::epoch::is_pinned() {
            // A frame may have ended inside a view.
            self.core.notices.defer(nodes);
            return self.deliver_as_caller();
        }
        // Taken out first: if a delivery panics, they are given back.
        let taken = reloads.take_deferred(&nodes);
        self.deliver_as_caller();
        for reloading in taken {
            if reentrancy::may_start_another(reloads.settings.limit) {
                drop(reloads.start(reloading));
            } else {
                reloading.give_up();
            }
        }
    }

    fn give_back(&self, nodes: Vec<NodeId>) {
        if let Some(reloads) = &self.reloads {
            reloads.take_deferred(&nodes).into_iter().for_each(Reloading::give_up);
        }
    }

    fn deliver_job(&self, mut running: Running) {
        let core = &self.core;
        loop {
            if !self.deliver_at_most(Share::JOB) {
                // This thread is inside a callback, a flight or a delivery: an executor may run
                // jobs at once. The outer frame delivers, or its end does. The dropped job leaves
                // its work to them.
                return;
            }
            core.notices.ask_for_more();
            match running.finish() {
                None => return core.trim_soon(),
                // The next job comes after those of other caches.
                Some(ticket) if core.notices.shares_executor() => {
                    return core.notices.submit(ticket);
                }
                // Another job might run inside this one.
                Some(ticket) => running = ticket.begin(),
            }
        }
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Runs the caller's share of the maintenance, after a read that found it due.
    #[cold]
    pub fn after_read(&self) {
        drop(self.after_own_read());
    }

    /// [`after_read`](Self::after_read) for a reader that wants the value of the reload that its
    /// read has triggered, if the reload was run here and brought one. It may be that of another
    /// key.
    #[cold]
    pub fn after_own_read(&self) -> Option<Entry<K, V>> {
        let core = &self.core;
        let own = self.take_own_reloads();
        if reentrancy::has_deferred() {
            reentrancy::deliver_deferred();
        }
        core.try_pass(Budget::of_reader());
        core.hasten_grace();
        self.deliver_as_caller();
        let reloads = self.reloads.as_ref()?;
        while !reloads.settings.inline
            && let Some(reloading) = reloads.take_waiting()
        {
            drop(reloads.start(reloading));
        }
        own.into_iter().map(|reloading| reloads.start(reloading)).last().flatten()
    }

    /// Takes the reloads that this thread's reads have left, if they run here and now. Those that
    /// run inline wait for the end of the outermost callback, load or computation on this thread,
    /// and of its views: a loader may wait for what these hold, and a guard would hold back memory
    /// meanwhile.
    fn take_own_reloads(&self) -> Vec<Reloading<K, V>> {
        let Some(reloads) = self.reloads.as_ref().filter(|it| it.settings.inline) else {
            return Vec::new();
        };
        let is_deferred = (reentrancy::defers_deliveries() || crate::epoch::is_pinned())
            && !seeded("reloads-run-where-they-are-found");
        if !is_deferred {
            return reloads.take_own(self.core.ticker.coarse());
        }
        let nodes = reloads.defer_own();
        if !nodes.is_empty() {
            self.core.notices.defer(nodes);
        }
        Vec::new()
    }

    /// Runs the caller's share of the maintenance, after a write.
    #[inline]
    pub fn after_write(&self) {
        self.maintain_after_write();
        self.hold_back_writer();
    }

    /// Keeps a writer while too many notices wait.
    #[inline]
    pub fn hold_back_writer(&self) {
        if let Some(limit) = self.core.notices.exceeded_limit() {
            self.apply_back_pressure(limit);
        }
    }

    /// [`after_write`](Self::after_write) of a caller that waits for no other thread: a reload may
    /// run inside a read.
    #[inline]
    pub fn maintain_after_write(&self) {
        let core = &self.core;
        if core.is_pass_required() {
            core.try_pass(Budget::of_writer());
            self.make_owed_room();
        }
        if core.notices.has_deliveries() {
            self.deliver_as_caller();
        }
    }

    /// Makes room for the heavy entries that this thread has written. It hands over or delivers
    /// what each pass removes: the queue of notices may have a limit.
    #[cold]
    fn make_owed_room(&self) {
        let core = &self.core;
        let mut owed = take_owed_room();
        while owed > 0
            && let Some(made) = core.make_room()
        {
            owed = owed.saturating_sub(made);
            if core.notices.has_own_executor() {
                core.notices.submit_deliveries();
            } else {
                self.deliver_at_most(Share::JOB);
            }
        }
    }

    /// Runs a caller's share of the deliveries.
    #[cold]
    fn deliver_as_caller(&self) {
        if self.core.notices.has_own_executor() {
            self.core.notices.submit_deliveries();
        } else {
            self.deliver_at_most(Share::CALLER);
        }
    }

    /// Drops what passes took out and announces removals, within the share. No lock is held. Does
    /// nothing and returns false inside a callback or a flight, where it defers the delivery to
    /// their end, and inside another delivery of this cache, which takes it over.
    pub fn deliver_at_most(&self, share: Share) -> bool {
        let core = &self.core;
        if reentrancy::defers_deliveries() && !seeded("owners-deliver") {
            if core.notices.has_deliveries() {
                core.notices.defer(Vec::new());
            }
            return false;
        }
        let Some(_mark) = ReentrancyMark::delivery(core.id()) else { return false };
        let _held = seeded("listener-under-the-lock").then(|| core.lock_maintenance());
        let Share { mut notices, mut batches } = share;
        // Calls from listeners and destructors leave to this one what they cause.
        loop {
            batches -= self.drop_reclaimed(batches);
            if let Some(receiving) = core.notices.receiving() {
                receiving.wake();
                if receiving.is_gone() {
                    self.drop_unreceived();
                }
            }
            let mut has_more = batches == 0 && !core.notices.has_nothing_to_drop();
            let mut is_done = true;
            if core.notices.has_listener() {
                let delivered = core.notices.deliver(notices, |notice| self.deliver(notice));
                notices -= delivered.count;
                has_more |= delivered.more;
                is_done = delivered.count == 0 && core.notices.has_nothing_to_drop();
            }
            if has_more {
                core.require_pass();
                core.wake_scheduler();
            }
            if has_more || is_done {
                return true;
            }
        }
    }

    /// Drops the keys and values of nodes without a count, of at most so many batches. Returns of
    /// how many.
    pub fn drop_reclaimed(&self, most: usize) -> usize {
        let mut batches = 0;
        while batches < most
            && let Some(ids) = self.core.notices.next_to_drop()
        {
            self.destroy(&ids);
            batches += 1;
        }
        batches
    }

    /// Drops the keys and values of nodes without a count.
    pub fn destroy(&self, ids: &[NodeId]) {
        self.pool.raw().destroy_all(ids, |drop_contents| {
            if !is_completed(drop_contents)
                && let Some(recorder) = &self.core.recorder
            {
                recorder.drop_panicked();
            }
        });
    }

    /// Tells the listeners of one removal.
    fn deliver(&self, notice: Notice) {
        let removed = removed(&self.core, &self.pool, notice);
        let Some((last, others)) = self.hooks.listeners.split_last() else {
            // The notice of a receiver that nobody took may have the last count.
            if !is_completed(|| drop(removed))
                && let Some(recorder) = &self.core.recorder
            {
                recorder.drop_panicked();
            }
            return;
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

    /// Delivers what is still to be announced when the cache is dropped. A receiver outlives the
    /// cache.
    pub fn announce_rest(&self) {
        if self.core.notices.receiving().is_some_and(Receiving::is_taken) {
            return;
        }
        while self.core.notices.deliver(usize::MAX, |notice| self.deliver(notice)).count > 0 {}
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
