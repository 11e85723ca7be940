//! The table of chunks: from the number of a chunk to its memory.
#![expect(unsafe_code, reason = "a chunk's first node is known not to be null")]

use crate::links::NodeId;
use crate::primitives::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::ptr::NonNull;

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
