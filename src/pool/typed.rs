//! The pool with its types.
#![expect(unsafe_code, reason = "keys and values live in the pool's raw memory")]

use super::chunks::{Address, Drops, Shape, pair_offset, stride_of};
use super::columns::Columns;
use super::raw::RawPool;
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::prefetch::prefetch_pointees;
use crate::primitives::{Arc, OnDrop};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::{addr_of, addr_of_mut};

/// A [`RawPool`] whose pairs are `(K, V)`. It is `Send` and `Sync` because raw pools are: they are
/// made only for keys and values that are both.
///
/// The pool is invariant in `K` and `V`. If it could pass for a pool of shorter-lived keys, callers
/// could put such keys into it.
pub struct Pool<K, V> {
    pub(super) raw: Arc<RawPool>,
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
}

/// A node's address, with the node's types.
pub struct NodeAddress<'p, K, V> {
    pub(super) node: Address<'p>,
    pub(super) pool: PhantomData<&'p Pool<K, V>>,
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
    pub(super) fn pair(self) -> *mut (K, V) {
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
