//! A hashed wheel, as Netty's: one ring of 512 buckets of one tick each; a bucket's ids may be due
//! in any turn of the ring, so all of them are looked at in each. With the tick of the other
//! wheels, and with Netty's own of 100 ms, or as a power of two 134 ms.

use super::{TICK_SHIFT, Timers};

/// Netty's default tick.
const NETTY: u32 = 27;
const BUCKETS: u64 = 512;
/// No id: the end of a list.
const NIL: u32 = 0;

#[derive(Clone, Copy, Default)]
struct Node {
    next: u32,
    prev: u32,
    deadline: u64,
}

/// The wheel with the tick of cortado's.
pub type Hashed = Ring<TICK_SHIFT>;
/// The wheel with Netty's default tick.
pub type Rounds = Ring<NETTY>;

/// Doubly linked lists through an array of nodes.
pub struct Ring<const SHIFT: u32> {
    nodes: Vec<Node>,
    heads: Vec<u32>,
    /// The tick up to which buckets have been looked at.
    tick: u64,
}

impl<const SHIFT: u32> Ring<SHIFT> {
    /// The first tick that begins at or after the deadline.
    fn bucket(deadline: u64) -> usize {
        (deadline.div_ceil(1 << SHIFT) % BUCKETS) as usize
    }
}

impl<const SHIFT: u32> Timers for Ring<SHIFT> {
    const NAME: &'static str =
        if SHIFT == NETTY { "hashed wheel, Netty's tick" } else { "hashed wheel" };
    const LATENESS: u64 = 1 << SHIFT;

    type Key = u32;

    fn new(ids: u32) -> Self {
        let nodes = vec![Node::default(); ids as usize + 1];
        Self { nodes, heads: vec![NIL; BUCKETS as usize], tick: 0 }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> u32 {
        let head = &mut self.heads[Self::bucket(deadline)];
        let next = std::mem::replace(head, id);
        self.nodes[id as usize] = Node { next, prev: NIL, deadline };
        if next != NIL {
            self.nodes[next as usize].prev = id;
        }
        id
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        let Node { next, prev, deadline } = self.nodes[id as usize];
        match prev {
            NIL => self.heads[Self::bucket(deadline)] = next,
            prev => self.nodes[prev as usize].next = next,
        }
        if next != NIL {
            self.nodes[next as usize].prev = prev;
        }
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        let last = now >> SHIFT;
        while self.tick < last {
            self.tick += 1;
            let mut id = self.heads[(self.tick % BUCKETS) as usize];
            while id != NIL {
                let Node { next, deadline, .. } = self.nodes[id as usize];
                if deadline <= now {
                    self.cancel(id);
                    due(id);
                }
                id = next;
            }
        }
    }
}
