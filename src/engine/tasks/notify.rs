//! The end of a task's operation: asynchronous listeners.

use crate::engine::Engine;
use std::future::Future;

impl<K, V, S> Engine<K, V, S> {
    /// Awaits an operation, and then tells the asynchronous listeners what waits for them.
    pub async fn then_notify<T>(&self, operation: impl Future<Output = T>) -> T {
        let result = operation.await;
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
