//! The pool with its types, and drafts: nodes under construction.
#![expect(unsafe_code, reason = "keys and values live in the pool's raw memory")]

use super::handle::{Handle, RawHandle};
use super::raw::{Address, RawPool, Shape, pair_offset, stride_of};
use crate::node::{Meta, life};
use crate::sync::Arc;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::addr_of_mut;

/// A [`RawPool`] whose pairs are `(K, V)`. It is `Send` and `Sync` because raw pools are: they are
/// made for keys and values only that are both.
///
/// Invariant in both: a pool that passed for one of shorter-lived keys would take such keys in.
pub struct Pool<K, V> {
    raw: Arc<RawPool>,
    types: PhantomData<fn(&mut (K, V))>,
}

unsafe fn drop_key<K, V>(pair: *mut u8) {
    // SAFETY: the caller (drop_contents) owns an initialised key in this pair.
    unsafe { addr_of_mut!((*pair.cast::<(K, V)>()).0).drop_in_place() };
}

unsafe fn drop_value<K, V>(pair: *mut u8) {
    // SAFETY: the caller (drop_contents) owns an initialised value in this pair.
    unsafe { addr_of_mut!((*pair.cast::<(K, V)>()).1).drop_in_place() };
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Pool<K, V> {
    pub fn new(capped: bool) -> Self {
        let shape = Shape {
            pair: Layout::new::<(K, V)>(),
            capped,
            needs_drop: std::mem::needs_drop::<(K, V)>(),
            drop_key: drop_key::<K, V>,
            drop_value: drop_value::<K, V>,
        };
        // SAFETY: the shape is that of (K, V), which the bounds make shareable between threads.
        Self { raw: Arc::new(unsafe { RawPool::new(shape) }), types: PhantomData }
    }
}

impl<K, V> Pool<K, V> {
    #[inline]
    pub fn raw(&self) -> &Arc<RawPool> {
        &self.raw
    }

    #[inline]
    pub fn meta(&self, id: u32) -> &Meta {
        self.raw.meta(id)
    }

    /// Where node `id` is, found once for several looks at it.
    #[inline(always)]
    pub fn place(&self, id: u32) -> Place<'_, K, V> {
        // SAFETY: `new` made the raw pool for such pairs.
        let node = unsafe { self.raw.at_stride(id, stride_of(Layout::new::<(K, V)>())) };
        Place { node, pool: PhantomData }
    }

    /// The key of node `id` in `raw`.
    ///
    /// # Safety
    /// `raw` is the raw pool of a `Pool<K, V>`; the key is initialised and protected for as long as
    /// the reference (rule 2).
    #[inline]
    pub unsafe fn key_in(raw: &RawPool, id: u32) -> &K {
        // SAFETY: the caller's promise; key and value never change while protected (rule 6).
        unsafe { &(*raw.pair(id).cast::<(K, V)>()).0 }
    }

    /// The value of node `id` in `raw`.
    ///
    /// # Safety
    /// As for [`key_in`](Self::key_in), of the value.
    #[inline]
    pub unsafe fn value_in(raw: &RawPool, id: u32) -> &V {
        // SAFETY: as for `key_in`.
        unsafe { &(*raw.pair(id).cast::<(K, V)>()).1 }
    }

    /// Gives a raw handle its types back.
    ///
    /// # Panics
    /// If it is of another pool.
    pub fn handle(&self, raw: RawHandle) -> Handle<K, V> {
        assert!(Arc::ptr_eq(raw.pool(), &self.raw), "a handle of another cache");
        assert!(raw.meta().life() & life::KEY != 0, "a handle on a node without a key");
        // SAFETY: the pool's types, and the key is there.
        unsafe { Handle::assume(raw) }
    }

    /// A new node with its key, yet without a value.
    pub fn draft(&self, hash: u32, key: K) -> Draft<'_, K, V> {
        let (id, node) = self.raw.alloc(hash);
        let place: Place<'_, K, V> = Place { node, pool: PhantomData };
        // SAFETY: a node just allocated is ours alone (rule 5); the key's place is within the pair.
        unsafe { addr_of_mut!((*place.pair()).0).write(key) };
        place.meta().begin_life(life::KEY);
        Draft { node: Local { pool: self, place, id } }
    }
}

/// A node's address.
pub struct Place<'p, K, V> {
    node: Address<'p>,
    pool: PhantomData<&'p Pool<K, V>>,
}

impl<K, V> Clone for Place<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Place<'_, K, V> {}

impl<'p, K, V> Place<'p, K, V> {
    /// Where the pair is.
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
    /// The key is initialised and protected for as long as the reference (rule 2).
    #[inline(always)]
    pub unsafe fn key<'a>(self) -> &'a K
    where
        'p: 'a,
    {
        // SAFETY: the caller's promise; key and value never change while protected (rule 6).
        unsafe { &(*self.pair()).0 }
    }

    /// # Safety
    /// The value is initialised and protected for as long as the reference (rule 2).
    #[inline(always)]
    pub unsafe fn value<'a>(self) -> &'a V
    where
        'p: 'a,
    {
        // SAFETY: as for `key`.
        unsafe { &(*self.pair()).1 }
    }
}

/// A count on a node, held by the thread that makes it: a [`Handle`] that borrows the pool.
pub struct Local<'p, K, V> {
    pool: &'p Pool<K, V>,
    place: Place<'p, K, V>,
    id: u32,
}

impl<'p, K, V> Local<'p, K, V> {
    #[inline]
    pub fn id(&self) -> u32 {
        self.id
    }

    #[inline]
    pub fn meta(&self) -> &'p Meta {
        self.place.meta()
    }

    #[inline]
    pub fn key(&self) -> &K {
        // SAFETY: a count (rule 2), and a draft begins with its key.
        unsafe { self.place.key() }
    }

    /// # Panics
    /// If it is a draft without a value.
    #[inline]
    pub fn value(&self) -> &V {
        assert!(self.meta().life() & life::VALUE != 0, "a draft has no value");
        // SAFETY: a count (rule 2), and the value is there.
        unsafe { self.place.value() }
    }

    /// Another count on the node, that may leave this thread.
    pub fn share(&self) -> RawHandle {
        self.meta().retain();
        RawHandle::from_count(Arc::clone(&self.pool.raw), self.id)
    }

    /// Another count on the node, with its types.
    pub fn handle(&self) -> Handle<K, V> {
        self.pool.handle(self.share())
    }

    /// Gives the count away without giving it up: the index is to keep it.
    pub fn into_count(self) -> u32 {
        std::mem::ManuallyDrop::new(self).id
    }
}

impl<K, V> Drop for Local<'_, K, V> {
    fn drop(&mut self) {
        self.pool.raw.release(self.id);
    }
}

/// A node that has a key and is not in the index: under construction, or never to be published.
/// Others may share it by handle (to compare keys), so the value is written at most once.
pub struct Draft<'p, K, V> {
    node: Local<'p, K, V>,
}

impl<'p, K, V> Draft<'p, K, V> {
    #[inline]
    pub fn key(&self) -> &K {
        self.node.key()
    }

    /// Another count on the node, by which its key can be read.
    pub fn share(&self) -> RawHandle {
        self.node.share()
    }

    /// Completes the node.
    ///
    /// Rule 6: sharers of a draft never look at the value before they are given it by whoever
    /// filled it, and `self` is consumed, so this is the only write.
    pub fn fill(self, value: V) -> Local<'p, K, V> {
        let pair = self.node.place.pair();
        // SAFETY: rule 6; the value's place is uninitialised, as a draft's VALUE bit is not set.
        unsafe { addr_of_mut!((*pair).1).write(value) };
        self.node.meta().set_life(life::VALUE);
        self.node
    }
}
