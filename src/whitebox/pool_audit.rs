//! The free nodes of a pool.

use super::chunks::NodeMemory;
use super::free::{FreeList, Head};
use super::raw::RawPool;
use super::reserve::Reserve;
use crate::links::NodeId;
use crate::primitives::atomic::Ordering::Acquire;
use std::cmp::Reverse;

impl RawPool {
    /// Number of nodes in blocks that were given back, of the nodes handed out so far.
    pub fn parked(&self) -> usize {
        self.reserve.parked()
    }

    /// Visits all free nodes. No other thread may use the pool meanwhile.
    pub fn for_each_free(&self, mut visit: impl FnMut(NodeId)) {
        self.free.for_each(self, &mut visit);
        self.reserve.for_each(self, visit);
    }
}

impl FreeList {
    /// Visits all free ids. No other thread may use the list meanwhile.
    pub fn for_each(&self, pool: &impl NodeMemory, mut visit: impl FnMut(NodeId)) {
        for head in self.heads() {
            let mut id = Head(head.load(Acquire)).id();
            while id != NodeId::NONE {
                visit(id);
                id = pool.at(id).meta().timer.next();
            }
        }
    }
}

impl Reserve {
    /// Visits all ids that are here. No other thread may use the pool meanwhile.
    pub fn for_each(&self, pool: &impl NodeMemory, mut visit: impl FnMut(NodeId)) {
        let state = self.state.lock();
        for (&first, block) in &state.partial {
            let untouched = self.first_untouched(first, block).consecutive(block.untouched);
            untouched.for_each(&mut visit);
            let mut id = block.head;
            for _ in 0..block.listed {
                visit(id);
                id = pool.at(id).meta().timer.next();
            }
        }
        for &Reverse(first) in &state.parked {
            first.consecutive(self.block_len()).for_each(&mut visit);
        }
    }
}
