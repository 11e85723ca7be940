//! A task's operation as a whole: it blocks its thread for nobody, and at its end it waits for
//! listeners where a thread would.

use crate::engine::Engine;
use crate::engine::reentrancy::ReentrancyMark;
use std::future::{Future, poll_fn};
use std::pin::pin;

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
        if let Some(limit) = self.exceeded_limit() {
            self.hold_back(limit).await;
        }
        if !self.hooks.async_listeners.is_empty() {
            self.notify().await;
        }
        result
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
