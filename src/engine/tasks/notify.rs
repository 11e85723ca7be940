//! A task's operation as a whole: it blocks its thread for nobody, and at its end it waits for
//! listeners where a thread would.

use crate::engine::Engine;
use crate::engine::delivery::CALLER_NOTICES;
use crate::engine::reentrancy::{self, ReentrancyMark};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

impl<K, V, S> Engine<K, V, S> {
    /// Polls an operation, and then awaits what its caller has to wait for: that too many notices
    /// are delivered, and the asynchronous listeners.
    pub async fn as_task<T>(&self, operation: impl Future<Output = T>) -> T {
        let result = {
            let mut operation = pin!(operation);
            poll_fn(|context| {
                // Keeps back-pressure from blocking the thread.
                let _mark = ReentrancyMark::task();
                operation.as_mut().poll(context)
            })
            .await
        };
        if let Some(limit) = self.core.notices.wait_limit()
            && self.core.notices.waiting() > limit
        {
            self.hold_back(limit).await;
        }
        if !self.hooks.async_listeners.is_empty() {
            self.notify().await;
        }
        result
    }

    /// Keeps a task until at most `limit` notices wait, as
    /// [`apply_back_pressure`](Self::apply_back_pressure) keeps a thread.
    #[cold]
    async fn hold_back(&self, limit: usize) {
        let notices = &self.core.notices;
        while notices.waiting() > limit && !reentrancy::is_in_user_code() {
            if notices.has_own_executor() {
                // The executor has its turn first. But it may have dropped the job, or its only
                // thread may be the one that polls this task; then the task delivers.
                notices.submit_deliveries();
                yield_now().await;
            }
            if notices.waiting() > limit && !notices.is_delivering() {
                let _mark = ReentrancyMark::task();
                self.deliver_at_most(CALLER_NOTICES);
            }
            self.another_delivers(|| notices.waiting() <= limit).await;
        }
    }

    /// Delivers everything, and awaits what another thread is delivering, as
    /// [`announce_all`](Self::announce_all) does for a thread.
    pub async fn announce_all_async(&self) {
        let notices = &self.core.notices;
        while !notices.is_idle() && !reentrancy::is_in_user_code() {
            self.another_delivers(|| !notices.is_delivering()).await;
            let _mark = ReentrancyMark::task();
            self.deliver_at_most(usize::MAX);
        }
    }

    /// Waits while another thread delivers, until it has made progress.
    async fn another_delivers(&self, is_enough: impl Fn() -> bool) {
        let notices = &self.core.notices;
        let mut wait = notices.progress();
        poll_fn(|context| wait.poll(context, || is_enough() || !notices.is_delivering())).await;
    }

    #[cold]
    async fn notify(&self) {
        for listener in &self.hooks.async_listeners {
            let panics = listener.tell().await;
            if let Some(recorder) = &self.core.recorder {
                (0..panics).for_each(|_| recorder.listener_panicked());
            }
        }
    }
}

/// Lets the runtime poll other tasks once.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
