//! What tasks await of deliveries, where threads block.

use crate::engine::Engine;
use crate::engine::delivery::DeliveryBudget;
use crate::engine::reentrancy::{self, Frame, ReentrancyMark};
use crate::waiters::yield_now;
use std::future::poll_fn;

impl<K, V> Engine<K, V> {
    /// The limit of waiting notices, if more than that wait.
    pub fn exceeded_limit(&self) -> Option<usize> {
        self.core.notices.exceeded_limit()
    }

    /// The limit of waiting notices, if writers wait for it.
    pub fn wait_limit(&self) -> Option<usize> {
        self.core.notices.wait_limit()
    }

    /// Keeps a task until at most `limit` notices wait, as
    /// [`apply_back_pressure`](crate::engine::maintenance::Core::apply_back_pressure) keeps a
    /// thread. A listener that awaits is not kept: others may wait for it.
    #[cold]
    pub async fn hold_back(&self, limit: usize) {
        let notices = &self.core.notices;
        let may_wait = || !reentrancy::is_in_user_code() && !reentrancy::tells();
        while notices.outbox.len() > limit && may_wait() {
            if let Some(receiving) = notices.receiving() {
                // Until the receiver has taken out enough, or is gone, or the end has come.
                receiving.wake();
                let is_enough = || notices.outbox.len() <= limit || !receiving.is_awaited();
                return self.another_delivers(is_enough).await;
            }
            if notices.has_own_executor() {
                // The executor has its turn first. But it may have dropped the job, or its only
                // thread may be the one that polls this task; then the task delivers.
                notices.submit_deliveries();
                yield_now().await;
            }
            if notices.outbox.len() > limit && !notices.outbox.is_delivering() {
                let _mark = ReentrancyMark::push(Frame::Task);
                self.core.deliver_at_most(DeliveryBudget::CALLER);
            }
            let is_enough = || notices.outbox.len() <= limit || !notices.outbox.is_delivering();
            self.another_delivers(is_enough).await;
            if notices.outbox.len() > limit {
                yield_now().await;
            }
        }
    }

    /// Delivers everything, and awaits what another thread is delivering, as
    /// [`Core::announce_all`](crate::engine::maintenance::Core::announce_all) does for a thread.
    pub async fn announce_all_async(&self) {
        let notices = &self.core.notices;
        loop {
            self.announce_waiting_async().await;
            let is_received = notices.receiving().is_some();
            if is_received || notices.outbox.is_idle() || reentrancy::is_in_user_code() {
                return;
            }
        }
    }

    /// Awaits what another thread is delivering, and delivers what waits then. What listeners cause
    /// meanwhile is left to others.
    pub async fn announce_waiting_async(&self) {
        let notices = &self.core.notices;
        // A receiver takes its time, and may be in this very task.
        if notices.receiving().is_none() && !reentrancy::is_in_user_code() {
            self.another_delivers(|| !notices.outbox.is_delivering()).await;
        }
        let _mark = ReentrancyMark::push(Frame::Task);
        self.core.deliver_at_most(DeliveryBudget::of_units(notices.outbox.len()));
    }

    /// Waits until others have delivered, or taken out, enough.
    async fn another_delivers(&self, is_enough: impl Fn() -> bool) {
        let mut wait = self.core.notices.outbox.waiters().wait();
        poll_fn(|context| wait.poll(context, &is_enough)).await;
    }
}
