//! Entries in the order of the eviction policy.

use crate::engine::Engine;
use crate::entry::Entry;
use crate::list::End;

impl<K: Eq, V> Engine<K, V> {
    /// At most so many entries: from the front, those with the best prospects first; from the back,
    /// roughly in the order in which the policy would evict them. None without a bound.
    pub fn ranked(&self, limit: usize, end: End) -> Vec<Entry<K, V>> {
        let nodes = self.core.ranked(limit, end).into_iter();
        nodes.filter_map(|node| self.present_entry(self.pool.handle(node))).collect()
    }
}
