//! What one call delivers: the removals that it announces, the contents that it drops. Nothing here
//! knows keys or values; `tell` calls the listeners.

use crate::engine::core::{Core, Notice};
use crate::engine::maintenance::take_owed_room;
use crate::engine::reentrancy::{self, Frame, ReentrancyMark};
use crate::links::NodeId;
use crate::pool::RawHandle;
use crate::primitives::{catch_user_panic, seeded};

/// Tells the listeners of one removal.
pub type Tell<'a> = &'a dyn Fn(Notice);

/// While more nodes than this, and more than the cache has entries, wait for an executor of the
/// user's to drop their contents, callers drop some.
const FAR_BEHIND: usize = 4096;

/// How much one call delivers.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryBudget {
    notices: usize,
    /// Batches of nodes whose keys and values are dropped. What a caller's pass gives up fills
    /// nine at most. (In a small cache batches are smaller, and may be more.) What is left asks
    /// for a pass, and so for the next operation.
    batches: usize,
}

impl DeliveryBudget {
    /// Of a caller, beside its operation.
    pub const CALLER: Self = Self { notices: 64, batches: 16 };
    /// Of a job, before other caches have their turn. The end of a runtime waits for that long: for
    /// a listener that takes 200 µs, 0.8 s.
    pub const JOB: Self = Self { notices: 4096, batches: 16 };
    pub const ALL: Self = Self { notices: usize::MAX, batches: usize::MAX };

    /// Of a caller that asked for so many units.
    pub fn of_units(notices: usize) -> Self {
        Self { notices, ..Self::ALL }
    }
}

impl Core {
    /// Makes room for the heavy entries that this thread has written. It hands over or delivers
    /// what each pass removes: the queue of notices may have a limit.
    #[cold]
    pub fn make_owed_room(&self, tell: Tell<'_>) {
        let mut owed = take_owed_room();
        while owed > 0
            && let Some(made) = self.make_room()
        {
            owed = owed.saturating_sub(made);
            if self.notices.has_own_executor() {
                self.notices.submit_deliveries();
            } else {
                self.deliver_at_most(DeliveryBudget::JOB, tell);
            }
        }
    }

    /// Runs a caller's share of the deliveries.
    pub fn deliver_as_caller(&self, tell: Tell<'_>) {
        if self.notices.has_own_executor() {
            self.notices.submit_deliveries();
            self.drop_for_executor();
        } else {
            self.deliver_at_most(DeliveryBudget::CALLER, tell);
        }
    }

    /// Drops what an executor of the user's is too far behind with: it may be stuck or gone, and
    /// the values take memory. Its job may be in a listener.
    fn drop_for_executor(&self) {
        let waiting = self.notices.nodes_to_drop();
        let is_behind = waiting > FAR_BEHIND && waiting as u64 > self.entries();
        if is_behind
            && !reentrancy::bars_deliveries()
            && let Some(_mark) = ReentrancyMark::push_once(Frame::Delivery(self.id()))
        {
            self.drop_reclaimed(DeliveryBudget::CALLER.batches);
        }
    }

    /// Drops what passes took out and announces removals, within the budget. No lock is held. Does
    /// nothing and returns false inside a callback or a flight, where it leaves the delivery to a
    /// later operation, and inside another delivery of this cache, which takes it over.
    pub fn deliver_at_most(&self, budget: DeliveryBudget, tell: Tell<'_>) -> bool {
        let notices = &self.notices;
        if reentrancy::bars_deliveries() && !seeded("owners-deliver") {
            if notices.has_deliveries() {
                self.require_pass();
                self.wake_scheduler();
            }
            return false;
        }
        let Some(_mark) = ReentrancyMark::push_once(Frame::Delivery(self.id())) else {
            return false;
        };
        let _held = seeded("listener-under-the-lock").then(|| self.lock_maintenance());
        let DeliveryBudget { notices: mut most, mut batches } = budget;
        // Calls from listeners and destructors leave to this one what they cause.
        loop {
            batches -= self.drop_reclaimed(batches);
            if let Some(receiving) = &notices.receiving {
                receiving.wake();
                if receiving.is_gone() {
                    self.drop_unreceived();
                }
            }
            let mut has_more = batches == 0 && !notices.to_drop.is_empty();
            let mut is_done = true;
            if notices.has_listener {
                let delivered = notices.outbox.deliver(most, tell);
                most -= delivered.count;
                has_more |= delivered.more;
                is_done = delivered.count == 0 && notices.to_drop.is_empty();
            }
            if has_more {
                self.require_pass();
                self.wake_scheduler();
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
            && let Some(ids) = self.notices.next_to_drop()
        {
            self.destroy(&ids);
            batches += 1;
        }
        batches
    }

    /// Drops the keys and values of nodes without a count.
    pub fn destroy(&self, ids: &[NodeId]) {
        self.pool.destroy_all(ids, |drop_contents| self.note_drop(is_completed(drop_contents)));
    }

    /// Drops what may have the last count on a key and a value.
    pub fn drop_caught<T>(&self, what: T) {
        self.note_drop(is_completed(|| drop(what)));
    }

    fn note_drop(&self, is_completed: bool) {
        if !is_completed && let Some(recorder) = &self.recorder {
            recorder.drop_panicked();
        }
    }

    /// Releases the notices that nobody will receive, until another receiver is taken. Writers that
    /// wait for room go on.
    #[cold]
    pub fn drop_unreceived(&self) {
        let drop_one = |Notice { id, .. }| {
            self.notices.count_discarded();
            self.drop_caught(RawHandle::from_count(self.pool.clone(), id));
        };
        let Some(receiving) = &self.notices.receiving else { return };
        while receiving.is_gone() && self.notices.outbox.deliver(1, drop_one).count > 0 {}
        // Another receiver may have parked because this thread was delivering.
        receiving.wake();
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
