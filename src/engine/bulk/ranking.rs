//! Entries in the order of the eviction policy.

use crate::engine::Engine;
use crate::entry::Entry;
use crate::pool::RawHandle;

impl<K: Eq, V> Engine<K, V> {
    /// At most so many entries, those with the best prospects first. None without a bound.
    pub fn hottest(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.still_present(self.core.hottest(limit))
    }

    /// At most so many entries, roughly in the order in which the policy would evict them. None
    /// without a bound.
    pub fn coldest(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.still_present(self.core.coldest(limit))
    }

    fn still_present(&self, nodes: Vec<RawHandle>) -> Vec<Entry<K, V>> {
        nodes.into_iter().filter_map(|node| self.present_entry(self.pool.handle(node))).collect()
    }
}
