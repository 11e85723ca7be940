//! `retain` for tasks.

use super::drive::{as_task, drive};
use crate::engine::Engine;
use crate::engine::step::Step;
use crate::engine::write::{Condition, Removal};
use crate::pool::Handle;
use std::hash::{BuildHasher, Hash};

impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    pub async fn retain_async(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut refuses = |key: &K, value: &V| !keep(key, value);
        let mut cursor = Some(crate::hash::Hash32::FIRST);
        while let Some(position) = cursor {
            let mut nodes = Vec::new();
            cursor = self.walk_keys(position, &mut nodes);
            for node in nodes {
                let Some((node, mut removal)) = self.refused(node, &mut refuses) else { continue };
                let key = (node.meta().hash(), node.key());
                drive(|| self.step_removal(key, &mut removal, &mut refuses)).await;
                // At once: the predicate may panic, and the task may wait or be dropped.
                as_task(|| self.after_write());
            }
        }
    }

    /// Removes the entries for which the predicate holds, but for those whose keys are being
    /// computed.
    pub fn remove_without_waiting(&self, mut predicate: impl FnMut(&K, &V) -> bool) {
        let mut cursor = Some(crate::hash::Hash32::FIRST);
        while let Some(position) = cursor {
            let mut nodes = Vec::new();
            cursor = self.walk_keys(position, &mut nodes);
            for node in nodes {
                let Some((node, mut removal)) = self.refused(node, &mut predicate) else {
                    continue;
                };
                let key = (node.meta().hash(), node.key());
                let (Step::Done(_) | Step::Wait(_)) =
                    self.step_removal(key, &mut removal, &mut predicate);
                as_task(|| self.after_write());
            }
        }
    }

    /// The present node of the key, if the condition holds for it, and its removal.
    pub(super) fn refused(
        &self,
        node: Handle<K, V>,
        refuses: Condition<'_, K, V>,
    ) -> Option<(Handle<K, V>, Removal<K, V>)> {
        let (node, _) = self.present(node)?;
        if !self.judge(&node, refuses) {
            return None;
        }
        self.check_key(node.meta().hash(), node.key());
        Some((node.clone(), Removal::Judged(node)))
    }
}
