//! Counted handles on nodes.
#![expect(unsafe_code, reason = "a count protects the references that a handle gives out")]

use super::raw::RawPool;
use crate::hash::Hashed;
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::primitives::Arc;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

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

    /// Another count on the node, without its types.
    pub fn share(&self) -> RawHandle {
        self.raw.clone()
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
