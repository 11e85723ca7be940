//! Striped stacks of free ids; see the [module](super) for the protocol.

use super::address::{Address, NodeMemory};
use crate::links::NIL;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{seeded, thread_stripe};
use crossbeam_utils::CachePadded;

const STRIPES: usize = if cfg!(cortado_loom) { 1 } else { 4 };

/// Free ids, last in first out per stripe.
#[derive(Debug)]
pub struct FreeList {
    /// Each head is `tag << 32 | id`.
    heads: [CachePadded<AtomicU64>; STRIPES],
    /// Counts batches; selects the stripe for the next one.
    turn: AtomicUsize,
}

impl FreeList {
    pub fn new() -> Self {
        Self {
            heads: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))),
            turn: AtomicUsize::new(0),
        }
    }

    /// Takes an id, from this thread's stripe first. Returns the id and the address of its node.
    #[inline]
    pub fn pop<'p>(&self, pool: &'p impl NodeMemory) -> Option<(u32, Address<'p>)> {
        let own = thread_stripe();
        self.pop_from(pool, own).or_else(|| self.pop_elsewhere(pool, own))
    }

    #[cold]
    fn pop_elsewhere<'p>(
        &self,
        pool: &'p impl NodeMemory,
        own: usize,
    ) -> Option<(u32, Address<'p>)> {
        (1..STRIPES).find_map(|step| self.pop_from(pool, own + step))
    }

    #[inline]
    fn pop_from<'p>(&self, pool: &'p impl NodeMemory, stripe: usize) -> Option<(u32, Address<'p>)> {
        let head = &self.heads[stripe % STRIPES];
        let mut seen = head.load(Ordering::Acquire);
        loop {
            let id = seen as u32;
            if id == NIL {
                return None;
            }
            let node = pool.at(id);
            let next = node.meta().timer.next();
            // Acquire pairs with the Release in `push`: the id's last owner is done with it.
            match head.compare_exchange_weak(
                seen,
                retag(seen, next),
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    // The next thread that takes an id from this stripe will write to this node at
                    // once.
                    if next != NIL {
                        pool.prefetch(next);
                    }
                    return Some((id, node));
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Puts `ids` on the list, in one step for all of them.
    pub fn push(&self, pool: &impl NodeMemory, ids: &[u32]) {
        let Some(&first) = ids.first() else { return };
        let head = self.taker();
        // Acquire pairs with the Release below: `depth` reads the count that the thread which
        // pushed the first id has stored.
        let mut seen = head.load(Ordering::Acquire);
        loop {
            let (mut below, mut count) = (seen as u32, depth(pool, seen));
            for &id in ids.iter().rev() {
                count = count.wrapping_add(1);
                let links = &pool.at(id).meta().timer;
                links.set_next(below);
                links.set_prev(count);
                below = id;
            }
            // Release pairs with the Acquire in `pop`.
            match head.compare_exchange_weak(
                seen,
                retag(seen, first),
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Selects the stripe for the next batch: this thread's stripe if it is empty, else the stripes
    /// in turn. The threads that free ids are those that run maintenance. The threads that need ids
    /// are others, unless there is only one thread.
    fn taker(&self) -> &AtomicU64 {
        let own = &self.heads[thread_stripe() % STRIPES];
        if own.load(Ordering::Relaxed) as u32 == NIL {
            return own;
        }
        &self.heads[self.turn.fetch_add(1, Ordering::Relaxed) % STRIPES]
    }

    /// Number of ids in all stripes. An estimate while other threads take or return ids.
    pub fn len(&self, pool: &impl NodeMemory) -> usize {
        let stripe = |head: &CachePadded<AtomicU64>| {
            let seen = head.load(Ordering::Acquire);
            let count = depth(pool, seen);
            // If another thread took the first id meanwhile, the count may be any number.
            let same = head.load(Ordering::Acquire) == seen;
            if same { count as usize } else { 0 }
        };
        self.heads.iter().map(stripe).fold(0, usize::saturating_add)
    }

    /// Visits all free ids. No other thread may use the list meanwhile.
    pub fn for_each(&self, pool: &impl NodeMemory, mut visit: impl FnMut(u32)) {
        for head in &self.heads {
            let mut id = head.load(Ordering::Acquire) as u32;
            while id != NIL {
                visit(id);
                id = pool.at(id).meta().timer.next();
            }
        }
    }
}

/// Number of ids from the first one to the end of the stripe. Valid only if the head is still
/// `seen`.
#[inline]
fn depth(pool: &impl NodeMemory, seen: u64) -> u32 {
    let first = seen as u32;
    if first == NIL { 0 } else { pool.at(first).meta().timer.prev() }
}

#[inline]
fn retag(seen: u64, id: u32) -> u64 {
    if seeded("free-list-without-tag") {
        return u64::from(id);
    }
    (((seen >> 32).wrapping_add(1)) << 32) | u64::from(id)
}
