//! From a key to its node. Only here do nodes that were found in the index get their types.
#![expect(unsafe_code, reason = "a guard protects keys and values found in the index")]

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::base::Search;
use crate::engine::maintenance::Core;
use crate::entry::{Entry, Origin};
use crate::epoch::Guard;
use crate::hash::{Hash32, LookupKey};
use crate::index::{Found, HomeLookup, Probe};
use crate::links::{Named, NodeId};
use crate::node::{GONE, Meta};
use crate::pool::{Handle, NodeAddress, RawHandle};
use crate::primitives::seeded;

/// A node that was found in the index under a guard. The guard keeps its key and value for `'g`,
/// even if the node leaves the index (the pool's rules 2 and 3).
pub struct NodeRef<'g, K, V> {
    address: NodeAddress<'g, K, V>,
    id: NodeId,
    /// Its deadline when it was found. Later changes by other threads do not count.
    seen: Timestamp,
}

/// A key's slot in the index, for a write, and its node there, living or not.
pub struct Slot<'g, K, V> {
    pub found: Search<'g>,
    pub node: Option<NodeRef<'g, K, V>>,
}

impl<K, V> Clone for NodeRef<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for NodeRef<'_, K, V> {}

impl<'g, K, V> NodeRef<'g, K, V> {
    #[inline]
    pub fn id(self) -> NodeId {
        self.id
    }

    #[inline]
    pub fn meta(self) -> &'g Meta {
        self.address.meta()
    }

    /// The deadline when the node was found, or as this thread has changed it since.
    #[inline]
    pub fn seen(self) -> Timestamp {
        self.seen
    }

    /// The same node, with the deadline that it has now.
    pub fn with_present_deadline(self) -> Self {
        self.with_deadline(self.meta().deadline())
    }

    /// The same node, after this thread has changed its deadline.
    #[inline]
    pub fn with_deadline(self, seen: Timestamp) -> Self {
        Self { seen, ..self }
    }

    #[inline]
    pub fn key(self) -> &'g K {
        // SAFETY: only `Engine` in this file makes a NodeRef, of an id that it read from the index
        // under a guard that lives for 'g; published nodes have their keys (rules 2 and 3). The
        // caller of `node_at` holds such a guard for as long as it uses the node.
        unsafe { self.address.key() }
    }

    #[inline]
    pub fn value(self) -> &'g V {
        // SAFETY: as for `key`; published nodes have their values.
        unsafe { self.address.value() }
    }
}

impl<K, V> Engine<K, V> {
    /// A count on a node that was found. It keeps the node when the guard is gone.
    pub fn handle_on(&self, node: NodeRef<'_, K, V>) -> Handle<K, V> {
        node.meta().retain();
        self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), node.id))
    }

    /// An entry of a node that was found living.
    pub fn entry_of(&self, node: NodeRef<'_, K, V>) -> Entry<K, V> {
        let now = self.core.ticker.now();
        Entry::new(self.handle_on(node), now, node.seen().max(now), Origin::Found)
    }

    /// The key's node in the index, living or not.
    ///
    /// Nearly always the first node with the key's fingerprint is the key's, or no node has that
    /// fingerprint. Only this case is inlined into every read.
    #[inline(always)]
    pub fn find<'g>(
        &'g self,
        guard: &'g Guard,
        key: impl LookupKey<K>,
    ) -> Option<NodeRef<'g, K, V>> {
        match self.core.index.lookup_home(guard, key.hash()) {
            HomeLookup::Absent => None,
            HomeLookup::Candidate(id) => match self.probe(id, key) {
                Ok(node) => Some(node),
                Err(_) => self.find_slow(guard, key),
            },
            HomeLookup::Incomplete => self.find_slow(guard, key),
        }
    }

    /// [`find`](Self::find) where it is rare, or takes more than one look.
    #[cold]
    #[inline(never)]
    pub fn find_slow<'g>(
        &'g self,
        guard: &'g Guard,
        key: impl LookupKey<K>,
    ) -> Option<NodeRef<'g, K, V>> {
        let mut hit = None;
        self.core.index.find(guard, key.hash(), |id| match self.probe(id, key) {
            Ok(node) => {
                hit = Some(node);
                Probe::Hit
            }
            Err(other) => other,
        })?;
        hit
    }

    /// The node, with its deadline, if it is the key's.
    #[inline(always)]
    fn node_of<'g>(&'g self, id: NodeId, key: impl LookupKey<K>) -> Option<NodeRef<'g, K, V>> {
        let node = NodeRef { address: self.pool.address(id), id, seen: GONE };
        is_key_of(node, key).then(|| node.with_deadline(node.meta().deadline()))
    }

    /// The node, if it is the key's and in the index.
    #[inline(always)]
    fn probe<'g>(&'g self, id: NodeId, key: impl LookupKey<K>) -> Result<NodeRef<'g, K, V>, Probe> {
        // Not by `node_of`, which costs every read seven instructions more.
        let mut node = NodeRef { address: self.pool.address(id), id, seen: GONE };
        if !is_key_of(node, key) {
            return Err(Probe::Other);
        }
        node.seen = node.meta().deadline();
        if node.seen == GONE { Err(Probe::Gone) } else { Ok(node) }
    }

    /// The key's slot in the index, for a write, and its node there, living or not. `None` if one
    /// look at the home bucket is not enough, which is rare.
    #[inline(always)]
    pub fn search_home<'g>(
        &'g self,
        guard: &'g Guard,
        key: impl LookupKey<K>,
    ) -> Option<(Found<'g>, Option<NodeRef<'g, K, V>>)> {
        let mut hit = None;
        let found = self.core.index.search_home(guard, key.hash(), |id| {
            hit = self.node_of(id, key);
            hit.is_some()
        })?;
        Some((found, hit))
    }

    /// [`search_home`](Self::search_home) without its limits. Its result can be locked
    /// whatever happens to neighbours.
    pub fn search_exact<'g>(&'g self, guard: &'g Guard, key: impl LookupKey<K>) -> Slot<'g, K, V> {
        let found = self.core.index.search_exact(guard, key.hash(), &*self.core.pool, |id| {
            self.node_of(id, key).is_some()
        });
        let node = found.id().map(|id| self.node_at(id));
        Slot { found: Search::Exact(found), node }
    }

    /// The first search for a write: of the home bucket, or of all of the chain where that is not
    /// enough. Its result holds only until a writer changes the bucket; then an exact search
    /// follows. Where thousands of keys have one hash, an exact search costs three times as
    /// much.
    #[inline(always)]
    pub fn search<'g>(&'g self, guard: &'g Guard, key: impl LookupKey<K>) -> Slot<'g, K, V> {
        if let Some((found, node)) = self.search_home(guard, key) {
            return Slot { found: Search::Versioned(found), node };
        }
        let mut hit = None;
        let found = self.core.index.search(guard, key.hash(), |id| {
            hit = self.node_of(id, key);
            hit.is_some()
        });
        Slot { found: Search::Versioned(found), node: hit }
    }

    /// A [`search`](Self::search), or for another attempt a [`search_exact`](Self::search_exact).
    #[inline(never)]
    pub fn search_either<'g>(
        &'g self,
        guard: &'g Guard,
        key: impl LookupKey<K>,
        exact: bool,
    ) -> Slot<'g, K, V> {
        if exact { self.search_exact(guard, key) } else { self.search(guard, key) }
    }

    /// The node of an id that the index held under a guard of the caller's, who drops what this
    /// returns before that guard. (`renew` is reached by a pointer that cannot name a `NodeRef`.)
    pub(super) fn node_at(&self, id: NodeId) -> NodeRef<'_, K, V> {
        let address = self.pool.address(id);
        NodeRef { address, id, seen: address.meta().deadline() }
    }

    /// Visits the nodes of one bucket, from the hash position `cursor` on. Returns the position of
    /// the rest.
    pub fn walk<'g>(
        &'g self,
        guard: &'g Guard,
        cursor: Hash32,
        visit: &mut dyn FnMut(NodeRef<'g, K, V>),
    ) -> Option<Hash32> {
        let (core, mut ids) = (&self.core, Vec::new());
        let next = core.index.ids_at(guard, &*core.pool, cursor, &mut ids);
        if let Some(next) = next {
            // The next call's nodes, while the caller is busy with these.
            core.index.prefetch_at(guard, next, |id| core.pool.prefetch(id));
        }
        ids.into_iter().for_each(|id| visit(self.node_at(id)));
        next
    }

    /// Whether a node was living when it was found. Reads the precise clock only if need be.
    ///
    /// The deadline of that moment decides. A node that was replaced since is gone, and its
    /// successor was not looked at; so a key that is present all the time is always found.
    #[inline(always)]
    pub fn is_live_at(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        let seen = if seeded("judged-again") { node.meta().deadline() } else { node.seen };
        self.lives(seen, node.meta(), coarse)
    }

    /// Whether a node that was found dead is a miss, for this caller and for all later lookups. If
    /// not, it was replaced or prolonged in time, and the key has to be looked up again.
    ///
    /// An expiry is claimed, so that no read with an older reading of the clock can undo it. A
    /// cleared generation does not come back. But a node that was replaced since may have been
    /// replaced before the clearing.
    #[inline]
    pub fn confirm_miss(&self, node: NodeRef<'_, K, V>) -> bool {
        self.core.confirm_miss(node.id.with(node.meta()), node.seen)
    }

    /// Whether a node that the caller holds, with this deadline, is in the cache and alive.
    #[inline(always)]
    pub fn lives(&self, deadline: Timestamp, meta: &Meta, coarse: Timestamp) -> bool {
        // GONE is before every reading, and NEVER is after all of them.
        !self.core.ticker.has_passed(deadline, coarse) && !self.core.hot.is_cleared(meta)
    }
}

impl Core {
    /// [`Engine::confirm_miss`] for a node with this deadline.
    #[cold]
    fn confirm_miss(&self, Named { id, node: meta }: Named<&Meta>, seen: Timestamp) -> bool {
        if seeded("judged-again") {
            return true;
        }
        if self.hot.is_cleared(meta) {
            return meta.deadline() == seen;
        }
        meta.claim(seen) && self.is_indexed(id.with(meta))
    }

    /// Whether the index has a node whose expiry this thread has claimed. A writer that replaces an
    /// entry stores the new id before it marks the old node. So a node that was replaced in time
    /// may not bear the mark yet.
    #[cold]
    pub fn is_indexed(&self, Named { id, node: meta }: Named<&Meta>) -> bool {
        let is_there = |other| if other == id { Probe::Hit } else { Probe::Other };
        self.index.find(&crate::epoch::pin(), meta.hash(), is_there).is_some()
    }
}

/// Compares keys; the hashes first, which lie in the same cache line.
#[inline]
fn is_key_of<K, V>(node: NodeRef<'_, K, V>, key: impl LookupKey<K>) -> bool {
    node.meta().hash() == key.hash() && key.is(node.key())
}
