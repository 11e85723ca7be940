//! The end of a task's operation: asynchronous listeners.

use crate::engine::Engine;

impl<K, V, S> Engine<K, V, S> {
    /// Tells the asynchronous listeners what waits for them.
    pub async fn tell_async(&self) {
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
