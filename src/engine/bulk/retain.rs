//! `retain`.

use crate::engine::Engine;
use crate::engine::step::block_on;
use crate::engine::write::{Condition, Removal};
use crate::hash::Hash32;
use crate::pool::Handle;
use crate::primitives::seeded;
use std::hash::{BuildHasher, Hash};

impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut refuses = |key: &K, value: &V| !keep(key, value);
        let mut cursor = Some(Hash32::FIRST);
        while let Some(position) = cursor {
            let mut nodes = Vec::new();
            cursor = self.walk_keys(position, &mut nodes);
            for node in nodes {
                self.retain_one(node, &mut refuses);
                // At once: the predicate may panic, and the next entry may have to be waited for.
                self.after_write();
            }
        }
    }

    /// Judges the entry of the node's key, and removes it if it is refused: this entry and no
    /// other. If it was replaced meanwhile, its successor is judged once, with the key taken as
    /// a computation takes it.
    fn retain_one(&self, node: Handle<K, V>, refuses: Condition<'_, K, V>) {
        let Some((node, _)) = self.present(node) else { return };
        if !self.judge(&node, refuses) {
            return;
        }
        let key = (node.meta().hash(), node.key());
        self.check_key(key.0, key.1);
        let mut removal = Removal::Judged(node.clone());
        let mut once = |_: &K, _: &V| false;
        let condition = if seeded("retain-judges-once") { &mut once } else { refuses };
        let _ = block_on(|| self.step_removal(key, &mut removal, condition));
    }
}
