//! Operations on everything.

use super::Engine;
use super::commit::Obstacle;
use super::event::Event;
use super::flights::Clearance;
use super::lookup::NodeRef;
use crate::entry::Entry;
use crate::node::{GENERATIONS, Meta};
use crate::pool::Handle;
use crate::removal::RemovalCause;
use crate::sync::atomic::Ordering;
use crate::sync::seeded;

/// Nodes carry 14 bits of the generation, so this many clearings may wait for their sweep. (A node that is being
/// published while the next is counted may be one older.)
const MAX_UNSWEPT: u64 = GENERATIONS - 64;
/// From a quarter of them on, each clearing sweeps this share of the cache. The sweep under way ends within another
/// quarter of the clearings, and the one after it within the third.
const SWEEP_SHARE: u64 = MAX_UNSWEPT / 4;

impl<K: Eq, V, S> Engine<K, V, S> {
    pub fn invalidate_all(&self) {
        let core = &self.core;
        if core.is_blank() && !seeded("each-clearing-counts") {
            return self.tend();
        }
        if core.unswept() > MAX_UNSWEPT / 4 && !seeded("clearings-sweep-at-the-end") {
            self.sweep_share();
        }
        while !core.next_generation(MAX_UNSWEPT) {
            // The bits must not come round to a generation of which something is left.
            self.finish_work();
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
        self.run_units(u32::try_from(units).unwrap_or(u32::MAX));
    }

    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut cursor = Some(0);
        // What a computation, or a load nearby, keeps from being removed at once: nobody is waited
        // for under a guard.
        let mut held_up = Vec::new();
        while let Some(position) = cursor {
            {
                let guard = crate::epoch::pin();
                let mut nodes = Vec::new();
                cursor = self.walk(&guard, position, &mut |node| nodes.push(node));
                for node in nodes {
                    let coarse = self.core.ticker.coarse();
                    if self.was_living(node, coarse)
                        && !keep(node.key(), node.value())
                        && self.try_remove_node(node.id(), node.meta(), Clearance::Idle).is_err()
                    {
                        held_up.push(self.handle_on(node));
                    }
                }
            }
            for node in held_up.drain(..) {
                self.remove_node(&node);
            }
            self.tend();
        }
    }

    /// Removes a node that was judged to go, if it is still there after the computation of its key
    /// that is in the way. The handle keeps its id from being another's meanwhile.
    fn remove_node(&self, node: &Handle<K, V>) {
        let hash = node.meta().hash();
        loop {
            let clearance = self.await_turn(hash, node.key());
            if self.try_remove_node(node.id(), node.meta(), clearance).is_ok() {
                return;
            }
        }
    }

    /// Removes a node that the caller keeps from being freed, if it is still there.
    fn try_remove_node(
        &self,
        id: u32,
        meta: &Meta,
        clearance: Clearance<'_>,
    ) -> Result<(), Obstacle> {
        let guard = crate::epoch::pin();
        let now = self.core.ticker.now();
        let place = (meta.hash(), id);
        if self.core.remove_id(&guard, place, now, RemovalCause::Explicit, clearance)? {
            self.write_event(Event::Removed(id).pack(), 0, now);
        }
        Ok(())
    }

    pub fn close(&self) {
        if seeded("close-clears-first") {
            self.invalidate_all();
        }
        self.core.closed.store(true, Ordering::Release);
        if !seeded("close-clears-first") {
            self.invalidate_all();
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

    /// Whether the entry that a handle was made for is still in the cache and alive.
    pub fn still_lives(&self, entry: &Entry<K, V>) -> bool {
        self.is_living(entry.node().meta(), self.core.ticker.coarse())
    }
}

impl<K, V, S> Drop for Engine<K, V, S> {
    /// The last handle is gone, so nobody is inside: no guard of a reader protects anything here.
    fn drop(&mut self) {
        self.announce_rest();
        let pool = self.pool.raw();
        for id in pool.ids() {
            if pool.give_up(id) {
                // A panic of a destructor must not keep the others from running.
                self.destroy(&[id]);
            }
        }
        self.drop_doomed();
    }
}
