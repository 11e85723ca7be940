//! Counted handles on nodes, and drafts: nodes under construction.
#![expect(unsafe_code, reason = "a count protects the references that a handle gives out")]

use super::raw::RawPool;
use super::typed::{NodeAddress, Pool};
use crate::hash::Hashed;
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::primitives::Arc;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::addr_of_mut;

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
        Self::retain(&self.pool, self.id)
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

/// A [`RawHandle`] with its types: it is on a node of a `Pool<K, V>`, and the node has its key.
#[repr(transparent)]
pub struct Handle<K, V> {
    raw: RawHandle,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Handle<K, V> {
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

impl<K, V> Pool<K, V> {
    /// Gives a raw handle its types back.
    ///
    /// # Panics
    /// If the handle is on a node of another pool.
    pub fn handle(&self, raw: RawHandle) -> Handle<K, V> {
        self.check(&raw);
        Handle { raw, types: PhantomData }
    }

    /// Gives a borrowed raw handle its types back.
    ///
    /// # Panics
    /// As [`handle`](Self::handle).
    pub fn handle_ref<'a>(&self, raw: &'a RawHandle) -> &'a Handle<K, V> {
        self.check(raw);
        // SAFETY: `Handle` is `repr(transparent)` over `RawHandle`. The node is one of this pool,
        // so the types are the pool's. The node has its key.
        unsafe { &*std::ptr::from_ref(raw).cast() }
    }

    fn check(&self, raw: &RawHandle) {
        assert!(Arc::ptr_eq(raw.pool(), &self.raw), "the handle belongs to another cache");
        assert!(raw.meta().state() & state::KEY != 0, "the handle's node has no key");
    }

    /// Another count on a handle's node, that borrows this pool.
    ///
    /// # Panics
    /// If the handle is of another pool.
    pub fn local(&self, handle: &Handle<K, V>) -> Local<'_, K, V> {
        assert!(Arc::ptr_eq(handle.raw.pool(), &self.raw), "the handle belongs to another cache");
        handle.meta().retain();
        Local { pool: self, address: self.address(handle.id()), id: handle.id() }
    }

    /// Makes a node that has its key but no value yet.
    pub fn draft(&self, key: Hashed<K>) -> Draft<'_, K, V> {
        let Hashed { hash, key } = key;
        let (id, node) = self.raw.alloc(hash);
        let address: NodeAddress<'_, K, V> = NodeAddress { node, pool: PhantomData };
        // SAFETY: a node that was just allocated belongs to this thread alone (rule 5). The key's
        // place is within the pair.
        unsafe { addr_of_mut!((*address.pair()).0).write(key) };
        address.meta().begin_state(state::KEY);
        DraftBy { node: Local { pool: self, address, id } }
    }
}

/// A count on a node, held by the thread that makes the node: a [`Handle`] that borrows the pool.
pub struct Local<'p, K, V> {
    pool: &'p Pool<K, V>,
    address: NodeAddress<'p, K, V>,
    id: NodeId,
}

impl<'p, K, V> Local<'p, K, V> {
    #[inline]
    pub fn id(&self) -> NodeId {
        self.id
    }

    #[inline]
    pub fn meta(&self) -> &'p Meta {
        self.address.meta()
    }

    #[inline]
    pub fn hashed(&self) -> Hashed<&K> {
        self.meta().hash().with(self.key())
    }

    #[inline]
    pub fn key(&self) -> &K {
        // SAFETY: `self` is a count (rule 2), and a draft has its key from the beginning.
        unsafe { self.address.key() }
    }

    /// # Panics
    /// If the node is a draft without a value.
    #[inline]
    pub fn value(&self) -> &V {
        assert!(self.meta().state() & state::VALUE != 0, "a draft has no value");
        // SAFETY: `self` is a count (rule 2), and the value is initialised.
        unsafe { self.address.value() }
    }

    /// Takes another count on the node. It may leave this thread.
    pub fn share(&self) -> RawHandle {
        RawHandle::retain(&self.pool.raw, self.id)
    }

    /// Takes another count on the node, as a handle with its types.
    pub fn handle(&self) -> Handle<K, V> {
        self.pool.handle(self.share())
    }

    /// Hands the count over to the index without giving it up.
    pub fn into_count(self) -> NodeId {
        ManuallyDrop::new(self).id
    }
}

impl<K, V> Drop for Local<'_, K, V> {
    fn drop(&mut self) {
        self.pool.raw.release(self.id);
    }
}

/// A node that has a key and is not in the index: it is under construction, or never to be
/// published. Other threads may share it by handle, to compare keys. So the value is written at
/// most once.
///
/// The thread that makes the node holds it by a [`Local`]. An operation that keeps the node between
/// two of its steps holds it by a [`Handle`], which borrows nothing.
pub struct DraftBy<N> {
    node: N,
}

/// A draft of the thread that makes it.
pub type Draft<'p, K, V> = DraftBy<Local<'p, K, V>>;
/// A draft that borrows nothing.
pub type OwnedDraft<K, V> = DraftBy<Handle<K, V>>;

impl<N> Deref for DraftBy<N> {
    type Target = N;

    #[inline]
    fn deref(&self) -> &N {
        &self.node
    }
}

impl<'p, K, V> Draft<'p, K, V> {
    /// The same draft, without the borrow of the pool.
    pub fn detach(self) -> OwnedDraft<K, V> {
        DraftBy { node: self.node.handle() }
    }

    /// Completes the node.
    ///
    /// Rule 6 holds for two reasons. Threads that share a draft look at the value only after the
    /// thread that filled the draft has given it to them. `self` is consumed, so this is the only
    /// write.
    pub fn fill(self, value: V) -> Local<'p, K, V> {
        let pair = self.node.address.pair();
        // SAFETY: rule 6. The value's place is uninitialised, because a draft's VALUE bit is not
        // set.
        unsafe { addr_of_mut!((*pair).1).write(value) };
        self.node.meta().set_state(state::VALUE);
        self.node
    }
}

impl<K, V> OwnedDraft<K, V> {
    /// Gives up making the node. The handle has its key, and no value.
    pub fn into_key(self) -> Handle<K, V> {
        self.node
    }

    /// The same draft, which borrows its pool again. There is one draft of a node at any time,
    /// since `self` is consumed (rule 6).
    ///
    /// # Panics
    /// If the draft is of another pool.
    pub fn attach(self, pool: &Pool<K, V>) -> Draft<'_, K, V> {
        DraftBy { node: pool.local(&self.node) }
    }
}
