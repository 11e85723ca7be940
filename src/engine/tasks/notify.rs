//! The end of a task's operation: asynchronous listeners.

use crate::engine::{Engine, reentrancy};

impl<K, V, S> Engine<K, V, S> {
    /// Tells the asynchronous listeners what waits for them. Does nothing inside a load or a
    /// computation: a listener that wrote the key would wait for itself. The outer operation tells.
    pub async fn tell_async(&self) {
        if !self.hooks.async_listeners.is_empty() && !reentrancy::defers_deliveries() {
            self.notify().await;
        }
    }

    #[cold]
    async fn notify(&self) {
        for listener in &self.hooks.async_listeners {
            listener.tell().await;
            if let Some(recorder) = &self.core.recorder {
                (0..listener.take_panics()).for_each(|_| recorder.listener_panicked());
            }
        }
    }
}
