//! A binary heap with lazy deletion: what was cancelled stays in it, and is passed over when its
//! time comes. Swept, it is also taken out when it is more than half of the heap, all at once.

use super::Timers;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stands for "not in it".
const NONE: u64 = u64::MAX;

/// The heap that keeps what was cancelled until its time comes, and its memory with it.
pub type Lazy = Heap<false>;
/// The heap that is swept, in a pause that grows with it.
pub type Swept = Heap<true>;

/// A heap and the deadlines that count, by id.
pub struct Heap<const IS_SWEPT: bool> {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    deadlines: Vec<u64>,
    live: usize,
}

impl<const IS_SWEPT: bool> Timers for Heap<IS_SWEPT> {
    const NAME: &'static str = if IS_SWEPT { "BinaryHeap, swept" } else { "BinaryHeap, lazy" };
    const LATENESS: u64 = 0;

    type Key = u32;

    fn new(ids: u32) -> Self {
        Self { heap: BinaryHeap::new(), deadlines: vec![NONE; ids as usize + 1], live: 0 }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> u32 {
        self.deadlines[id as usize] = deadline;
        self.live += 1;
        self.heap.push(Reverse((deadline, id)));
        id
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.deadlines[id as usize] = NONE;
        self.live -= 1;
        if IS_SWEPT && self.heap.len() > 64 && self.live < self.heap.len() / 2 {
            let deadlines = &self.deadlines;
            self.heap.retain(|&Reverse((deadline, id))| deadlines[id as usize] == deadline);
        }
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        while let Some(&Reverse((deadline, id))) = self.heap.peek()
            && deadline <= now
        {
            self.heap.pop();
            if self.deadlines[id as usize] == deadline {
                self.deadlines[id as usize] = NONE;
                self.live -= 1;
                due(id);
            }
        }
    }
}
