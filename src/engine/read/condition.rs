//! Reads that take an entry only if a condition holds for it.

use super::lookup::NodeRef;
use super::slow::Lookup;
use crate::clock::{ReadTimes, Timestamp};
use crate::engine::Engine;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

impl<K, V: Clone, S: BuildHasher> Engine<K, V, S> {
    /// [`read_clone`](Self::read_clone) of an entry for which `accept` holds. Any other one is a
    /// miss, and is left alone.
    #[inline]
    pub fn read_clone_if<Q: Equivalent<K> + Hash + ?Sized>(
        &self,
        key: &Q,
        mut accept: impl FnMut(&V, ReadTimes) -> bool,
    ) -> Option<V> {
        let hash = self.hash_ahead(key);
        let guard = crate::epoch::pin();
        let coarse = self.core.ticker.coarse();
        let mut accepts = |node: NodeRef<'_, K, V>, now| {
            accept(node.value(), ReadTimes::new(now, node.meta().created()))
        };
        let found = self.find(&guard, hash, key);
        let plain =
            found.filter(|node| self.is_recorded(*node) && self.is_any_plain(*node, coarse));
        let Lookup { node, due } = match plain {
            Some(node) => {
                let node = accepts(node, coarse).then_some(node);
                if node.is_some() {
                    self.count_hit()
                } else {
                    self.count_miss()
                }
                Lookup { node, due: self.core.is_maintenance_due(coarse) }
            }
            None => self.retry_read((&guard, hash, key), found, coarse, accepts),
        };
        let value = node.map(|node| node.value().clone());
        drop(guard);
        if due {
            self.after_read();
        }
        value
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Whether a hit is plain, but perhaps for being counted and looking at the soft deadline.
    #[inline(always)]
    fn is_any_plain(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        self.is_plain(node, coarse) || self.is_otherwise_plain(node, coarse)
    }

    pub fn count_miss(&self) {
        if let Some(recorder) = &self.core.recorder {
            recorder.miss();
        }
    }
}
