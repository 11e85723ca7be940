//! Back-pressure: writers wait while too many notices wait for the listener.

use crate::engine::delivery::DeliveryBudget;
use crate::engine::maintenance::Core;
use crate::engine::reentrancy;
use std::time::Duration;

/// How long a writer that is held back leaves the delivery to the executor.
const OTHERS_TURN: Duration = Duration::from_millis(10);

impl Core {
    /// Keeps a writer until at most `limit` notices wait. A receiver takes them out; it is woken
    /// and waited for. In a cache with an executor of its own, that delivers first. But it may have
    /// dropped the job, or may be the very thread that waits here; then the writer delivers, as it
    /// does in any other cache.
    #[cold]
    pub(super) fn apply_back_pressure(&self, limit: usize) {
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
