//! The pool without its types; see the [module](super) for layout and rules.
#![expect(unsafe_code, reason = "nodes live in chunks of raw memory, addressed by stride")]

use super::address::{Address, NodeMemory};
use super::chunks::{CHUNKS, ChunkTable, INDEX_BITS, chunk_len, chunk_of, nodes_before, successor};
use super::columns::{Column, Columns};
use super::free::FreeList;
use super::hard_deadline::HardDeadline;
use super::reserve::{REFILL, Reserve};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::prefetch::prefetch;
use crate::primitives::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::primitives::{Mutex, OnDrop};
use crate::system;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
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
    /// Drops the key in the pair at the pointer. The caller must own the key.
    pub key: unsafe fn(*mut u8),
    /// Drops the value in the pair at the pointer. The caller must own the value.
    pub value: unsafe fn(*mut u8),
    /// Prefetches what drops of the key and the value in the pair at the pointer will touch. They
    /// may be uninitialised.
    pub prefetch: unsafe fn(*mut u8),
}

/// The fields that lookups read come first, on cache lines that are written only when a chunk is
/// published: neither the counts of the pool's `Arc` nor the words of the free ids are there.
#[repr(C, align(64))]
pub struct RawPool {
    chunks: ChunkTable,
    stride: usize,
    pair_offset: usize,
    shape: Shape,
    free: FreeList,
    /// A dead node. Ids in unallocated chunks resolve to it, so that the lookup is branch-free.
    /// (With debug assertions the lookup of such an id panics.)
    sentinel: AtomicPtr<u8>,
    /// Distance in bytes from the start of the sentinel's allocation to the sentinel.
    sentinel_offset: u32,
    /// The next id that was never handed out.
    next: AtomicU32,
    /// Free ids that are not on the free lists, and whose memory may go back to the system.
    pub(super) reserve: Reserve,
    /// For each chunk, the distance in bytes from the start of its allocation to its first node.
    /// The thread that allocates a chunk holds the lock. Chunks beyond the end are unallocated.
    offsets: Mutex<Vec<usize>>,
}

/// Sentinels of up to this many bytes are aligned by the allocator.
const SMALL: usize = 1024;
/// The first id that is handed out.
const FIRST_ID: NodeId = NodeId::from_raw(1);

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
fn alignment_of(pair: Layout) -> usize {
    pair.align().max(64)
}

/// The layout of the sentinel's allocation: a node, and a word for each possible column. The
/// allocator aligns a small sentinel. A large one has room to be aligned within its allocation, as
/// a [chunk](RawPool::layout) has, so that its memory costs nothing before it is used.
fn sentinel_layout(stride: usize, align: usize) -> Layout {
    let size = stride.checked_add(Columns::MAX * size_of::<AtomicU64>());
    let layout = size.and_then(|size| match size {
        ..=SMALL => Layout::from_size_align(size, align).ok(),
        _ => Layout::from_size_align(size.checked_add(align)?, align_of::<u64>()).ok(),
    });
    layout.expect("key and value must fit into memory")
}

/// Where a node is.
struct Location {
    /// The first node of its chunk.
    base: NonNull<u8>,
    /// The index of the node in the chunk.
    index: usize,
    /// The number of nodes in the chunk.
    len: usize,
}

/// Allocates memory for some nodes of one shape, and for their columns. Returns the first
/// node and its distance in bytes from the start of the allocation. The layout must have room for
/// the nodes and the columns, and must have the alignment or room for it.
fn new_nodes(layout: Layout, align: usize, _of: &Shape, _len: usize) -> (NonNull<u8>, usize) {
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

impl RawPool {
    /// Creates a pool for nodes of this shape.
    ///
    /// # Safety
    /// The shape must be that of a pair of types that are `Send + Sync + 'static`.
    pub unsafe fn new(shape: Shape) -> Self {
        let stride = stride_of(shape.pair);
        let align = alignment_of(shape.pair);
        let layout = sentinel_layout(stride, align);
        let (sentinel, sentinel_offset) = new_nodes(layout, align, &shape, 1);
        Self {
            chunks: ChunkTable::new(sentinel),
            stride,
            pair_offset: pair_offset(shape.pair),
            shape,
            next: AtomicU32::new(FIRST_ID.raw()),
            free: FreeList::new(),
            reserve: Reserve::new(stride),
            offsets: Mutex::new(Vec::new()),
            sentinel: AtomicPtr::new(sentinel.as_ptr()),
            sentinel_offset: u32::try_from(sentinel_offset).expect("less than the alignment"),
        }
    }

    /// The address of node `id`. If `id` was never handed out, the address is that of a node
    /// without contents: the sentinel, if the chunk is not allocated.
    #[inline(always)]
    pub(super) fn at(&self, id: NodeId) -> Address<'_> {
        // SAFETY: this is the pool's own stride.
        unsafe { self.at_stride(id, self.stride) }
    }

    /// [`at`](Self::at) for a caller that knows the stride beforehand.
    ///
    /// # Safety
    /// `stride` must be the pool's stride.
    #[inline(always)]
    pub(super) unsafe fn at_stride(&self, id: NodeId, stride: usize) -> Address<'_> {
        let Location { base, index, .. } = self.location(id);
        // SAFETY: `location` returns an index below the chunk's number of strides.
        let node = unsafe { base.add(index * stride) };
        // SAFETY: a stride begins there, whose node stays until the pool is dropped (rule 1). The
        // address borrows the pool.
        unsafe { Address::new(node) }
    }

    /// Where node `id` is.
    #[inline(always)]
    fn location(&self, id: NodeId) -> Location {
        // Ids above those of the last chunk are reserved and name no node.
        debug_assert!(id < NodeId::FIRST_RESERVED, "{id:#x} names no node");
        let (base, mask) = self.chunks.locate(id);
        debug_assert_ne!(mask, 0, "no node has the id {id:#x}");
        Location { base, index: id.index() & mask, len: mask + 1 }
    }

    /// Whether the id's chunk is allocated. It is not if the thread that was given the id panicked
    /// while it allocated the chunk.
    pub fn exists(&self, id: NodeId) -> bool {
        self.chunks.is_allocated(chunk_of(id))
    }

    /// The ids handed out so far.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let end = NodeId::from_raw(self.next.load(Ordering::Acquire));
        std::iter::successors(Some(FIRST_ID), |&id| Some(successor(id)))
            .take_while(move |&id| id < end)
    }

    /// The fixed part of node `id`. It is valid for every thread that holds the id (rule 1).
    #[inline(always)]
    pub fn meta(&self, id: NodeId) -> &Meta {
        self.at(id).meta()
    }

    /// Begins to load node `id` into the cache.
    #[inline(always)]
    pub fn prefetch(&self, id: NodeId) {
        prefetch(self.meta(id));
    }

    /// A pointer to the pair of node `id`.
    #[inline(always)]
    pub fn pair(&self, id: NodeId) -> *mut u8 {
        self.at(id).at_offset(self.pair_offset)
    }

    /// The hard deadline of node `id`. `None` in a cache without an idle time.
    #[inline]
    pub fn hard_deadline(&self, id: NodeId) -> Option<HardDeadline<'_>> {
        let word = self.column(id, Column::HardDeadline)?;
        Some(HardDeadline { meta: self.meta(id), word })
    }

    /// The word that a column has for node `id`. `None` in a pool without the column.
    #[inline]
    pub fn column(&self, id: NodeId, column: Column) -> Option<&AtomicU64> {
        let columns = self.shape.columns;
        if !columns.has(column) {
            return None;
        }
        let Location { base, index, len } = self.location(id);
        let word = columns.position(column) * len + index;
        // No thread has an id in a chunk that is not published, but even such an id leads to words.
        // If the chunk is not allocated, these follow the sentinel. While it is being published,
        // `location` may return the length 1; then they are the beginning of the chunk's second
        // node, which has as many atomics.
        // SAFETY: the chunk's strides are followed by as many initialised AtomicU64s for each
        // column (rule 1 holds for them too). Strides and chunks are aligned to at least eight.
        Some(unsafe { &*base.as_ptr().add(len * self.stride).cast::<AtomicU64>().add(word) })
    }

    /// Takes a free node and starts its life with one count, which the caller owns.
    ///
    /// # Panics
    /// If all ids are in use: there are about 10⁹.
    pub(super) fn alloc(&self, hash: Hash32) -> (NodeId, Address<'_>) {
        let (id, node) = self.free.pop(self).unwrap_or_else(|| self.alloc_slow());
        node.meta().begin(hash);
        (id, node)
    }

    /// [`alloc`](Self::alloc) without free nodes: takes a node from the reserve, or a new id.
    #[cold]
    fn alloc_slow(&self) -> (NodeId, Address<'_>) {
        let mut taken = [NodeId::NONE; REFILL];
        let count = self.reserve.refill(self, &mut taken);
        if let Some((&id, others)) = taken[..count].split_first() {
            self.free(others);
            return (id, self.at(id));
        }
        let next = |id: NodeId| (id < NodeId::FIRST_RESERVED).then(|| successor(id));
        let id = (self.next)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| {
                next(NodeId::from_raw(id)).map(NodeId::raw)
            })
            .map(NodeId::from_raw)
            .unwrap_or_else(|_| {
                panic!("a cache can hold at most {} entries", nodes_before(CHUNKS) - 1)
            });
        let chunk = chunk_of(id);
        if !self.chunks.is_allocated(chunk) {
            self.grow(chunk);
        }
        (id, self.at(id))
    }

    /// The alignment of a chunk's first node: at least a page if the chunk consists of blocks.
    fn alignment(&self, chunk: usize) -> usize {
        let divided = chunk_len(chunk) >= self.reserve.block_len();
        let least = if divided && !cfg!(cortado_loom) { system::PAGE } else { 1 };
        alignment_of(self.shape.pair).max(least)
    }

    /// The layout of a chunk's allocation. It asks for the alignment of a `u64` only, which every
    /// allocation has. So the system provides the zeroed memory page by page as it is used.
    /// `new_nodes` aligns the first node within the allocation.
    fn layout(&self, chunk: usize) -> Layout {
        let columns = self.shape.columns.len() * size_of::<AtomicU64>();
        let nodes = (self.stride + columns).checked_mul(chunk_len(chunk));
        nodes
            .and_then(|nodes| nodes.checked_add(self.alignment(chunk)))
            .and_then(|size| Layout::from_size_align(size, align_of::<u64>()).ok())
            .expect("a chunk must fit into memory")
    }

    /// Allocates a chunk, unless another thread has done so.
    #[cold]
    fn grow(&self, chunk: usize) {
        let mut offsets = self.offsets.lock();
        if self.chunks.is_allocated(chunk) {
            return;
        }
        let (layout, align) = (self.layout(chunk), self.alignment(chunk));
        let (base, offset) = new_nodes(layout, align, &self.shape, chunk_len(chunk));
        // Chunks may be allocated out of order.
        if offsets.len() <= chunk {
            offsets.resize(chunk + 1, 0);
        }
        offsets[chunk] = offset;
        self.chunks.publish(chunk, base);
    }

    /// Drops the key and the value of node `id`, if it has them, and leaves the node ready to be
    /// freed.
    ///
    /// # Safety
    /// The caller must have brought `refs` to zero (rule 4), or must be the only one who knows the
    /// node (rule 5).
    pub unsafe fn drop_contents(&self, id: NodeId) {
        let (meta, pair) = (self.meta(id), self.pair(id));
        let bits = meta.state();
        meta.clear_state(u8::MAX);
        // The value is dropped even if the key's destructor panics.
        let _value = OnDrop(|| {
            if bits & state::VALUE != 0 {
                // SAFETY: the state bit says that the value is initialised. The caller owns it.
                // The bit is cleared, and this function is called once.
                unsafe { (self.shape.drops.value)(pair) };
            }
        });
        if bits & state::KEY != 0 {
            // SAFETY: the state bit says that the key is initialised. The caller has exclusive
            // access. The bit is cleared, so the key is dropped only once.
            unsafe { (self.shape.drops.key)(pair) };
        }
    }

    /// Prefetches what [`drop_contents`](Self::drop_contents) will touch.
    ///
    /// # Safety
    /// As for [`drop_contents`](Self::drop_contents).
    #[inline]
    pub unsafe fn prefetch_contents(&self, id: NodeId) {
        // SAFETY: a node's pair is there as long as the pool is, and no other thread writes to it:
        // the caller has brought `refs` to zero (rule 4).
        unsafe { (self.shape.drops.prefetch)(self.pair(id)) };
    }

    /// Whether key and value have anything to drop.
    pub fn needs_drop(&self) -> bool {
        self.shape.drops.are_needed
    }

    /// Frees nodes whose counts are zero and whose keys and values have nothing to drop.
    ///
    /// # Panics
    /// If the keys or values of this pool have anything to drop.
    pub fn free_plain(&self, ids: &[NodeId]) {
        assert!(!self.needs_drop(), "keys or values must be dropped");
        for &id in ids {
            debug_assert_eq!(self.meta(id).refs(), 0, "freed while it has a count");
            self.meta(id).clear_state(u8::MAX);
        }
        self.free(ids);
    }

    /// Puts ids on the free lists. The contents of their nodes must have been dropped.
    pub fn free(&self, ids: &[NodeId]) {
        self.free.push(self, ids);
    }

    /// Visits all free nodes. No other thread may use the pool meanwhile.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn for_each_free(&self, mut visit: impl FnMut(NodeId)) {
        self.free.for_each(self, &mut visit);
        self.reserve.for_each(self, visit);
    }
}

impl NodeMemory for RawPool {
    #[inline(always)]
    fn at(&self, id: NodeId) -> Address<'_> {
        self.at(id)
    }

    fn handed_out(&self) -> usize {
        let end = NodeId::from_raw(self.next.load(Ordering::Relaxed));
        nodes_before(chunk_of(end)) + (end.index() & ((1 << INDEX_BITS) - 1))
    }

    fn free_len(&self) -> usize {
        self.free.len(self)
    }

    fn pop_free(&self) -> Option<NodeId> {
        self.free.pop(self).map(|(id, _)| id)
    }

    fn give_back(&self, first: NodeId, nodes: usize) {
        debug_assert!(first.consecutive(nodes).all(|id| self.meta(id).state() == 0), "node in use");
        let Location { base: _base, index, len } = self.location(first);
        debug_assert!(index + nodes <= len, "a block must lie within a chunk");
        #[cfg(cortado_loom)]
        first.consecutive(nodes).for_each(|id| self.meta(id).wipe());
        #[cfg(not(cortado_loom))]
        // SAFETY: the block's strides lie within the chunk's, since all its ids were handed out.
        // No node of the block has a key or a value, because all of them are free and belong to
        // the caller. All-zero bytes are a valid Meta.
        unsafe {
            system::give_back(_base.add(index * self.stride), nodes * self.stride)
        };
    }
}

impl Drop for RawPool {
    fn drop(&mut self) {
        // Every user of the pool holds an `Arc` of it. So by now the cache has given up its counts
        // and no handle is left: all contents are dropped.
        let offsets = self.offsets.lock();
        for (chunk, base) in self.chunks.allocated() {
            // SAFETY: the chunk was allocated in `grow` with this layout, and its first node is so
            // many bytes after the start. No user of the chunk is left.
            unsafe { dealloc(base.sub(offsets[chunk]), self.layout(chunk)) };
        }
        let layout = sentinel_layout(self.stride, alignment_of(self.shape.pair));
        let offset = self.sentinel_offset as usize;
        // SAFETY: the sentinel was allocated in `new` with this layout, and is `sentinel_offset`
        // bytes after the start. No user of the sentinel is left.
        unsafe { dealloc(self.sentinel.load(Ordering::Relaxed).sub(offset), layout) };
    }
}
