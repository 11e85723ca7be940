//! What tasks await at the end of an operation, where threads block: deliveries, and the listeners
//! that await.

use crate::async_listener::Share;
use crate::engine::Engine;
use crate::engine::delivery::DeliveryBudget;
use crate::engine::reentrancy::{self, Frame, ReentrancyMark};
use crate::waiters::yield_now;
use std::future::poll_fn;

impl<K, V> Engine<K, V> {
    /// Keeps a task until at most `limit` notices wait, as
    /// [`apply_back_pressure`](crate::engine::maintenance::Core::apply_back_pressure) keeps a
    /// thread. A listener that awaits is not kept: others may wait for it.
    #[cold]
    async fn hold_back(&self, limit: usize) {
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

    /// Whether a task that has read has to await something ([`tell_async`](Self::tell_async)).
    #[inline]
    pub fn tells_after_read(&self) -> bool {
        self.async_listeners.iter().any(|listener| !listener.is_idle())
    }

    /// Whether a task that has written has to await something.
    #[inline]
    pub fn tells_after_write(&self) -> bool {
        self.tells_after_read() || self.core.notices.exceeded_limit().is_some()
    }

    /// Awaits what a writer has to wait for after its operation: that too many notices are
    /// delivered, and the asynchronous listeners.
    pub async fn tell_and_hold_back(&self) {
        if let Some(limit) = self.core.notices.exceeded_limit() {
            self.hold_back(limit).await;
        }
        self.tell_async(Share::Writer { limit: self.core.notices.wait_limit() }).await;
    }

    /// Awaits the asynchronous listeners at the end of an operation.
    ///
    /// Inside a load or a computation this awaits nothing: a listener that wrote the key would wait
    /// for itself. The outer operation awaits then. Inside a listener that awaits, of any cache,
    /// nothing is held back: it would wait for itself, or for one that waits for it.
    #[cold]
    pub async fn tell_async(&self, mut share: Share) {
        if !self.tells_after_read() || reentrancy::is_in_user_code() {
            return;
        }
        if let Share::Writer { limit } = &mut share
            && reentrancy::tells()
        {
            *limit = None;
        }
        for listener in &self.async_listeners {
            let mut telling = listener.tell(share);
            poll_fn(|context| {
                let _mark = ReentrancyMark::push(Frame::Telling(self.core.id()));
                telling.as_mut().poll(context)
            })
            .await;
            if let Some(recorder) = &self.core.recorder {
                (0..listener.take_panics()).for_each(|_| recorder.listener_panicked());
            }
        }
    }
}
