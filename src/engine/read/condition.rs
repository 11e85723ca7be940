//! Reads that take an entry only if a condition holds for it.

use super::lookup::NodeRef;
use crate::clock::ReadTimes;
use crate::engine::Engine;
use crate::epoch::Guard;
use crate::hash::Hash32;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

impl<K, V: Clone, S: BuildHasher> Engine<K, V, S> {
    /// [`read_clone`](Self::read_clone) of an entry for which `accept` holds. Any other one is a
    /// miss, and is left alone.
    #[inline]
    pub fn read_clone_if<Q: Equivalent<K> + Hash + ?Sized>(
        &self,
        key: &Q,
        accept: impl FnMut(&V, ReadTimes) -> bool,
    ) -> Option<V> {
        let hash = self.hash_ahead(key);
        let guard = crate::epoch::pin();
        let (value, due) = self.read_value_if(&guard, hash, key, accept);
        let value = value.cloned();
        drop(guard);
        if due {
            self.after_read();
        }
        value
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// [`read_value`](Self::read_value) of an entry for which `accept` holds.
    #[inline(always)]
    fn read_value_if<'g, Q: Equivalent<K> + ?Sized>(
        &'g self,
        guard: &'g Guard,
        hash: Hash32,
        key: &Q,
        mut accept: impl FnMut(&V, ReadTimes) -> bool,
    ) -> (Option<&'g V>, bool) {
        let mut accepts = |node: NodeRef<'g, K, V>, now| {
            accept(node.value(), ReadTimes::new(now, node.meta().created()))
        };
        let coarse = self.core.ticker.coarse();
        let found = self.find(guard, hash, key);
        if let Some(node) = found
            && self.is_recorded(node)
        {
            let is_plain = self.is_plain(node, coarse);
            if is_plain || self.is_otherwise_plain(node, coarse) {
                let due = self.core.is_maintenance_due(coarse);
                if !accepts(node, coarse) {
                    self.count_miss();
                    return (None, due);
                }
                if !is_plain {
                    self.count_hit();
                }
                return (Some(node.value()), due);
            }
        }
        let lookup = self.retry_read((guard, hash, key), found, coarse, accepts);
        (lookup.node.map(NodeRef::value), lookup.due)
    }

    pub fn count_miss(&self) {
        if let Some(recorder) = &self.core.recorder {
            recorder.miss();
        }
    }
}
