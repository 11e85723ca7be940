//! Operations on all entries: walks, `retain`, `invalidate_all`, the end of a cache.

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::maintenance::PATIENT_UNITS;
use crate::engine::read::NodeRef;
use crate::engine::step::{Step, block_on};
use crate::engine::write::{Condition, Removal};
use crate::entry::{Entry, Origin};
use crate::hash::Hash32;
use crate::list::End;
use crate::node::GENERATIONS;
use crate::pool::Handle;
use crate::prefetch::prefetch_contents;
use crate::primitives::{Arc, seeded};

/// Nodes carry 14 bits of the generation, so this many clearings may wait for their sweep. (A node
/// that is being published while the next one is counted may be one older.)
const MAX_UNSWEPT: u64 = GENERATIONS - 64;
/// Beyond a quarter of [`MAX_UNSWEPT`], each clearing sweeps this share of the cache. The sweep
/// that is under way then ends within another quarter of the clearings, and the next sweep within
/// the third.
const SWEEP_SHARE: u64 = MAX_UNSWEPT / 4;

/// The counts that a cache has on its pool: in its typed part, in the other one, and with its
/// listeners.
const OWN_COUNTS: usize = 2;

impl<K: Eq, V> Engine<K, V> {
    /// Handles on the nodes of all keys, one for each key, a bucket at a time. No guard is left
    /// between two of them.
    pub fn all_keys(&self) -> impl Iterator<Item = Handle<K, V>> {
        let mut cursor = Some(Hash32::FIRST);
        let buckets = std::iter::from_fn(move || {
            let mut nodes = Vec::new();
            cursor = self.walk_keys(cursor?, &mut nodes);
            Some(nodes)
        });
        buckets.flatten()
    }

    /// Adds handles on the nodes of one bucket, from the hash position `cursor` on, one for each
    /// key. Returns the position of the rest. No guard is left.
    pub fn walk_keys(
        &self,
        cursor: Hash32,
        nodes: &mut impl Extend<Handle<K, V>>,
    ) -> Option<Hash32> {
        let guard = crate::epoch::pin();
        let mut found: Vec<NodeRef<'_, K, V>> = Vec::new();
        let next = self.walk(&guard, cursor, &mut |node| {
            // A key that was removed and inserted again during the read may be in two slots.
            let is_new = |other: &NodeRef<'_, K, V>| {
                other.meta().hash() != node.meta().hash() || other.key() != node.key()
            };
            if found.iter().all(is_new) {
                // The misses of a bucket's entries overlap.
                prefetch_contents(node.key());
                prefetch_contents(node.value());
                found.push(node);
            }
        });
        nodes.extend(found.into_iter().map(|node| self.handle_on(node)));
        next
    }

    /// The living node that the key of `node` has at this moment: the node itself or its successor,
    /// with its deadline. So an iteration sees a key that is present throughout, however often it
    /// is updated.
    pub fn present(&self, node: Handle<K, V>) -> Option<(Handle<K, V>, Timestamp)> {
        let meta = node.meta();
        let seen = meta.deadline();
        if self.lives(seen, meta, self.core.ticker.coarse()) {
            return Some((node, seen));
        }
        if seeded("iteration-forgets-the-replaced") {
            return None;
        }
        let guard = crate::epoch::pin();
        let successor = self.peek_at(&guard, node.hashed())?;
        Some((self.handle_on(successor), successor.seen()))
    }

    /// [`present`](Self::present) as a handle for the caller.
    pub fn present_entry(&self, node: Handle<K, V>) -> Option<Entry<K, V>> {
        let (node, seen) = self.present(node)?;
        let now = self.core.ticker.now();
        Some(Entry::new(node, now, seen.max(now), Origin::Found))
    }

    /// At most so many entries: from the front, those with the best prospects first; from the back,
    /// roughly in the order in which the policy would evict them. None without a bound.
    pub fn ranked(&self, limit: usize, end: End) -> Vec<Entry<K, V>> {
        let nodes = self.core.ranked(limit, end).into_iter();
        nodes.filter_map(|node| self.present_entry(self.pool.handle(node))).collect()
    }

    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.remove_all(&mut |key, value| !keep(key, value), |step| drop(block_on(step)));
    }

    /// Removes the entries that the condition refuses. `run` runs the steps of each removal.
    pub fn remove_all(
        &self,
        refuses: Condition<'_, K, V>,
        run: impl Fn(&mut dyn FnMut() -> Step<Option<Entry<K, V>>>),
    ) {
        for node in self.all_keys() {
            let Some((node, mut removal)) = self.refused(node, refuses) else { continue };
            let mut once = |_: &K, _: &V| false;
            let condition: Condition<'_, K, V> =
                if seeded("retain-judges-once") { &mut once } else { &mut *refuses };
            run(&mut || self.step_removal_if(node.hashed(), &mut removal, condition));
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

    pub fn invalidate_all(&self) {
        let core = &self.core;
        // Nothing was published since the last call, and no load would have to be overtaken.
        if core.hot.is_blank() && core.flights.is_empty() && !seeded("each-clearing-counts") {
            return self.after_write();
        }
        self.clear();
        self.after_write();
    }

    /// Begins a new generation. It delivers nothing and is not held back.
    pub(super) fn clear(&self) {
        let core = &self.core;
        if core.unswept() > MAX_UNSWEPT / 4 {
            self.sweep_share();
        }
        while !core.next_generation(MAX_UNSWEPT) {
            // The bits must not wrap around to a generation of which nodes are left.
            while core.pass_of_units(PATIENT_UNITS).work {}
        }
        core.require_pass();
        core.wake_scheduler();
    }

    /// Does a share of the sweep: clearings come faster than passes sweep.
    #[cold]
    fn sweep_share(&self) {
        let buckets = self.core.index.buckets(&crate::epoch::pin()) as u64;
        let units = (self.core.entries() + buckets).div_ceil(SWEEP_SHARE);
        let _ = self.core.pass_of_units(u32::try_from(units).unwrap_or(u32::MAX));
    }

    pub fn close(&self) {
        if seeded("close-clears-first") {
            self.clear();
        }
        self.core.notices.close();
        // Even if the cache is blank: a writer that saw it open may be about to publish.
        if !seeded("close-clears-first") {
            self.clear();
        }
        self.run_pending();
        self.core.announce_all();
        self.core.notices.end_receiving();
    }
}

impl<K, V> Engine<K, V> {
    /// Whether anything has the pool that may outlive the cache: a handle, a receiver.
    pub fn is_outlived(&self) -> bool {
        let with_listeners = usize::from(self.listener.is_some());
        Arc::strong_count(self.pool.raw()) > OWN_COUNTS + with_listeners
    }
}

impl<K, V> Drop for Engine<K, V> {
    /// The last handle is gone, so no other thread is inside and no guard of a reader protects
    /// anything here. Only the scheduler may be running a pass; this waits for it.
    fn drop(&mut self) {
        self.core.end();
        self.core.notices.deliver_rest(&self.core);
        if let Some(reloads) = &self.reloads {
            reloads.end();
        }
        let pool = self.pool.raw();
        for id in pool.ids() {
            if pool.give_up(id) {
                // A panic of a destructor must not keep the others from running.
                self.core.destroy(&[id]);
            }
        }
        self.core.notices.drop_reclaimed(&self.core, usize::MAX);
        // Handles and receivers that outlive the cache keep the pool, but need none of its free
        // nodes. (The pool has models of its own.)
        if self.is_outlived() && !cfg!(cortado_loom) {
            pool.shelve(usize::MAX);
        }
        self.core.notices.end_receiving();
    }
}
