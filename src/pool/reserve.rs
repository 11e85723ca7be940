//! Free ids that are not kept at hand, grouped by block. If all ids of a block are here, the memory
//! of the block goes back to the system. See the [module](super) for the protocol.

use super::chunks::NodeMemory;
use crate::links::NodeId;
use crate::primitives::atomic::{AtomicUsize, Ordering};
use crate::primitives::{Mutex, seeded};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// log2 of the bytes in a block. A block may be larger, but by less than a factor of two, unless it
/// is a single node.
const BLOCK_BYTES: u32 = 14;
/// log2 of the largest number of nodes in a block.
const BLOCK_NODES: u32 = 8;
/// Ids that leave the reserve at once. The thread that needs an id takes some for other threads
/// too.
pub const REFILL: usize = if cfg!(cortado_loom) { 2 } else { 64 };
/// The limit of [`trim`](Reserve::trim), both for free ids outside the reserve and for ids in its
/// incomplete blocks: one in this many of the ids outside the reserve, ...
const IDLE_SHARE: usize = 8;
/// ... or as many ids as this many blocks have, but at most this many bytes; whichever is more.
const IDLE_BLOCKS: usize = 8;
const IDLE_BYTES: usize = 1 << 18;
/// A call may give back one block for this many ids that it may move, rounded up, because giving
/// back costs system time.
const IDS_PER_BLOCK: usize = 64;

/// The ids of a block that are in the reserve.
#[derive(Default)]
pub(super) struct Block {
    /// The first of the ids that are linked through `timer.next`.
    pub(super) head: NodeId,
    /// The number of linked ids.
    pub(super) listed: usize,
    /// Number of ids at the block's end that have not been touched since the block was given back.
    pub(super) untouched: usize,
}

/// Blocks by their first ids.
#[derive(Default)]
pub(super) struct State {
    /// The other blocks that have ids here, lowest first.
    pub(super) partial: BTreeMap<NodeId, Block>,
    /// Blocks whose ids are all here and whose memory was given back to the system, lowest first.
    pub(super) parked: BinaryHeap<Reverse<NodeId>>,
}

/// See the [module](self).
pub struct Reserve {
    /// log2 of the nodes in a block.
    pub(super) bits: u32,
    /// So many free ids are no surplus, however few others there are.
    idle: usize,
    /// Number of ids in the reserve.
    len: AtomicUsize,
    pub(super) state: Mutex<State>,
}

impl Reserve {
    pub fn new(stride: usize) -> Self {
        let bits = BLOCK_BYTES.saturating_sub(stride.ilog2()).min(BLOCK_NODES);
        let bits = if cfg!(cortado_loom) { 1 } else { bits };
        Self {
            bits,
            idle: (IDLE_BLOCKS << bits).min(IDLE_BYTES / stride),
            len: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    /// The first id of a block that has not been touched since the block was given back.
    pub(super) fn first_untouched(&self, first: NodeId, block: &Block) -> NodeId {
        let touched = self.block_len() - block.untouched;
        NodeId::from_raw(first.raw() + touched as u32)
    }

    /// Number of nodes in a block.
    pub fn block_len(&self) -> usize {
        1 << self.bits
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Takes some ids out. Ids of the lowest block that has its memory come first, so that all
    /// nodes of the higher blocks are free at some time. Returns how many ids it has put into
    /// `taken`.
    pub fn refill(&self, pool: &impl NodeMemory, taken: &mut [NodeId; REFILL]) -> usize {
        // A hint. A thread that sees too few ids makes a new one. A thread that sees too many finds
        // that out under the lock.
        if self.len() == 0 {
            return 0;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.partial.is_empty()
            && let Some(Reverse(first)) = state.parked.pop()
        {
            let whole = Block { untouched: self.block_len(), ..Block::default() };
            state.partial.insert(first, whole);
        }
        let Some(mut entry) = state.partial.first_entry() else { return 0 };
        let first = *entry.key();
        let block = entry.get_mut();
        let mut count = 0;
        for id in taken {
            if block.listed > 0 {
                *id = block.head;
                block.head = pool.at(block.head).meta().timer.next();
                block.listed -= 1;
            } else if block.untouched > 0 {
                *id = self.first_untouched(first, block);
                block.untouched -= 1;
            } else {
                break;
            }
            count += 1;
        }
        if block.listed + block.untouched == 0 {
            entry.remove();
        }
        self.len.fetch_sub(count, Ordering::Relaxed);
        count
    }

    /// How many nodes are in blocks whose memory was given back.
    pub fn parked(&self) -> usize {
        self.state.lock().parked.len() << self.bits
    }

    /// Whether more ids are free outside the reserve, or are here in incomplete blocks, than
    /// [`IDLE_SHARE`], [`IDLE_BLOCKS`] and [`IDLE_BYTES`] allow.
    fn is_surplus(&self, state: &State, pool: &impl NodeMemory) -> bool {
        let (all, len, free) = (pool.handed_out(), self.len(), pool.free_len());
        let limit = ((all - len.min(all)) / IDLE_SHARE).max(self.idle);
        let scattered = len.saturating_sub(state.parked.len() << self.bits);
        free > limit || (free > 0 && scattered > limit)
    }

    /// Whether [`trim`](Self::trim) has anything to do.
    pub fn has_surplus(&self, pool: &impl NodeMemory) -> bool {
        self.is_surplus(&self.state.lock(), pool)
    }

    /// Moves up to `most` free ids here, if there is a surplus. If the surplus is in incomplete
    /// blocks, these ids complete blocks, or allocations get ids of lower blocks in their place, so
    /// that the nodes in use gather there. Returns whether there may be more to move. If another
    /// thread holds the lock, this moves nothing and returns true.
    pub fn trim(&self, pool: &impl NodeMemory, most: usize) -> bool {
        // So few nodes are no surplus if all of them are free.
        if pool.handed_out() <= self.idle {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else { return true };
        self.is_surplus(&state, pool)
            && self.move_free(&mut state, pool, most) > 0
            && self.is_surplus(&state, pool)
    }

    /// A surplus is moved by so many calls of [`trim`](Self::trim), or fewer, if no more ids become
    /// free meanwhile.
    pub fn most_trims(&self, pool: &impl NodeMemory, most: usize) -> usize {
        // A call ends when it has moved so many ids, or has completed so many blocks.
        let ids_in_blocks = most.div_ceil(IDS_PER_BLOCK) << self.bits;
        pool.handed_out() / most + pool.handed_out() / ids_in_blocks + 1
    }

    /// Moves up to `most` free ids here, needed or not. Returns how many were moved.
    pub fn put(&self, pool: &impl NodeMemory, most: usize) -> usize {
        self.move_free(&mut self.state.lock(), pool, most)
    }

    /// Moves up to `most` free ids here, and gives complete blocks back. Returns how many ids were
    /// moved.
    fn move_free(&self, state: &mut State, pool: &impl NodeMemory, most: usize) -> usize {
        let (mut moved, mut blocks) = (0, most.div_ceil(IDS_PER_BLOCK));
        while moved < most
            && blocks > 0
            && let Some(id) = pool.pop_free()
        {
            moved += 1;
            let first = NodeId::from_raw(id.raw() >> self.bits << self.bits);
            let block = state.partial.entry(first).or_default();
            pool.at(id).meta().timer.set_next(block.head);
            block.head = id;
            block.listed += 1;
            // The ids of a chunk that is smaller than a block never complete one.
            if block.listed + block.untouched == self.block_len() || seeded("park-what-is-in-use") {
                pool.give_back(first, self.block_len());
                state.partial.remove(&first);
                state.parked.push(Reverse(first));
                blocks -= 1;
            }
        }
        self.len.fetch_add(moved, Ordering::Relaxed);
        moved
    }
}
