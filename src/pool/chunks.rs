//! The memory of nodes: the layout of a node, the address of one, and the table of chunks, from the
//! number of a chunk to its memory.
#![expect(unsafe_code, reason = "nodes live in chunks of raw memory, addressed by stride")]

use super::columns::Columns;
use crate::links::NodeId;
use crate::node::Meta;
#[cfg(cortado_loom)]
use crate::primitives::atomic::AtomicU64;
use crate::primitives::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The layout of the pair of key and value, and how to drop them in place.
pub struct Shape {
    pub pair: Layout,
    /// The words that each node has beside its fixed part.
    pub columns: Columns,
    /// One for all caches of these types. A pointer to each function would take an empty cache
    /// over 4 KiB.
    pub drops: &'static Drops,
}

/// How to drop keys and values in place.
pub struct Drops {
    /// Whether a key or a value has anything to drop.
    pub are_needed: bool,
    /// Drops the key and the value in the pair at the pointer that these bits of
    /// [`state`](crate::node::state) say are there. The caller must own them.
    pub contents: unsafe fn(*mut u8, u8),
    /// Prefetches what drops of the key and the value in the pair at the pointer will touch. They
    /// may be uninitialised.
    pub prefetch: unsafe fn(*mut u8),
}

/// Offset in bytes of the pair within its node.
pub(super) const fn pair_offset(pair: Layout) -> usize {
    size_of::<Meta>().next_multiple_of(pair.align())
}

/// Distance in bytes from one node to the next. A node of a cache line or less does not straddle
/// two lines.
pub(super) const fn stride_of(pair: Layout) -> usize {
    let align = if pair.align() > align_of::<Meta>() { pair.align() } else { align_of::<Meta>() };
    let node = (pair_offset(pair) + pair.size()).next_multiple_of(align);
    let stride = if node <= 64 { 64 } else { node };
    stride.next_multiple_of(align)
}

/// The alignment of the first node of a chunk, unless the chunk consists of blocks.
pub(super) fn alignment_of(pair: Layout) -> usize {
    pair.align().max(64)
}

/// Allocates memory for some nodes of one shape, and for their columns. Returns the first
/// node and its distance in bytes from the start of the allocation. The layout must have room for
/// the nodes and the columns, and must have the alignment or room for it.
pub(super) fn new_nodes(
    layout: Layout,
    align: usize,
    _of: &Shape,
    _len: usize,
) -> (NonNull<u8>, usize) {
    // SAFETY: the layout's size is not zero, because strides are at least 64.
    let start = unsafe { alloc_zeroed(layout) };
    let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
    let offset = start.align_offset(align);
    assert!(offset < align, "an allocation can be aligned");
    // SAFETY: the layout has the alignment, and the offset is zero; or, beyond what the nodes need,
    // it has as many bytes as the alignment may take.
    let base = unsafe { start.add(offset) };
    // Zeroed memory is an initialised Meta and column, because their fields are std's
    // atomics. loom's atomics have to be constructed.
    #[cfg(cortado_loom)]
    let (stride, columns) = (stride_of(_of.pair), _of.columns.len());
    #[cfg(cortado_loom)]
    for index in 0.._len {
        // SAFETY: the node is within the allocation, which belongs to this thread alone.
        unsafe { base.add(index * stride).cast::<Meta>().write(Meta::default()) };
    }
    #[cfg(cortado_loom)]
    for index in 0.._len * columns {
        // SAFETY: as above, at the addresses that `column` reads.
        unsafe { base.add(_len * stride).cast::<AtomicU64>().add(index).write(AtomicU64::new(0)) };
    }
    (base, offset)
}

/// The address of a node, for several accesses to it.
#[derive(Clone, Copy)]
pub struct Address<'p>(NonNull<u8>, PhantomData<&'p ()>);

impl<'p> Address<'p> {
    /// The address of a node of a pool that lives for `'p`.
    ///
    /// # Safety
    /// A node begins there, which stays until `'p` ends (rule 1).
    #[inline(always)]
    pub unsafe fn new(node: NonNull<u8>) -> Self {
        Self(node, PhantomData)
    }

    /// The node's fixed part. It is valid for every thread that knows the node (rule 1).
    #[inline(always)]
    pub fn meta(self) -> &'p Meta {
        // SAFETY: by rule 1, each stride of a chunk starts with an initialised Meta that stays
        // until the pool is dropped. All its fields are atomics. The caller of `new` has promised
        // that a stride starts here and that the pool lives for `'p`.
        unsafe { self.0.cast::<Meta>().as_ref() }
    }

    /// A pointer to what lies `offset` bytes after the start of the node.
    #[inline(always)]
    pub(super) fn at_offset<T>(self, offset: usize) -> *mut T {
        self.0.as_ptr().wrapping_add(offset).cast::<T>()
    }
}

/// The memory of nodes, for the lists of free ones.
pub trait NodeMemory {
    /// The address of a node. Its fixed part may be used at any time.
    fn at(&self, id: NodeId) -> Address<'_>;

    /// The number of ids that were ever handed out.
    fn handed_out(&self) -> usize;

    /// The number of free ids that are not in the reserve: an estimate while others take them.
    fn free_len(&self) -> usize;

    /// Takes a free id that is not in the reserve.
    fn pop_free(&self) -> Option<NodeId>;

    /// Gives the memory of a block of free nodes back to the system.
    fn give_back(&self, first: NodeId, nodes: usize);
}

/// The lowest `INDEX_BITS` bits of an id are the index of the node in its chunk. The bits above
/// them are the number of the chunk.
pub(super) const INDEX_BITS: u32 = if cfg!(cortado_loom) { 28 } else { 25 };
/// The pool has at most this many chunks: ids of higher chunks are reserved.
pub(super) const CHUNKS: usize = (NodeId::FIRST_RESERVED.raw() >> INDEX_BITS) as usize;
/// The first chunk has `1 << FIRST_CHUNK_BITS` nodes.
const FIRST_CHUNK_BITS: usize = if cfg!(cortado_loom) { 3 } else { 4 };
/// The first `DOUBLING` chunks double in size. The next two have the size of the last of these, and
/// from there on each pair is twice as large as the pair before, so that the pool grows by half or
/// by a third. With four chunks of each size, the table would be 1.5 KiB in each cache instead of
/// 0.75 KiB.
const DOUBLING: usize = 10;

/// The number of nodes in a chunk.
pub(super) fn chunk_len(chunk: usize) -> usize {
    let doubled = if chunk < DOUBLING { chunk } else { DOUBLING - 1 + (chunk - DOUBLING) / 2 };
    1 << (FIRST_CHUNK_BITS + doubled).min(INDEX_BITS as usize)
}

/// The number of nodes in all chunks before this one.
pub(super) fn nodes_before(chunk: usize) -> usize {
    (0..chunk).map(chunk_len).sum()
}

/// The number of the chunk that node `id` is in.
#[inline(always)]
pub(super) fn chunk_of(id: NodeId) -> usize {
    (id.raw() >> INDEX_BITS) as usize
}

/// The id after this one: in the same chunk, or the first of the next chunk.
pub(super) fn successor(id: NodeId) -> NodeId {
    let chunk = id.raw() >> INDEX_BITS;
    let index = id.raw() - (chunk << INDEX_BITS);
    let has_next = index as usize + 1 < chunk_len(chunk as usize);
    NodeId::from_raw(if has_next { id.raw() + 1 } else { (chunk + 1) << INDEX_BITS })
}

/// All chunks, and the places for those that are not allocated yet. An id in an unallocated chunk
/// (only a bug can produce one) leads to the pool's sentinel.
pub(super) struct ChunkTable {
    /// The first node of each chunk. Before the chunk is allocated, the pool's sentinel.
    bases: [AtomicPtr<u8>; CHUNKS],
    /// For each chunk the number of its nodes, which is a power of two, minus one. The mask keeps
    /// every index within the chunk, even that of a wrong id. Before the chunk is allocated, 0.
    masks: [AtomicU32; CHUNKS],
}

impl ChunkTable {
    pub(super) fn new(sentinel: NonNull<u8>) -> Self {
        Self {
            bases: std::array::from_fn(|_| AtomicPtr::new(sentinel.as_ptr())),
            masks: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    pub(super) fn is_allocated(&self, chunk: usize) -> bool {
        self.masks[chunk].load(Ordering::Acquire) != 0
    }

    /// Returns the first node of the chunk that the id is in, and the mask of the chunk. While the
    /// chunk is not published, the mask may be 0 and the node the sentinel.
    #[inline(always)]
    pub(super) fn locate(&self, id: NodeId) -> (NonNull<u8>, usize) {
        let chunk = chunk_of(id) % CHUNKS;
        // Acquire pairs with the Release stores of `publish`: a thread that reads the chunk's mask
        // also reads the chunk's first node. A thread that reads the mask 0 gets either the
        // sentinel or the chunk's first node. In the latter case the second Acquire makes sure that
        // the node is initialised.
        let mask = self.masks[chunk].load(Ordering::Acquire);
        let base = self.bases[chunk].load(Ordering::Acquire);
        // SAFETY: neither `new` nor `publish` stores null.
        (unsafe { NonNull::new_unchecked(base) }, mask as usize)
    }

    /// Makes a chunk visible to all threads. The caller holds the lock of `RawPool::offsets`, and
    /// calls this once per chunk.
    pub(super) fn publish(&self, chunk: usize, base: NonNull<u8>) {
        self.bases[chunk].store(base.as_ptr(), Ordering::Release);
        self.masks[chunk].store(chunk_len(chunk) as u32 - 1, Ordering::Release);
    }

    /// The numbers and the first nodes of the allocated chunks.
    pub(super) fn allocated(&self) -> impl Iterator<Item = (usize, *mut u8)> {
        let numbers = (0..CHUNKS).filter(|&chunk| self.is_allocated(chunk));
        numbers.map(|chunk| (chunk, self.bases[chunk].load(Ordering::Acquire)))
    }
}
