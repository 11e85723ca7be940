//! A task's operation as a whole: it blocks its thread for nobody, and at its end it waits for
//! listeners where a thread would.

use crate::engine::Engine;

impl<K, V, S> Engine<K, V, S> {
    /// Awaits what a caller has to wait for after its operation: that too many notices are
    /// delivered, and the asynchronous listeners.
    pub async fn tell_async(&self) {
        if let Some(limit) = self.exceeded_limit() {
            self.hold_back(limit).await;
        }
        if !self.hooks.async_listeners.is_empty() {
            self.notify().await;
        }
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
