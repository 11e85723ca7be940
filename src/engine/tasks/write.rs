//! Writes of single keys by tasks.

use super::drive::{as_task, drive};
use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::flights::Clearance;
use crate::engine::write::Removal;
use crate::entry::Entry;
use crate::expiration::Lifetime;
use crate::hash::{Hashed, LookupKey};
use crate::loaded::Loaded;

impl<K: Eq, V> Engine<K, V> {
    pub async fn insert_async(&self, key: Hashed<K>, value: V, lifetime: Lifetime) {
        if let Some(mut insert) = as_task(|| self.begin_insert(key, value, lifetime)) {
            drive(|| self.step_insert(&mut insert)).await;
            as_task(|| self.after_write());
        }
    }

    /// [`insert_async`](Self::insert_async) of a value with its lease.
    pub async fn insert_loaded_async(&self, key: Hashed<K>, loaded: Loaded<V>) {
        if let Some(mut insert) = as_task(|| self.begin_insert_loaded(key, loaded)) {
            drive(|| self.step_insert(&mut insert)).await;
            as_task(|| self.after_write());
        }
    }

    /// Removes the key's living entry, and returns it.
    pub async fn remove_async(&self, key: impl LookupKey<K>) -> Option<Entry<K, V>> {
        self.check_key(key);
        let removed = drive(|| self.step_removal(key)).await;
        as_task(|| self.after_write());
        removed
    }

    /// [`remove_async`](Self::remove_async) of an entry for which `condition` holds.
    pub async fn remove_if_async(
        &self,
        key: impl LookupKey<K>,
        mut condition: impl FnMut(&K, &V) -> bool,
    ) -> Option<Entry<K, V>> {
        self.check_key(key);
        let mut removal = Removal::Unjudged;
        let removed = drive(|| self.step_removal_if(key, &mut removal, &mut condition)).await;
        // As in `remove_if`.
        drop(removal);
        as_task(|| self.after_write());
        removed
    }

    /// Gives the key's living entry the hard deadline that `hard_deadline` computes from the
    /// present time. False if there is no living entry.
    pub async fn set_hard_deadline_async(
        &self,
        key: impl LookupKey<K>,
        hard_deadline: impl Fn(Timestamp) -> Timestamp,
    ) -> bool {
        self.check_key(key);
        let mut clearance = Clearance::Idle;
        let step = || self.step_set_hard_deadline(key, &hard_deadline, &mut clearance);
        let changed = drive(step).await;
        as_task(|| self.finish_set_hard_deadline(key, changed))
    }
}
