//! Counted handles on nodes.
#![expect(unsafe_code, reason = "a count protects the references that a handle gives out")]

use super::raw::RawPool;
use crate::hash::Hashed;
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::primitives::{Arc, OnDrop};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

/// Prefetch distance of drops, in nodes (`docs/performance.md` has the gain).
const AHEAD: usize = 4;

/// One count on a node, without the node's types. It keeps key and value, even after the cache has
/// given up its own count.
pub struct RawHandle {
    /// Dropped by this type's own `drop`, and so not inlined wherever a handle is dropped.
    pool: ManuallyDrop<Arc<RawPool>>,
    id: NodeId,
}

impl RawHandle {
    /// A handle by another count on a node. The caller has a count, or a guard protects the node.
    pub fn retain(pool: &Arc<RawPool>, id: NodeId) -> Self {
        pool.meta(id).retain();
        Self::from_count(pool.clone(), id)
    }

    /// A handle for a count that the caller has already taken. From now on the handle owns the
    /// count.
    pub fn from_count(pool: Arc<RawPool>, id: NodeId) -> Self {
        Self { pool: ManuallyDrop::new(pool), id }
    }

    #[inline]
    pub fn id(&self) -> NodeId {
        self.id
    }

    #[inline]
    pub fn meta(&self) -> &Meta {
        self.pool.meta(self.id)
    }

    #[inline]
    pub fn pool(&self) -> &Arc<RawPool> {
        &self.pool
    }
}

impl Clone for RawHandle {
    fn clone(&self) -> Self {
        self.meta().retain();
        Self { pool: self.pool.clone(), id: self.id }
    }
}

impl Drop for RawHandle {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: nothing else takes it, and nothing uses the handle after its drop.
        let pool = unsafe { ManuallyDrop::take(&mut self.pool) };
        pool.release(self.id);
    }
}

impl RawPool {
    /// Gives up a count on node `id`. If it was the last one, drops key and value at once, on this
    /// thread, and frees the node.
    pub fn release(&self, id: NodeId) {
        if self.meta(id).release() {
            self.destroy(id);
        }
    }

    /// Gives up the cache's own count on node `id`, if the cache has one. Returns true if it was
    /// the last count. Only for the end of the cache, when no reader's guard needs the count any
    /// more.
    #[must_use]
    pub fn give_up(&self, id: NodeId) -> bool {
        if !self.exists(id) {
            return false;
        }
        let meta = self.meta(id);
        if meta.state() & state::OWNED == 0 {
            return false;
        }
        meta.clear_state(state::OWNED);
        meta.release()
    }

    /// Drops key and value of a node whose last count the caller has given up. Then frees the node,
    /// even if a destructor panics.
    pub fn destroy(&self, id: NodeId) {
        self.destroy_all(&[id], |drop_contents| drop_contents());
    }

    /// Drops keys and values of nodes whose last counts the caller has given up. Then frees the
    /// nodes, in one step for all of them, even if `each` panics.
    ///
    /// `each` is called for each node. It must call its argument, which drops the node's contents.
    /// It must not panic before the last node, because the contents of the nodes after it would not
    /// be dropped. If `each` panics for the last node, all contents have been dropped.
    pub fn destroy_all(&self, ids: &[NodeId], mut each: impl FnMut(&dyn Fn())) {
        debug_assert!(ids.iter().all(|&id| self.meta(id).refs() == 0), "a node has a count");
        let _free = OnDrop(|| self.free(ids));
        for (n, &id) in ids.iter().enumerate() {
            if let Some(&next) = ids.get(n + AHEAD) {
                // SAFETY: as below.
                unsafe { self.prefetch_contents(next) };
            }
            // SAFETY: the last count is gone, and was the caller's (rule 4). A second call finds
            // nothing to drop.
            each(&|| unsafe { self.drop_contents(id) });
        }
    }
}

/// A [`RawHandle`] with its types.
#[repr(transparent)]
pub struct Handle<K, V> {
    raw: RawHandle,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Handle<K, V> {
    /// # Safety
    /// The handle must be on a node of a `Pool<K, V>`, and the node's key must be initialised.
    pub unsafe fn assume(raw: RawHandle) -> Self {
        Self { raw, types: PhantomData }
    }

    /// # Safety
    /// As for [`assume`](Self::assume).
    pub unsafe fn assume_ref(raw: &RawHandle) -> &Self {
        // SAFETY: `Handle` is `repr(transparent)` over `RawHandle`. The caller guarantees that the
        // types are those of the node.
        unsafe { &*std::ptr::from_ref(raw).cast() }
    }

    #[inline]
    pub fn id(&self) -> NodeId {
        self.raw.id
    }

    #[inline]
    pub fn meta(&self) -> &Meta {
        self.raw.meta()
    }

    #[inline]
    pub fn raw(&self) -> &RawHandle {
        &self.raw
    }

    #[inline]
    pub fn hashed(&self) -> Hashed<&K> {
        self.meta().hash().with(self.key())
    }

    #[inline]
    pub fn key(&self) -> &K {
        // SAFETY: a handle is a count (rule 2), and no typed handle exists before the key is
        // initialised. The types are those of the pool. Key and value never change while they are
        // protected (rule 6).
        unsafe { &(*self.pair()).0 }
    }

    /// # Panics
    /// If the node is a draft without a value.
    #[inline]
    pub fn value(&self) -> &V {
        assert!(self.meta().state() & state::VALUE != 0, "a draft has no value");
        // SAFETY: as for the key; the value is initialised.
        unsafe { &(*self.pair()).1 }
    }

    #[inline]
    fn pair(&self) -> *mut (K, V) {
        self.raw.pool.pair(self.raw.id).cast()
    }
}

impl<K, V> Clone for Handle<K, V> {
    fn clone(&self) -> Self {
        Self { raw: self.raw.clone(), types: PhantomData }
    }
}
