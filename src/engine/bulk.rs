//! Operations on everything.

use super::Engine;
use super::lookup::NodeRef;
use crate::entry::Entry;
use crate::node::GENERATIONS;
use crate::pool::Handle;
use crate::sync::atomic::Ordering;
use crate::sync::seeded;
use std::hash::{BuildHasher, Hash};

/// Nodes carry 14 bits of the generation, so this many clearings may wait for their sweep. (A node
/// that is being published while the next is counted may be one older.)
const MAX_UNSWEPT: u64 = GENERATIONS - 64;
/// From a quarter of them on, each clearing sweeps this share of the cache. The sweep under way
/// ends within another quarter of the clearings, and the one after it within the third.
const SWEEP_SHARE: u64 = MAX_UNSWEPT / 4;

impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    pub fn invalidate_all(&self) {
        let core = &self.core;
        if core.is_blank() && !seeded("each-clearing-counts") {
            return self.tend();
        }
        self.clear();
    }

    /// Begins a new generation.
    fn clear(&self) {
        let core = &self.core;
        if core.unswept() > MAX_UNSWEPT / 4 && !seeded("clearings-sweep-at-the-end") {
            self.sweep_share();
        }
        while !core.next_generation(MAX_UNSWEPT) {
            // The bits must not come round to a generation of which something is left.
            core.finish_work();
        }
        let _ = core.status.request();
        core.wake_within(std::time::Duration::ZERO);
        self.tend();
    }

    /// Does a share of the sweep, for one clearing of very many that came faster than passes sweep.
    #[cold]
    fn sweep_share(&self) {
        let buckets = self.core.index.buckets(&crate::epoch::pin()) as u64;
        let units = (self.core.entries() + buckets).div_ceil(SWEEP_SHARE);
        let _ = self.core.pass_of_units(u32::try_from(units).unwrap_or(u32::MAX));
    }

    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut refuses = |key: &K, value: &V| !keep(key, value);
        let mut cursor = Some(0);
        while let Some(position) = cursor {
            let mut nodes = Vec::new();
            cursor = self.walk_keys(position, &mut nodes);
            for node in nodes {
                self.retain_one(node, &mut refuses);
            }
            self.tend();
        }
    }

    /// Judges what the node's key has, and removes it if it is refused: it and no other. If that
    /// was replaced meanwhile, what replaced it is judged once, with the key taken as a
    /// computation takes it.
    fn retain_one(&self, node: Handle<K, V>, refuses: &mut dyn FnMut(&K, &V) -> bool) {
        let Some(entry) = self.present(node) else { return };
        let node = entry.node();
        if !self.judge(node, refuses) {
            return;
        }
        self.check_key(node.meta().hash(), node.key());
        if self.is_replaced_in_removal(node) && !seeded("retain-judges-once") {
            let _ = self.remove_owning(node, refuses);
        }
    }

    pub fn close(&self) {
        if seeded("close-clears-first") {
            self.clear();
        }
        self.core.closed.store(true, Ordering::Release);
        // Always: a writer that saw the cache open may be about to publish.
        if !seeded("close-clears-first") {
            self.clear();
        }
        self.run_pending();
        self.announce_all();
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// A handle on a node that was found living.
    pub fn entry_of(&self, node: NodeRef<'_, K, V>) -> Entry<K, V> {
        let now = self.core.ticker.now();
        Entry::new(self.handle_on(node), now, node.seen().max(now), false)
    }
}

impl<K: Eq, V, S> Engine<K, V, S> {
    /// Handles on the nodes of one bucket, from the hash position `cursor` on: one for each key.
    /// Returns the position of the rest. No guard is left.
    pub fn walk_keys(&self, cursor: u64, nodes: &mut impl Extend<Handle<K, V>>) -> Option<u64> {
        let guard = crate::epoch::pin();
        let mut found: Vec<NodeRef<'_, K, V>> = Vec::new();
        let next = self.walk(&guard, cursor, &mut |node| {
            // A key that went and came back while the bucket was read may be in two slots of it.
            let is_new = |other: &NodeRef<'_, K, V>| {
                other.meta().hash() != node.meta().hash() || other.key() != node.key()
            };
            if found.iter().all(is_new) {
                found.push(node);
            }
        });
        nodes.extend(found.into_iter().map(|node| self.handle_on(node)));
        next
    }

    /// The entry that the node's key has at this moment: the node itself, or what has replaced it.
    /// So an iteration sees a key that is there from beginning to end, however often it is
    /// updated.
    pub fn present(&self, node: Handle<K, V>) -> Option<Entry<K, V>> {
        let meta = node.meta();
        let seen = meta.deadline();
        if self.is_living(seen, meta) {
            let now = self.core.ticker.now();
            return Some(Entry::new(node, now, seen.max(now), false));
        }
        if seeded("iteration-forgets-the-replaced") {
            return None;
        }
        let guard = crate::epoch::pin();
        self.peek_at(&guard, meta.hash(), node.key()).map(|node| self.entry_of(node))
    }
}

impl<K, V, S> Drop for Engine<K, V, S> {
    /// The last handle is gone, so nobody is inside: no guard of a reader protects anything here.
    /// Only the scheduler may be running a pass, which is waited for.
    fn drop(&mut self) {
        self.core.end();
        self.announce_rest();
        let pool = self.pool.raw();
        for id in pool.ids() {
            if pool.give_up(id) {
                // A panic of a destructor must not keep the others from running.
                self.destroy(&[id]);
            }
        }
        self.drop_doomed();
        self.core.flush_rest();
    }
}
