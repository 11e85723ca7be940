//! The end of a cache: closing it, dropping it.

use crate::engine::Engine;
use crate::primitives::{Arc, seeded};

/// The counts that a cache has on its pool: in its typed part, in the other one, and with its
/// listeners.
const OWN_COUNTS: usize = 2;

impl<K: Eq, V> Engine<K, V> {
    pub fn close(&self) {
        if seeded("close-clears-first") {
            self.clear();
        }
        self.core.notices.close();
        // Even if the cache is blank: a writer that saw it open may be about to publish.
        if !seeded("close-clears-first") {
            self.clear();
        }
        self.run_pending();
        self.core.announce_all();
        self.core.notices.end_receiving();
    }
}

impl<K, V> Engine<K, V> {
    /// Whether anything has the pool that may outlive the cache: a handle, a receiver.
    pub fn is_outlived(&self) -> bool {
        let with_listeners = usize::from(self.listener.is_some());
        Arc::strong_count(self.pool.raw()) > OWN_COUNTS + with_listeners
    }
}

impl<K, V> Drop for Engine<K, V> {
    /// The last handle is gone, so no other thread is inside and no guard of a reader protects
    /// anything here. Only the scheduler may be running a pass; this waits for it.
    fn drop(&mut self) {
        self.core.end();
        self.core.notices.deliver_rest(&self.core);
        if let Some(reloads) = &self.reloads {
            reloads.end();
        }
        let pool = self.pool.raw();
        for id in pool.ids() {
            if pool.give_up(id) {
                // A panic of a destructor must not keep the others from running.
                self.core.destroy(&[id]);
            }
        }
        self.core.notices.drop_reclaimed(&self.core, usize::MAX);
        // Handles and receivers that outlive the cache keep the pool, but need none of its free
        // nodes. (The pool has models of its own.)
        if self.is_outlived() && !cfg!(cortado_loom) {
            pool.shelve(usize::MAX);
        }
        self.core.notices.end_receiving();
    }
}
