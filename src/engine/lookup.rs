//! From a key to its node: the one place where nodes found in the index are given their types.
#![expect(unsafe_code, reason = "a guard protects keys and values found in the index")]

use super::Engine;
use crate::clock::NEVER;
use crate::hash::hash32;
use crate::index::{Found, Probe};
use crate::node::{GONE, Meta};
use crate::pool::{Handle, Place, RawHandle};
use crossbeam_epoch::Guard;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// A node that was found in the index under a guard, which keeps its key and value for `'g` even if
/// it leaves the index (the pool's rules 2 and 3).
pub struct NodeRef<'g, K, V> {
    place: Place<'g, K, V>,
    id: u32,
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

impl<K, V, S> Engine<K, V, S> {
    /// A count on a node that was found, which keeps it when the guard is gone.
    pub fn handle_on(&self, node: NodeRef<'_, K, V>) -> Handle<K, V> {
        node.meta().retain();
        self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), node.id))
    }

    /// The key's node in the index, living or not.
    #[inline]
    pub fn find<'g, Q>(&'g self, guard: &'g Guard, hash: u32, key: &Q) -> Option<NodeRef<'g, K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut hit = None;
        self.core.index.find(guard, hash, |id| {
            let node = NodeRef { place: self.pool.place(id), id };
            if !is_key_of(node, hash, key) {
                Probe::Other
            } else if node.meta().deadline() == GONE {
                Probe::Gone
            } else {
                hit = Some(node);
                Probe::Hit
            }
        })?;
        hit
    }

    /// The key's place in the index, for a write, and its node there, living or not.
    pub fn search<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
    ) -> (Found<'g>, Option<NodeRef<'g, K, V>>)
    where
        Q: Equivalent<K> + ?Sized,
    {
        let at = |id| NodeRef { place: self.pool.place(id), id };
        let found = self.core.index.search(guard, hash, |id| is_key_of(at(id), hash, key));
        let node = found.id().map(at);
        (found, node)
    }

    /// The nodes in the index from the hash position `cursor` on, a bucket's worth, and the position
    /// of the rest.
    pub fn walk<'g>(
        &'g self,
        guard: &'g Guard,
        cursor: u64,
        visit: &mut dyn FnMut(NodeRef<'g, K, V>),
    ) -> Option<u64> {
        let mut ids = Vec::new();
        let next = self.core.index.collect(guard, cursor, &mut ids);
        ids.into_iter().for_each(|id| visit(NodeRef { place: self.pool.place(id), id }));
        next
    }

    /// The deadline of a node that was found, if it lives at this moment, reading the precise clock only
    /// if need be.
    #[inline]
    pub fn living(&self, meta: &Meta, coarse: u64) -> Option<u64> {
        let deadline = meta.deadline();
        let living = deadline != GONE
            && (deadline == NEVER || !self.core.ticker.has_passed(deadline, coarse))
            && meta.generation() == self.core.generation();
        living.then_some(deadline)
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
}
