//! The pool without its types; see the [module](super) for layout and rules.
#![expect(unsafe_code, reason = "nodes live in chunks of raw memory, addressed by stride")]

use super::chunks::{
    Address, CHUNKS, ChunkTable, INDEX_BITS, NodeMemory, Shape, alignment_of, chunk_len, chunk_of,
    new_nodes, nodes_before, pair_offset, stride_of, successor,
};
use super::columns::{Column, Columns, HardDeadline, RefreshMark};
use super::free::FreeList;
use super::reserve::{REFILL, Reserve};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::prefetch::prefetch;
use crate::primitives::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::primitives::{Mutex, OnDrop};
use crate::system;
use std::alloc::{Layout, dealloc};
use std::ptr::NonNull;

/// The fields that lookups read come first, on cache lines that are written only when a chunk is
/// published: neither the counts of the pool's `Arc` nor the words of the free ids are there.
#[repr(C, align(64))]
pub struct RawPool {
    chunks: ChunkTable,
    stride: usize,
    pair_offset: usize,
    shape: Shape,
    pub(super) free: FreeList,
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
/// Prefetch distance of drops, in nodes (`docs/notes/2026-11-29-performance.md` has the gain).
const AHEAD: usize = 4;
/// The first id that is handed out.
const FIRST_ID: NodeId = NodeId::from_raw(1);

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

    /// [`at`](NodeMemory::at) for a caller that knows the stride beforehand.
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
        let end = NodeId::from_raw(self.next.load(Acquire));
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

    /// When a read of node `id` is to trigger a reload. `None` in a cache without refresh.
    #[inline]
    pub fn refresh(&self, id: NodeId) -> Option<RefreshMark<'_>> {
        Some(RefreshMark(self.column(id, Column::Refresh)?))
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

    /// The memory of all nodes that were ever handed out, but for what was given back.
    pub fn bytes(&self) -> usize {
        let columns = self.shape.columns.len() * size_of::<AtomicU64>();
        let nodes = self.handed_out();
        let given_back = if system::GIVES_BACK { self.reserve.parked().min(nodes) } else { 0 };
        size_of::<Self>() + nodes * (self.stride + columns) - given_back * self.stride
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
        let is_node = |&id: &NodeId| id < NodeId::FIRST_RESERVED;
        let after = |id| Some(NodeId::from_raw(id)).filter(is_node).map(|id| successor(id).raw());
        let Ok(id) = self.next.fetch_update(Relaxed, Relaxed, after) else {
            panic!("a cache can hold at most {} entries", nodes_before(CHUNKS) - 1)
        };
        let id = NodeId::from_raw(id);
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
        if !self.exists(id) || self.meta(id).state() & state::OWNED == 0 {
            return false;
        }
        let meta = self.meta(id);
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
                // SAFETY: a node's pair is there as long as the pool is, and no other thread writes
                // to it: the caller has brought `refs` to zero (rule 4).
                unsafe { (self.shape.drops.prefetch)(self.pair(next)) };
            }
            each(&|| {
                let meta = self.meta(id);
                let bits = meta.state();
                meta.clear_state(u8::MAX);
                // SAFETY: the state bits say what is initialised. The last count is gone, and was
                // the caller's (rule 4). The bits are cleared, so a second call finds nothing to
                // drop.
                unsafe { (self.shape.drops.contents)(self.pair(id), bits) };
            });
        }
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

    /// Whether more nodes are free than are kept at hand.
    pub fn has_surplus(&self) -> bool {
        self.reserve.has_surplus(self)
    }

    /// Gives memory of free nodes back, if there are more than are kept at hand. Moves at most
    /// `most` free ids. Returns whether there may be more to do.
    pub fn trim(&self, most: usize) -> bool {
        self.reserve.trim(self, most)
    }

    /// There is no surplus after so many calls of [`trim`](Self::trim), or fewer, if no more nodes
    /// become free meanwhile.
    pub fn most_trims(&self, most: usize) -> usize {
        self.reserve.most_trims(self, most)
    }

    /// Moves up to `most` free ids to the reserve, needed or not. Returns how many were moved.
    pub fn shelve(&self, most: usize) -> usize {
        self.reserve.put(self, most)
    }
}

impl NodeMemory for RawPool {
    /// The address of node `id`. If `id` was never handed out, the address is that of a node
    /// without contents: the sentinel, if the chunk is not allocated.
    #[inline(always)]
    fn at(&self, id: NodeId) -> Address<'_> {
        // SAFETY: this is the pool's own stride.
        unsafe { self.at_stride(id, self.stride) }
    }

    fn handed_out(&self) -> usize {
        let end = NodeId::from_raw(self.next.load(Relaxed));
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
        unsafe { dealloc(self.sentinel.load(Relaxed).sub(offset), layout) };
    }
}
