//! `retain` for tasks.

use super::drive::{as_task, drive};
use crate::engine::Engine;

impl<K: Eq, V> Engine<K, V> {
    pub async fn retain_async(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut refuses = |key: &K, value: &V| !keep(key, value);
        for node in self.all_keys() {
            let Some((node, mut removal)) = as_task(|| self.refused(node, &mut refuses)) else {
                continue;
            };
            let key = node.hashed();
            drive(|| self.step_removal_if(key, &mut removal, &mut refuses)).await;
            drop((node, removal));
            // At once: the predicate may panic, and the task may wait or be dropped.
            as_task(|| self.after_write());
        }
    }

    /// Removes the entries for which the predicate holds, but for those whose keys are being
    /// computed.
    pub fn remove_without_waiting(&self, mut predicate: impl FnMut(&K, &V) -> bool) {
        for node in self.all_keys() {
            let Some((node, mut removal)) = as_task(|| self.refused(node, &mut predicate)) else {
                continue;
            };
            let key = node.hashed();
            drop(self.step_removal_if(key, &mut removal, &mut predicate));
            drop((node, removal));
            as_task(|| self.after_write());
        }
    }
}
