//! From a key to its node: the one place where nodes found in the index are given their types.
#![expect(unsafe_code, reason = "a guard protects keys and values found in the index")]

use super::Engine;
use crate::epoch::Guard;
use crate::hash::hash32;
use crate::index::{self, Found, Glimpse, Probe};
use crate::node::{GONE, Meta};
use crate::pool::{Handle, Place, RawHandle, RawPool};
use crate::sync::seeded;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// A node that was found in the index under a guard, which keeps its key and value for `'g` even if
/// it leaves the index (the pool's rules 2 and 3).
pub struct NodeRef<'g, K, V> {
    place: Place<'g, K, V>,
    id: u32,
    /// Its deadline when it was found. What others make of it since is not what was found.
    seen: u64,
}

impl<K, V> Clone for NodeRef<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for NodeRef<'_, K, V> {}

impl<'g, K, V> NodeRef<'g, K, V> {
    #[inline]
    pub fn id(self) -> u32 {
        self.id
    }

    #[inline]
    pub fn meta(self) -> &'g Meta {
        self.place.meta()
    }

    /// Its deadline when it was found, or as the finder has changed it since.
    #[inline]
    pub fn seen(self) -> u64 {
        self.seen
    }

    /// The same node, of which the finder has changed the deadline.
    #[inline]
    pub fn with_deadline(self, seen: u64) -> Self {
        Self { seen, ..self }
    }

    #[inline]
    pub fn key(self) -> &'g K {
        // SAFETY: only `Engine` in this file makes a NodeRef, of an id that it read from the index
        // under a guard that lives for 'g; published nodes have their keys (rules 2 and 3).
        unsafe { self.place.key() }
    }

    #[inline]
    pub fn value(self) -> &'g V {
        // SAFETY: as for `key`; published nodes have their values.
        unsafe { self.place.value() }
    }
}

/// A key's place in the index, for a write.
pub type Search<'g> = index::Search<'g, RawPool>;

impl<K, V, S> Engine<K, V, S> {
    /// A count on a node that was found, which keeps it when the guard is gone.
    pub fn handle_on(&self, node: NodeRef<'_, K, V>) -> Handle<K, V> {
        node.meta().retain();
        self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), node.id))
    }

    /// The key's node in the index, living or not.
    ///
    /// Nearly always the first node with the key's tag, or no node has it: that much is compiled
    /// into every read, with nothing to be kept for a loop.
    #[inline(always)]
    pub fn find<'g, Q>(&'g self, guard: &'g Guard, hash: u32, key: &Q) -> Option<NodeRef<'g, K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        match self.core.index.glimpse(guard, hash) {
            Glimpse::Absent => None,
            Glimpse::Candidate(id) => match self.probe(id, hash, key) {
                Ok(node) => Some(node),
                Err(_) => self.find_at_length(guard, hash, key),
            },
            Glimpse::Unsettled => self.find_at_length(guard, hash, key),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_at_length<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
    ) -> Option<NodeRef<'g, K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut hit = None;
        self.core.index.find(guard, hash, |id| match self.probe(id, hash, key) {
            Ok(node) => {
                hit = Some(node);
                Probe::Hit
            }
            Err(other) => other,
        })?;
        hit
    }

    /// The node, if it is the key's and in the index.
    #[inline(always)]
    fn probe<'g, Q>(&'g self, id: u32, hash: u32, key: &Q) -> Result<NodeRef<'g, K, V>, Probe>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut node = NodeRef { place: self.pool.place(id), id, seen: GONE };
        if !is_key_of(node, hash, key) {
            return Err(Probe::Other);
        }
        node.seen = node.meta().deadline();
        if node.seen == GONE { Err(Probe::Gone) } else { Ok(node) }
    }

    /// The key's place in the index, for a write, and its node there, living or not, as far as one
    /// look at the home bucket tells. That is nearly always far enough.
    #[inline(always)]
    pub fn search_in_passing<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
    ) -> Option<(Found<'g>, Option<NodeRef<'g, K, V>>)>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut hit = None;
        let found = self.core.index.search_in_passing(guard, hash, |id| {
            let place = self.pool.place(id);
            let node = NodeRef { place, id, seen: GONE };
            let is_it = is_key_of(node, hash, key);
            hit = is_it.then(|| NodeRef { seen: node.meta().deadline(), ..node });
            is_it
        })?;
        Some((found, hit))
    }

    /// [`search_in_passing`](Self::search_in_passing) without its limits. Its result can be locked
    /// whatever happens to neighbours.
    pub fn search_exact<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
    ) -> (Search<'g>, Option<NodeRef<'g, K, V>>)
    where
        Q: Equivalent<K> + ?Sized,
    {
        let found = self.core.index.search_exact(guard, hash, &*self.core.pool, |id| {
            let place = self.pool.place(id);
            is_key_of(NodeRef { place, id, seen: GONE }, hash, key)
        });
        let node = found.id().map(|id| self.node_at(id));
        (Search::Exact(found), node)
    }

    /// The first search for a write: in passing, and exactly where that is not far enough.
    #[inline(always)]
    pub fn search<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
    ) -> (Search<'g>, Option<NodeRef<'g, K, V>>)
    where
        Q: Equivalent<K> + ?Sized,
    {
        match self.search_in_passing(guard, hash, key) {
            Some((found, node)) => (Search::Home(found), node),
            None => self.search_exact(guard, hash, key),
        }
    }

    /// The node that the index shows under a guard.
    fn node_at(&self, id: u32) -> NodeRef<'_, K, V> {
        let place = self.pool.place(id);
        NodeRef { place, id, seen: place.meta().deadline() }
    }

    /// The nodes in the index from the hash position `cursor` on, a bucket's worth, and the
    /// position of the rest.
    pub fn walk<'g>(
        &'g self,
        guard: &'g Guard,
        cursor: u64,
        visit: &mut dyn FnMut(NodeRef<'g, K, V>),
    ) -> Option<u64> {
        let mut ids = Vec::new();
        let next = self.core.index.collect(guard, &*self.core.pool, cursor, &mut ids);
        ids.into_iter().for_each(|id| visit(self.node_at(id)));
        next
    }

    /// Whether a node was living when it was found, reading the precise clock only if need be.
    ///
    /// By the deadline that it had then: one that was replaced since is gone, and what replaced it
    /// was not looked at. A key that is there all the time is always found.
    #[inline(always)]
    pub fn was_living(&self, node: NodeRef<'_, K, V>, coarse: u64) -> bool {
        let seen = if seeded("judged-again") { node.meta().deadline() } else { node.seen };
        self.lives(seen, node.meta(), coarse)
    }

    /// Whether a node that was found and is not living is a miss, for this caller and for all who
    /// look later. If not, it was replaced or prolonged in time, and the key has to be looked
    /// up again.
    ///
    /// An expiry is claimed, so that no read with an older reading of the clock takes it back. A
    /// generation does not come back; but what has been replaced since may have been so before
    /// the clearing.
    #[cold]
    pub fn is_final_miss(&self, node: NodeRef<'_, K, V>) -> bool {
        if seeded("judged-again") {
            return true;
        }
        if self.core.is_cleared(node.meta()) {
            return node.meta().deadline() == node.seen;
        }
        // Whoever replaces an entry stores the new id before it marks the old node. So one that was
        // replaced in time may not bear the mark yet.
        let is_there = |id| if id == node.id { Probe::Hit } else { Probe::Other };
        let hash = node.meta().hash();
        node.meta().claim(node.seen)
            && self.core.index.find(&crate::epoch::pin(), hash, is_there).is_some()
    }

    /// Whether a node that somebody keeps, with this deadline, is in the cache and alive.
    pub fn is_living(&self, deadline: u64, meta: &Meta) -> bool {
        self.lives(deadline, meta, self.core.ticker.coarse())
    }

    #[inline(always)]
    fn lives(&self, deadline: u64, meta: &Meta, coarse: u64) -> bool {
        // GONE is before every reading, and NEVER out of reach of all of them.
        !self.core.ticker.has_passed(deadline, coarse) && !self.core.is_cleared(meta)
    }
}

/// Compares keys; the hashes first, which lie in the same cache line.
#[inline]
fn is_key_of<K, V, Q>(node: NodeRef<'_, K, V>, hash: u32, key: &Q) -> bool
where
    Q: Equivalent<K> + ?Sized,
{
    node.meta().hash() == hash && key.equivalent(node.key())
}

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    #[inline]
    pub fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        hash32(&self.hasher, key)
    }

    /// The key's hash, with its bucket on the way here: to be called before the guard is made,
    /// which takes longer than that.
    #[inline(always)]
    pub fn hash_ahead<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        let hash = self.hash(key);
        self.core.index.prefetch(hash);
        hash
    }
}
