//! A task's operation as a whole: it blocks its thread for nobody, and at its end it waits for
//! listeners where a thread would.

use crate::async_listener::Share;
use crate::engine::Engine;
use crate::engine::reentrancy::{self, Frame, ReentrancyMark};
use std::future::poll_fn;

impl<K, V> Engine<K, V> {
    /// Whether a task that has read has to await something ([`tell_async`](Self::tell_async)).
    #[inline]
    pub fn tells_after_read(&self) -> bool {
        self.async_listeners.iter().any(|listener| !listener.is_idle())
    }

    /// Whether a task that has written has to await something.
    #[inline]
    pub fn tells_after_write(&self) -> bool {
        self.tells_after_read() || self.exceeded_limit().is_some()
    }

    /// Awaits what a writer has to wait for after its operation: that too many notices are
    /// delivered, and the asynchronous listeners.
    pub async fn tell_and_hold_back(&self) {
        if let Some(limit) = self.exceeded_limit() {
            self.hold_back(limit).await;
        }
        self.tell_async(Share::Writer { limit: self.wait_limit() }).await;
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
