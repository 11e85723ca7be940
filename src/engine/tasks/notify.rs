//! A task's operation as a whole: it blocks its thread for nobody, and at its end it waits for
//! listeners where a thread would.

use crate::engine::{Engine, reentrancy};

impl<K, V, S> Engine<K, V, S> {
    /// Whether a task that has read has to await something ([`tell_async`](Self::tell_async)).
    #[inline]
    pub fn tells_after_read(&self) -> bool {
        !self.hooks.async_listeners.is_empty()
    }

    /// Whether a task that has written has to await something.
    #[inline]
    pub fn tells_after_write(&self) -> bool {
        self.tells_after_read() || self.exceeded_limit().is_some()
    }

    /// Awaits what a caller has to wait for after its operation: that too many notices are
    /// delivered, and the asynchronous listeners. Inside a load or a computation it awaits nothing:
    /// a listener that wrote the key would wait for itself. The outer operation awaits then.
    pub async fn tell_async(&self) {
        if let Some(limit) = self.exceeded_limit() {
            self.hold_back(limit).await;
        }
        if self.tells_after_read() && !reentrancy::is_in_user_code() {
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
