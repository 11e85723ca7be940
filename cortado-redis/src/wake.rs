//! Waiting for a load that began elsewhere or before: the server's next word about the key ends the
//! wait.

use crate::link::locked;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;

/// Fired once; a wait that begins later ends at once.
#[derive(Default)]
pub struct Wake {
    fired: AtomicBool,
    notify: Notify,
}

impl Wake {
    fn fire(&self) {
        self.fired.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    pub async fn wait(&self) {
        let notified = self.notify.notified();
        if !self.fired.load(Ordering::SeqCst) {
            notified.await;
        }
    }
}

/// Who waits for which key.
pub struct Wakes<K>(Mutex<Waiting<K>>);

struct Waiting<K> {
    by_key: HashMap<K, Weak<Wake>>,
    /// With so many, those whose waits were cut off are looked for.
    sweep_at: usize,
}

const SWEEP_AT: usize = 64;

impl<K: Hash + Eq + Clone> Wakes<K> {
    pub fn new() -> Self {
        Self(Mutex::new(Waiting { by_key: HashMap::new(), sweep_at: SWEEP_AT }))
    }

    /// What the next word about the key fires. Registered before the key is read, so that no word
    /// is missed.
    pub fn register(&self, key: &K) -> Arc<Wake> {
        let mut waiting = locked(&self.0);
        if waiting.by_key.len() >= waiting.sweep_at {
            waiting.by_key.retain(|_, wake| wake.strong_count() > 0);
            waiting.sweep_at = SWEEP_AT.max(2 * waiting.by_key.len());
        }
        waiting.by_key.get(key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let wake = Arc::<Wake>::default();
            waiting.by_key.insert(key.clone(), Arc::downgrade(&wake));
            wake
        })
    }

    pub fn fire(&self, key: &K) {
        let wake = locked(&self.0).by_key.remove(key);
        if let Some(wake) = wake.and_then(|wake| wake.upgrade()) {
            wake.fire();
        }
    }

    pub fn fire_all(&self) {
        let all = std::mem::take(&mut locked(&self.0).by_key);
        all.into_values().filter_map(|wake| wake.upgrade()).for_each(|wake| wake.fire());
    }
}
