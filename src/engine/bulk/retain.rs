//! `retain`.

use crate::engine::Engine;
use crate::engine::step::block_on;
use crate::engine::write::{Condition, Removal};
use crate::pool::Handle;
use crate::primitives::seeded;

impl<K: Eq, V> Engine<K, V> {
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut refuses = |key: &K, value: &V| !keep(key, value);
        for node in self.all_keys() {
            let Some((node, mut removal)) = self.refused(node, &mut refuses) else { continue };
            let key = node.hashed();
            let mut once = |_: &K, _: &V| false;
            let condition: Condition<'_, K, V> =
                if seeded("retain-judges-once") { &mut once } else { &mut refuses };
            drop(block_on(|| self.step_removal_if(key, &mut removal, condition)));
            drop((node, removal));
            // At once: the predicate may panic, and the next entry may have to be waited for.
            self.after_write();
        }
    }

    /// The present node of the key, if the condition refuses it, and its removal: of this entry and
    /// no other. If the entry is replaced meanwhile, its successor is judged once, with the key
    /// taken as a computation takes it.
    pub fn refused(
        &self,
        node: Handle<K, V>,
        refuses: Condition<'_, K, V>,
    ) -> Option<(Handle<K, V>, Removal<K, V>)> {
        let present = self.present(node).map(|(node, _)| node);
        let Some(node) = present.filter(|node| self.judge(node, refuses)) else {
            self.maintain_after_write();
            return None;
        };
        self.check_key(node.hashed());
        Some((node.clone(), Removal::Judged(node)))
    }
}
