//! Free ids that are not kept at hand, grouped by block. If all ids of a block are here, the memory
//! of the block goes back to the system. See the [module](super) for the protocol.

use super::address::NodeMemory;
use crate::links::NodeId;
use crate::primitives::atomic::{AtomicUsize, Ordering};
use crate::primitives::{Mutex, seeded};

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

/// The ids of a block that are in the reserve. If none of them has been touched since the memory of
/// the block was given back to the system, the block is *parked*.
#[derive(Clone, Copy, Default)]
struct Block {
    /// The first of the ids that are linked through `timer.next`.
    head: NodeId,
    /// The number of linked ids.
    listed: u16,
    /// Number of ids at the block's end that have not been touched since the block was given back.
    untouched: u16,
}

impl Block {
    fn len(self) -> usize {
        usize::from(self.listed) + usize::from(self.untouched)
    }
}

/// Where an id may be: in a block of which others are in use, or in one that is parked.
#[derive(Clone, Copy)]
enum In {
    Partial,
    Parked,
}

#[derive(Default)]
struct State {
    /// All blocks up to the last one that had ids here. The number of a block is what its ids have
    /// in common, without their lowest bits.
    blocks: Vec<Block>,
    /// No block before has ids: of partial blocks, and of parked ones.
    lowest: [usize; 2],
    /// How many blocks are parked.
    parked: usize,
}

impl State {
    /// The lowest block of this kind. `whole` is the number of ids in a parked one.
    fn lowest(&mut self, kind: In, whole: usize) -> Option<usize> {
        let from = &mut self.lowest[kind as usize];
        let is_such = |block: &Block| match kind {
            In::Partial => block.len() > 0 && usize::from(block.untouched) < whole,
            In::Parked => usize::from(block.untouched) == whole,
        };
        let rest = &self.blocks[*from..];
        *from += rest.iter().position(is_such).unwrap_or(rest.len());
        (*from < self.blocks.len()).then_some(*from)
    }

    /// The block, which is about to have ids of this kind.
    fn block(&mut self, number: usize, kind: In) -> &mut Block {
        let lowest = &mut self.lowest[kind as usize];
        *lowest = number.min(*lowest);
        if self.blocks.len() <= number {
            self.blocks.resize(number + 1, Block::default());
        }
        &mut self.blocks[number]
    }
}

/// See the [module](self).
pub struct Reserve {
    /// log2 of the nodes in a block.
    bits: u32,
    /// So many free ids are no surplus, however few others there are.
    idle: usize,
    /// Number of ids in the reserve.
    len: AtomicUsize,
    state: Mutex<State>,
}

impl Reserve {
    pub fn new(stride: usize) -> Self {
        let bits = BLOCK_BYTES.saturating_sub(stride.ilog2()).min(BLOCK_NODES);
        let bits = if cfg!(cortado_loom) { 1 } else { bits };
        Self {
            bits,
            idle: (IDLE_BLOCKS << bits).min(IDLE_BYTES / stride),
            len: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
        }
    }

    /// The first id of a block.
    fn first_of(&self, number: usize) -> NodeId {
        NodeId::from_raw((number << self.bits) as u32)
    }

    /// The first id of a block that has not been touched since the block was given back.
    fn first_untouched(&self, number: usize, block: Block) -> NodeId {
        let touched = self.block_len() - usize::from(block.untouched);
        NodeId::from_raw(self.first_of(number).raw() + touched as u32)
    }

    /// Number of nodes in a block.
    pub fn block_len(&self) -> usize {
        1 << self.bits
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Number of nodes whose memory was given back to the system.
    pub fn parked(&self) -> usize {
        self.state.lock().parked << self.bits
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
        let whole = self.block_len();
        let number = match state.lowest(In::Partial, whole) {
            Some(number) => number,
            None => {
                let Some(number) = state.lowest(In::Parked, whole) else { return 0 };
                state.parked -= 1;
                number
            }
        };
        let block = state.block(number, In::Partial);
        let mut count = 0;
        for id in taken {
            if block.listed > 0 {
                *id = block.head;
                block.head = pool.at(block.head).meta().timer.next();
                block.listed -= 1;
            } else if block.untouched > 0 {
                *id = self.first_untouched(number, *block);
                block.untouched -= 1;
            } else {
                break;
            }
            count += 1;
        }
        self.len.fetch_sub(count, Ordering::Relaxed);
        count
    }

    /// Whether more ids are free outside the reserve, or are here in incomplete blocks, than
    /// [`IDLE_SHARE`], [`IDLE_BLOCKS`] and [`IDLE_BYTES`] allow.
    fn is_surplus(&self, state: &State, pool: &impl NodeMemory) -> bool {
        let (all, len, free) = (pool.handed_out(), self.len(), pool.free_len());
        let limit = ((all - len.min(all)) / IDLE_SHARE).max(self.idle);
        let scattered = len.saturating_sub(state.parked << self.bits);
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
            let number = id.index() >> self.bits;
            let block = state.block(number, In::Partial);
            pool.at(id).meta().timer.set_next(block.head);
            block.head = id;
            block.listed += 1;
            // The ids of a chunk that is smaller than a block never complete one.
            if block.len() == self.block_len() || seeded("park-what-is-in-use") {
                pool.give_back(self.first_of(number), self.block_len());
                let untouched = self.block_len() as u16;
                *state.block(number, In::Parked) = Block { untouched, ..Block::default() };
                state.parked += 1;
                blocks -= 1;
            }
        }
        self.len.fetch_add(moved, Ordering::Relaxed);
        moved
    }

    /// Visits all ids that are here. No other thread may use the pool meanwhile.
    pub fn for_each(&self, pool: &impl NodeMemory, mut visit: impl FnMut(NodeId)) {
        let state = self.state.lock();
        for (number, &block) in state.blocks.iter().enumerate() {
            let count = usize::from(block.untouched);
            self.first_untouched(number, block).consecutive(count).for_each(&mut visit);
            let mut id = block.head;
            for _ in 0..block.listed {
                visit(id);
                id = pool.at(id).meta().timer.next();
            }
        }
    }
}
