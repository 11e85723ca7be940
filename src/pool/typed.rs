//! The pool with its types, and drafts: nodes under construction.
#![expect(unsafe_code, reason = "keys and values live in the pool's raw memory")]

use super::chunks::{Address, Drops, Shape, pair_offset, stride_of};
use super::columns::Columns;
use super::handle::{Handle, RawHandle};
use super::raw::RawPool;
use crate::hash::Hashed;
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::prefetch::prefetch_pointees;
use crate::primitives::{Arc, OnDrop};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{addr_of, addr_of_mut};

/// A [`RawPool`] whose pairs are `(K, V)`. It is `Send` and `Sync` because raw pools are: they are
/// made only for keys and values that are both.
///
/// The pool is invariant in `K` and `V`. If it could pass for a pool of shorter-lived keys, callers
/// could put such keys into it.
pub struct Pool<K, V> {
    raw: Arc<RawPool>,
    types: PhantomData<fn(&mut (K, V))>,
}

unsafe fn drop_contents<K, V>(pair: *mut u8, bits: u8) {
    let pair = pair.cast::<(K, V)>();
    // SAFETY: the caller passes the pair of a node, whose memory has this layout.
    let (key, value) = unsafe { (addr_of_mut!((*pair).0), addr_of_mut!((*pair).1)) };
    // The value is dropped even if the key's destructor panics.
    let _value = OnDrop(|| {
        if bits & state::VALUE != 0 {
            // SAFETY: the caller owns an initialised value in this pair.
            unsafe { value.drop_in_place() };
        }
    });
    if bits & state::KEY != 0 {
        // SAFETY: the caller owns an initialised key in this pair.
        unsafe { key.drop_in_place() };
    }
}

unsafe fn prefetch_contents<K, V>(pair: *mut u8) {
    let pair = pair.cast::<(K, V)>();
    // SAFETY: the caller passes the pair of a node, whose memory has this layout.
    unsafe {
        if std::mem::needs_drop::<K>() {
            prefetch_pointees(addr_of!((*pair).0));
        }
        if std::mem::needs_drop::<V>() {
            prefetch_pointees(addr_of!((*pair).1));
        }
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Pool<K, V> {
    const DROPS: Drops = Drops {
        are_needed: std::mem::needs_drop::<(K, V)>(),
        contents: drop_contents::<K, V>,
        prefetch: prefetch_contents::<K, V>,
    };

    pub fn new(columns: Columns) -> Self {
        let shape = Shape { pair: Layout::new::<(K, V)>(), columns, drops: &Self::DROPS };
        // SAFETY: the shape is that of (K, V), which the bounds require to be `Send + Sync +
        // 'static`.
        Self { raw: Arc::new(unsafe { RawPool::new(shape) }), types: PhantomData }
    }
}

impl<K, V> Pool<K, V> {
    /// Another reference to the same pool.
    pub fn share(&self) -> Self {
        Self { raw: Arc::clone(&self.raw), types: PhantomData }
    }

    #[inline]
    pub fn raw(&self) -> &Arc<RawPool> {
        &self.raw
    }

    /// The address of node `id`, found once for several accesses to it.
    #[inline(always)]
    pub fn address(&self, id: NodeId) -> NodeAddress<'_, K, V> {
        // SAFETY: `new` made the raw pool for pairs of these types, so this is the pool's stride.
        let node = unsafe { self.raw.at_stride(id, stride_of(Layout::new::<(K, V)>())) };
        NodeAddress { node, pool: PhantomData }
    }

    /// Gives a raw handle its types back.
    ///
    /// # Panics
    /// If the handle is on a node of another pool.
    pub fn handle(&self, raw: RawHandle) -> Handle<K, V> {
        self.check(&raw);
        // SAFETY: the node is one of this pool, so the types are the pool's. The node has its key.
        unsafe { Handle::assume(raw) }
    }

    /// Gives a borrowed raw handle its types back.
    ///
    /// # Panics
    /// As [`handle`](Self::handle).
    pub fn handle_ref<'a>(&self, raw: &'a RawHandle) -> &'a Handle<K, V> {
        self.check(raw);
        // SAFETY: as in `handle`.
        unsafe { Handle::assume_ref(raw) }
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
        assert!(Arc::ptr_eq(handle.raw().pool(), &self.raw), "the handle belongs to another cache");
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

/// A node's address, with the node's types.
pub struct NodeAddress<'p, K, V> {
    node: Address<'p>,
    pool: PhantomData<&'p Pool<K, V>>,
}

impl<K, V> Clone for NodeAddress<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for NodeAddress<'_, K, V> {}

impl<'p, K, V> NodeAddress<'p, K, V> {
    /// Offset in bytes of the pair within its node.
    const PAIR: usize = pair_offset(Layout::new::<(K, V)>());

    #[inline(always)]
    pub fn meta(self) -> &'p Meta {
        self.node.meta()
    }

    #[inline(always)]
    fn pair(self) -> *mut (K, V) {
        self.node.at_offset(Self::PAIR)
    }

    /// # Safety
    /// The key must be initialised, and protected for as long as the reference lives (rule 2).
    #[inline(always)]
    pub unsafe fn key<'a>(self) -> &'a K
    where
        'p: 'a,
    {
        // SAFETY: the caller promises this. Key and value never change while they are protected
        // (rule 6).
        unsafe { &(*self.pair()).0 }
    }

    /// # Safety
    /// The value must be initialised, and protected for as long as the reference lives (rule 2).
    #[inline(always)]
    pub unsafe fn value<'a>(self) -> &'a V
    where
        'p: 'a,
    {
        // SAFETY: as for `key`.
        unsafe { &(*self.pair()).1 }
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
        self.meta().retain();
        RawHandle::from_count(Arc::clone(&self.pool.raw), self.id)
    }

    /// Takes another count on the node, as a handle with its types.
    pub fn handle(&self) -> Handle<K, V> {
        self.pool.handle(self.share())
    }

    /// Hands the count over to the index without giving it up.
    pub fn into_count(self) -> NodeId {
        std::mem::ManuallyDrop::new(self).id
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
