//! Plain hits, and the entry to all other reads.
//!
//! A hit is *plain* if the entry is alive beyond doubt, was recorded in this record period, and is
//! neither to be prolonged nor counted. For most hits one comparison shows that: the node's
//! deadline lies beyond the cache's *freshness bound*. A plain hit writes nothing. In a cache with
//! statistics such a hit is counted, in one with refresh it looks at the soft deadline, and is
//! otherwise plain. All other reads go on [slowly](super::slow).

use super::lookup::NodeRef;
use super::slow::Lookup;
use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::entry::Entry;
use crate::epoch::Guard;
use crate::hash::LookupKey;
use crate::node::NO_PERIOD;
use crate::primitives::seeded;

/// What a read looks up. (By reference, since a plain hit needs the registers.)
pub(super) struct Sought<'g, Q> {
    pub guard: &'g Guard,
    pub key: Q,
}

impl<K, V> Engine<K, V> {
    /// A read that counts: statistics, frequency, idle time and read hook. If the lookup says that
    /// maintenance is due, the caller runs it afterwards, best after it has dropped the guard.
    #[inline(never)]
    pub fn read<'g>(&'g self, guard: &'g Guard, key: impl LookupKey<K>) -> Lookup<'g, K, V> {
        let coarse = self.core.ticker.coarse();
        match self.find(guard, key) {
            Some(node) if self.is_plain(node, coarse) && self.is_recorded(node) => {
                Lookup { node: Some(node), due: self.core.is_maintenance_due(coarse) }
            }
            Some(node) if self.is_otherwise_plain(node, coarse) && self.is_recorded(node) => {
                self.count(true);
                Lookup { node: Some(node), due: self.core.is_maintenance_due(coarse) }
            }
            found => self.retry_read(Sought { guard, key }, found, coarse, |_, _| true),
        }
    }

    /// [`read`](Self::read) of a handle on the entry, and whether the caller must call
    /// [`after_read`](Self::after_read).
    pub fn read_entry(&self, key: impl LookupKey<K>) -> (Option<Entry<K, V>>, bool) {
        let guard = crate::epoch::pin_inline();
        let Lookup { node, due } = self.read(&guard, key);
        (node.map(|node| self.entry_of(node)), due)
    }
}

impl<K, V: Clone> Engine<K, V> {
    /// [`read`](Self::read) of a clone of the value.
    #[inline(always)]
    pub fn read_clone(&self, key: impl LookupKey<K>) -> Option<V> {
        let (value, due) = self.read_clone_only(key);
        if due {
            self.after_read();
        }
        value
    }

    /// [`read_clone`](Self::read_clone), and whether the caller must call
    /// [`after_read`](Self::after_read).
    #[inline(always)]
    pub fn read_clone_only(&self, key: impl LookupKey<K>) -> (Option<V>, bool) {
        self.core.index.prefetch(key.hash());
        let guard = crate::epoch::pin_inline();
        let (value, due) = self.read_value(&guard, key);
        (value.cloned(), due)
    }
}

impl<K, V> Engine<K, V> {
    /// [`read`](Self::read) of the value, and whether maintenance is due.
    #[inline(always)]
    pub fn read_value<'g>(
        &'g self,
        guard: &'g Guard,
        key: impl LookupKey<K>,
    ) -> (Option<&'g V>, bool) {
        let coarse = self.core.ticker.coarse();
        let lookup = match self.find(guard, key) {
            Some(node) if self.is_plain(node, coarse) && self.is_recorded(node) => {
                return (Some(node.value()), self.core.is_maintenance_due(coarse));
            }
            Some(node) if self.is_otherwise_plain(node, coarse) && self.is_recorded(node) => {
                self.count(true);
                return (Some(node.value()), self.core.is_maintenance_due(coarse));
            }
            found => self.retry_read(Sought { guard, key }, found, coarse, |_, _| true),
        };
        (lookup.node.map(NodeRef::value), lookup.due)
    }

    /// Judges what was found, and looks the key up again as often as the entry has changed since.
    /// A living entry for which `accepts` does not hold is a miss.
    #[inline(never)]
    pub(super) fn retry_read<'g>(
        &'g self,
        sought: Sought<'g, impl LookupKey<K>>,
        mut found: Option<NodeRef<'g, K, V>>,
        mut coarse: Timestamp,
        mut accepts: impl FnMut(NodeRef<'g, K, V>, Timestamp) -> bool,
    ) -> Lookup<'g, K, V> {
        loop {
            if let Some(lookup) = self.read_slow(found, coarse, &mut accepts) {
                return lookup;
            }
            coarse = self.core.ticker.coarse();
            found = self.find(sought.guard, sought.key);
        }
    }

    #[inline(always)]
    pub fn count(&self, is_hit: bool) {
        if let Some(recorder) = &self.core.recorder {
            if is_hit { recorder.hit() } else { recorder.miss() }
        }
    }

    /// Whether the hit is plain but for being counted and looking at the soft deadline: no read has
    /// to trigger a reload, beyond doubt. (Also while one is under way.)
    #[inline(always)]
    pub(super) fn is_otherwise_plain(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        let bound = self.mode.counted_freshness_bound(coarse);
        let is_fresh = || self.pool.raw().refresh(node.id()).is_none_or(|it| it.is_beyond(bound));
        node.seen() > bound && !self.core.hot.is_cleared(node.meta()) && is_fresh()
    }

    /// Whether the node was alive beyond doubt when it was found, and this read neither prolongs
    /// its life nor is counted. Judged by the deadline that the node had then.
    #[inline(always)]
    pub(super) fn is_plain(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        let seen = if seeded("judged-again") { node.meta().deadline() } else { node.seen() };
        seen > self.mode.freshness_bound(coarse) && !self.core.hot.is_cleared(node.meta())
    }

    /// Whether the node needs no record: it has one of this period, or none are made.
    #[inline(always)]
    pub(super) fn is_recorded(&self, node: NodeRef<'_, K, V>) -> bool {
        let period = self.core.hot.record_period();
        period == NO_PERIOD || period == node.meta().record_period()
    }
}
