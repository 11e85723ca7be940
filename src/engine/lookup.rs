//! From a key to its node: the one place where nodes found in the index are given their types.
#![expect(unsafe_code, reason = "a guard protects keys and values found in the index")]

use super::Engine;
use crate::clock::NEVER;
use crate::hash::hash32;
use crate::index::{Found, Probe};
use crate::node::{GONE, Meta};
use crate::pool::{Handle, Pool, RawHandle};
use crossbeam_epoch::Guard;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// A node that was found in the index under a guard, which keeps its key and value for `'g` even if
/// it leaves the index (the pool's rules 2 and 3).
pub struct NodeRef<'g, K, V> {
    pool: &'g Pool<K, V>,
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
        self.pool.meta(self.id)
    }

    #[inline]
    pub fn key(self) -> &'g K {
        // SAFETY: only `Engine` in this file makes a NodeRef, of an id that it read from the index
        // under a guard that lives for 'g; published nodes have their keys (rules 2 and 3).
        unsafe { Pool::<K, V>::key_in(self.pool.raw(), self.id) }
    }

    #[inline]
    pub fn value(self) -> &'g V {
        // SAFETY: as for `key`; published nodes have their values.
        unsafe { Pool::<K, V>::value_in(self.pool.raw(), self.id) }
    }

    /// A count on the node, which keeps it when the guard is gone.
    pub fn handle(self) -> Handle<K, V> {
        self.meta().retain();
        self.pool.handle(RawHandle::from_count(self.pool.raw().clone(), self.id))
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// The key's node in the index, living or not.
    #[inline]
    pub fn find<'g, Q>(&'g self, guard: &'g Guard, hash: u32, key: &Q) -> Option<NodeRef<'g, K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let id = self.core.index.find(guard, hash, |id| {
            if !self.is_key_of(guard, id, hash, key) {
                Probe::Other
            } else if self.pool.meta(id).deadline() == GONE {
                Probe::Gone
            } else {
                Probe::Hit
            }
        })?;
        Some(NodeRef { pool: &self.pool, id })
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
        let found = self.core.index.search(guard, hash, |id| self.is_key_of(guard, id, hash, key));
        let node = found.id().map(|id| NodeRef { pool: &self.pool, id });
        (found, node)
    }

    /// Compares `key` with that of a node that the index just showed under `_guard`.
    #[inline]
    fn is_key_of<Q>(&self, _guard: &Guard, id: u32, hash: u32, key: &Q) -> bool
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.pool.meta(id).hash() == hash && {
            // SAFETY: the index shows `id` under the guard, and published nodes have their keys
            // (rules 2 and 3).
            key.equivalent(unsafe { Pool::<K, V>::key_in(self.pool.raw(), id) })
        }
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
        ids.into_iter().for_each(|id| visit(NodeRef { pool: &self.pool, id }));
        next
    }

    /// Whether a node that was found lives at this moment, reading the precise clock only if need be.
    #[inline]
    pub fn is_living(&self, meta: &Meta, coarse: u64) -> bool {
        let deadline = meta.deadline();
        deadline != GONE
            && (deadline == NEVER || !self.core.ticker.has_passed(deadline, coarse))
            && meta.generation() == self.core.generation()
    }
}

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    #[inline]
    pub fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        hash32(&self.hasher, key)
    }
}
