//! The pool without its types; see the [module](super) for layout and rules.
#![expect(unsafe_code, reason = "nodes live in chunks of raw memory, addressed by stride")]

use super::cap::Cap;
use super::free::FreeList;
use super::reserve::{REFILL, Reserve};
use crate::links::{FIRST_RESERVED, NIL};
use crate::node::{Meta, life};
use crate::prefetch::prefetch;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::system;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Bits of an id that number the node within its chunk; those above number the chunk.
const INDEX_BITS: u32 = if cfg!(cortado_loom) { 28 } else { 22 };
const CHUNKS: usize = (FIRST_RESERVED >> INDEX_BITS) as usize;
/// log2 of the nodes in each of the first chunks.
const FIRST_BITS: u32 = 3;
/// Chunks of one size.
const OCTAVE: usize = 8;
/// Where key and value are in a node, and how to drop them in place.
pub struct Shape {
    pub pair: Layout,
    /// Whether each node has a cap.
    pub capped: bool,
    /// Whether a key or a value has anything to drop.
    pub needs_drop: bool,
    /// Drops the key in the pair at the pointer; the caller owns it.
    pub drop_key: unsafe fn(*mut u8),
    /// Drops the value in the pair at the pointer; the caller owns it.
    pub drop_value: unsafe fn(*mut u8),
}

pub struct RawPool {
    chunks: [Chunk; CHUNKS],
    shape: Shape,
    stride: usize,
    align: usize,
    pair_offset: usize,
    /// The next id that was never handed out.
    next: AtomicU32,
    free: FreeList,
    /// Free ids that were not needed for a while.
    pub(super) reserve: Reserve,
    /// How far the first node of each chunk is from the start of its allocation.
    growing: Mutex<[usize; CHUNKS]>,
    /// A node that never lives, where ids lead whose chunks are not there: so that the way there
    /// asks nothing.
    nowhere: Chunk,
    /// How far it is from the start of its allocation.
    nowhere_offset: usize,
}

/// A chunk of nodes, or the place for one.
struct Chunk {
    /// The first node; before there is a chunk, [`RawPool::nowhere`].
    base: AtomicPtr<u8>,
    /// One less than the number of nodes, a power of two. An id is brought within it whatever it
    /// is. Before there is a chunk, 0.
    mask: AtomicUsize,
}

impl Chunk {
    fn none(nowhere: NonNull<u8>) -> Self {
        Self { base: AtomicPtr::new(nowhere.as_ptr()), mask: AtomicUsize::new(0) }
    }

    fn is_there(&self) -> bool {
        self.mask.load(Ordering::Acquire) != 0
    }

    /// The first node, and the mask of the chunk or one that is stricter.
    #[inline(always)]
    fn look(&self) -> (NonNull<u8>, usize) {
        // Acquire pairs with the Release of `publish`: with the mask comes its chunk. Without it
        // there is nowhere, or the chunk's first node, which the second Acquire finds
        // initialised.
        let mask = self.mask.load(Ordering::Acquire);
        let base = self.base.load(Ordering::Acquire);
        // SAFETY: neither `none` nor `publish` stores null.
        (unsafe { NonNull::new_unchecked(base) }, mask)
    }

    /// From now on the chunk is there. Once, by the holder of [`RawPool::growing`].
    fn publish(&self, base: NonNull<u8>, len: usize) {
        self.base.store(base.as_ptr(), Ordering::Release);
        self.mask.store(len - 1, Ordering::Release);
    }
}

/// The address of a node, for several looks at it.
#[derive(Clone, Copy)]
pub struct Address<'p>(NonNull<u8>, PhantomData<&'p RawPool>);

impl<'p> Address<'p> {
    /// The node's fixed part, valid whoever knows the node (rule 1).
    #[inline(always)]
    pub fn meta(self) -> &'p Meta {
        // SAFETY: rule 1: each stride of a chunk starts with an initialised Meta, all atomics,
        // which stays until the pool is dropped; only `RawPool::at` makes addresses, and
        // the pool is borrowed.
        unsafe { self.0.cast::<Meta>().as_ref() }
    }

    /// What lies so many bytes after the beginning of the node.
    #[inline(always)]
    pub(super) fn at_offset<T>(self, offset: usize) -> *mut T {
        self.0.as_ptr().wrapping_add(offset).cast::<T>()
    }
}

fn chunk_len(chunk: usize) -> usize {
    1 << (FIRST_BITS as usize + chunk / OCTAVE).min(INDEX_BITS as usize)
}

/// The id after this one.
fn successor(id: u32) -> u32 {
    let chunk = id >> INDEX_BITS;
    let index = id - (chunk << INDEX_BITS);
    if index as usize + 1 < chunk_len(chunk as usize) { id + 1 } else { (chunk + 1) << INDEX_BITS }
}

/// Where the pair is in a node.
pub(super) const fn pair_offset(pair: Layout) -> usize {
    size_of::<Meta>().next_multiple_of(pair.align())
}

/// From one node to the next. One of a cache line or less does not straddle two.
pub(super) const fn stride_of(pair: Layout) -> usize {
    let align = if pair.align() > align_of::<Meta>() { pair.align() } else { align_of::<Meta>() };
    let node = (pair_offset(pair) + pair.size()).next_multiple_of(align);
    let stride = if node <= 64 { 64 } else { node };
    stride.next_multiple_of(align)
}

/// The allocation of a node by itself, with a cap whether it needs one or not. Like that of a
/// [chunk](RawPool::layout), it costs no memory before it is used, however large a value may be.
fn nowhere_layout(stride: usize, align: usize) -> Layout {
    let size = stride.checked_add(size_of::<AtomicU64>() + align);
    size.and_then(|size| Layout::from_size_align(size, align_of::<u64>()).ok())
        .expect("key and value fit into memory")
}

/// Memory for some nodes of a stride, and for as many caps: where the first node is, and how far
/// from the beginning. The layout has room for that and for the alignment.
fn new_nodes(
    layout: Layout,
    align: usize,
    (_len, _stride, _capped): (usize, usize, bool),
) -> (NonNull<u8>, usize) {
    // SAFETY: the layout's size is not zero: strides are at least 64.
    let start = unsafe { alloc_zeroed(layout) };
    let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
    let offset = start.align_offset(align);
    assert!(offset < align, "memory has addresses");
    // SAFETY: the layout has as much more than the nodes need as alignment may take.
    let base = unsafe { start.add(offset) };
    // Zeroed memory is an initialised Meta and cap: their fields are std's atomics. loom's are not.
    #[cfg(cortado_loom)]
    for index in 0.._len {
        // SAFETY: within the allocation, which is ours alone.
        unsafe { base.add(index * _stride).cast::<Meta>().write(Meta::new()) };
        if _capped {
            // SAFETY: as above, at the place that `cap` reads.
            unsafe {
                base.add(_len * _stride).cast::<AtomicU64>().add(index).write(AtomicU64::new(0))
            };
        }
    }
    (base, offset)
}

impl RawPool {
    /// # Safety
    /// The shape is that of a pair of types that are `Send + Sync + 'static`.
    pub unsafe fn new(shape: Shape) -> Self {
        let stride = stride_of(shape.pair);
        let align = shape.pair.align().max(64);
        let layout = nowhere_layout(stride, align);
        let (nowhere, nowhere_offset) = new_nodes(layout, align, (1, stride, shape.capped));
        Self {
            chunks: std::array::from_fn(|_| Chunk::none(nowhere)),
            stride,
            align,
            pair_offset: pair_offset(shape.pair),
            shape,
            next: AtomicU32::new(1),
            free: FreeList::new(),
            reserve: Reserve::new(stride),
            growing: Mutex::new([0; CHUNKS]),
            nowhere: Chunk::none(nowhere),
            nowhere_offset,
        }
    }

    /// Where node `id` is, if it was handed out and its chunk is there; else some node or other.
    #[inline(always)]
    pub(super) fn at(&self, id: u32) -> Address<'_> {
        // SAFETY: the pool's own stride.
        unsafe { self.at_stride(id, self.stride) }
    }

    /// [`at`](Self::at) for whoever knows the stride beforehand.
    ///
    /// # Safety
    /// The stride is the pool's.
    #[inline(always)]
    pub(super) unsafe fn at_stride(&self, id: u32, stride: usize) -> Address<'_> {
        let (base, index, _) = self.place(id);
        // SAFETY: `place` gives an index below the chunk's number of strides.
        Address(unsafe { base.add(index * stride) }, PhantomData)
    }

    /// The chunk of node `id`, its number within it, and how many there are.
    #[inline(always)]
    fn place(&self, id: u32) -> (NonNull<u8>, usize, usize) {
        // The ids above the last chunk's are reserved, and name no node.
        debug_assert!(id < FIRST_RESERVED, "{id:#x} names no node");
        let (base, mask) = self.chunks[(id >> INDEX_BITS) as usize % CHUNKS].look();
        debug_assert_ne!(mask, 0, "no node has the id {id:#x}");
        (base, id as usize & mask, mask + 1)
    }

    /// Whether the id's chunk is there: it is not if allocating it panicked.
    pub fn exists(&self, id: u32) -> bool {
        self.chunks[(id >> INDEX_BITS) as usize].is_there()
    }

    /// The ids handed out so far.
    pub fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        let end = self.next.load(Ordering::Acquire);
        std::iter::successors(Some(1), |&id| Some(successor(id))).take_while(move |&id| id < end)
    }

    /// The fixed part of node `id`, valid whoever holds the id (rule 1).
    #[inline(always)]
    pub fn meta(&self, id: u32) -> &Meta {
        self.at(id).meta()
    }

    /// Begins to load node `id`.
    #[inline(always)]
    pub fn prefetch(&self, id: u32) {
        prefetch(self.meta(id));
    }

    /// Where the pair of node `id` is.
    #[inline(always)]
    pub fn pair(&self, id: u32) -> *mut u8 {
        // SAFETY: the pair lies within the node's stride.
        unsafe { self.at(id).0.add(self.pair_offset).as_ptr() }
    }

    /// When the entry ends unless it is read, in a cache with an idle time.
    #[inline]
    pub fn cap(&self, id: u32) -> Option<Cap<'_>> {
        if !self.shape.capped {
            return None;
        }
        let (base, index, len) = self.place(id);
        // `nowhere` is followed by one such word. And of a chunk that is just coming to be, which
        // nobody has an id of, the second node begins with one.
        // SAFETY: in a capped pool the chunk's strides are followed by as many initialised
        // AtomicU64s (rule 1 holds for them too); strides and chunks are aligned to at
        // least eight.
        let word = unsafe { &*base.as_ptr().add(len * self.stride).cast::<AtomicU64>().add(index) };
        Some(Cap { meta: self.meta(id), word })
    }

    /// Takes a free node and starts its life with one count, the caller's.
    ///
    /// # Panics
    /// If all ids are in use: some 1.5 thousand million.
    pub(super) fn alloc(&self, hash: u32) -> (u32, Address<'_>) {
        let (id, node) = self.free.pop(self).unwrap_or_else(|| self.fresh());
        node.meta().begin(hash);
        (id, node)
    }

    #[cold]
    fn fresh(&self) -> (u32, Address<'_>) {
        let mut taken = [NIL; REFILL];
        let count = self.reserve.take(self, &mut taken);
        if let Some((&id, others)) = taken[..count].split_first() {
            self.free(others);
            return (id, self.at(id));
        }
        let next = |id: u32| (id < FIRST_RESERVED).then(|| successor(id));
        let id = (self.next)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .expect("a cache holds no more than 1,543,503,807 entries");
        let chunk = (id >> INDEX_BITS) as usize;
        if !self.chunks[chunk].is_there() {
            self.grow(chunk);
        }
        (id, self.at(id))
    }

    /// How many ids were handed out so far.
    pub(super) fn handed_out(&self) -> usize {
        let end = self.next.load(Ordering::Relaxed);
        let chunk = (end >> INDEX_BITS) as usize;
        let octaves = (0..chunk / OCTAVE).map(|octave| OCTAVE * chunk_len(octave * OCTAVE));
        let others = chunk % OCTAVE * chunk_len(chunk);
        octaves.sum::<usize>() + others + (end as usize & ((1 << INDEX_BITS) - 1))
    }

    /// How many ids are free and not in the reserve; where others are at it, that is a guess.
    pub(super) fn free_len(&self) -> usize {
        self.free.len(self)
    }

    /// Takes a free id that is not in the reserve.
    pub(super) fn pop_free(&self) -> Option<u32> {
        self.free.pop(self).map(|(id, _)| id)
    }

    /// Whether the id's chunk consists of blocks of so many nodes.
    pub(super) fn is_divided(&self, id: u32, block: usize) -> bool {
        self.place(id).2 >= block
    }

    /// Gives the memory of a block of free nodes, within one chunk, back to the system. Their ids
    /// have to be the caller's: a Meta of zeros is that of a node which never lived, and rule 1
    /// holds for it. Their caps stay; a block's are less than a page.
    pub(super) fn give_back(&self, first: u32, nodes: usize) {
        debug_assert!((first..).take(nodes).all(|id| self.meta(id).life() == 0), "in use");
        let (_base, index, len) = self.place(first);
        debug_assert!(index + nodes <= len, "a block is part of a chunk");
        #[cfg(cortado_loom)]
        (first..).take(nodes).for_each(|id| self.meta(id).wipe());
        #[cfg(not(cortado_loom))]
        // SAFETY: the block's strides lie within the chunk's; no node of it has a key or a value,
        // for all of them are free and the caller's, and Metas may be zero.
        unsafe {
            system::give_back(_base.add(index * self.stride), nodes * self.stride)
        };
    }

    /// How the first node of a chunk is aligned.
    fn alignment(&self, chunk: usize) -> usize {
        let divided = chunk_len(chunk) >= self.reserve.block_len();
        if divided && !cfg!(cortado_loom) { self.align.max(system::PAGE) } else { self.align }
    }

    /// The allocation of a chunk. With no more alignment than any allocation has, zeroed memory
    /// comes from the system page by page as it is used; the first node is aligned within it.
    fn layout(&self, chunk: usize) -> Layout {
        let cap = if self.shape.capped { size_of::<AtomicU64>() } else { 0 };
        let nodes = (self.stride + cap).checked_mul(chunk_len(chunk));
        nodes
            .and_then(|nodes| nodes.checked_add(self.alignment(chunk)))
            .and_then(|size| Layout::from_size_align(size, align_of::<u64>()).ok())
            .expect("a chunk's size fits into memory")
    }

    #[cold]
    fn grow(&self, chunk: usize) {
        let mut offsets = self.growing.lock();
        let place = &self.chunks[chunk];
        if place.is_there() {
            return;
        }
        let nodes = (chunk_len(chunk), self.stride, self.shape.capped);
        let (base, offset) = new_nodes(self.layout(chunk), self.alignment(chunk), nodes);
        offsets[chunk] = offset;
        place.publish(base, chunk_len(chunk));
    }

    /// Drops what key and value node `id` has, and leaves the node ready to be freed.
    ///
    /// # Safety
    /// The caller has brought `refs` to zero (rule 4) or is the only one who knows the node (rule
    /// 5).
    pub unsafe fn drop_contents(&self, id: u32) {
        let (meta, pair) = (self.meta(id), self.pair(id));
        let bits = meta.life();
        meta.clear_life(u8::MAX);
        /// Drops the value even when the key's destructor panics.
        struct Value(Option<unsafe fn(*mut u8)>, *mut u8);
        impl Drop for Value {
            fn drop(&mut self) {
                if let Some(drop_value) = self.0 {
                    // SAFETY: made below for a value that is initialised and the caller's.
                    unsafe { drop_value(self.1) };
                }
            }
        }
        let _value = Value((bits & life::VALUE != 0).then_some(self.shape.drop_value), pair);
        if bits & life::KEY != 0 {
            // SAFETY: the bit says initialised, the caller says exclusive, and the bit is cleared:
            // once.
            unsafe { (self.shape.drop_key)(pair) };
        }
    }

    /// Whether key and value have anything to drop.
    pub fn needs_drop(&self) -> bool {
        self.shape.needs_drop
    }

    /// Frees nodes without a count, whose keys and values have nothing to drop.
    ///
    /// # Panics
    /// If they have.
    pub fn free_plain(&self, ids: &[u32]) {
        assert!(!self.needs_drop(), "keys and values are to be dropped");
        for &id in ids {
            debug_assert_eq!(self.meta(id).refs(), 0, "freed while somebody holds it");
            self.meta(id).clear_life(u8::MAX);
        }
        self.free(ids);
    }

    /// Gives ids back whose contents are dropped.
    pub fn free(&self, ids: &[u32]) {
        self.free.push(self, ids);
    }

    pub fn for_each_free(&self, mut visit: impl FnMut(u32)) {
        self.free.for_each(self, &mut visit);
        self.reserve.for_each(self, visit);
    }
}

impl Drop for RawPool {
    fn drop(&mut self) {
        // Whoever shares the pool holds an `Arc` of it, so by now the cache has given up its counts
        // and no handle is left: all contents are dropped.
        let offsets = *self.growing.lock();
        for (number, chunk) in self.chunks.iter().enumerate() {
            if chunk.is_there() {
                let (base, offset) = (chunk.look().0, offsets[number]);
                // SAFETY: allocated in `grow` with this layout, `offset` bytes before the first
                // node; nobody is left to use it.
                unsafe { dealloc(base.as_ptr().sub(offset), self.layout(number)) };
            }
        }
        let layout = nowhere_layout(self.stride, self.align);
        // SAFETY: allocated in `new` with this layout, so many bytes before the node; nobody is
        // left to use it.
        unsafe { dealloc(self.nowhere.look().0.as_ptr().sub(self.nowhere_offset), layout) };
    }
}
