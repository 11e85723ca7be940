//! Striped stacks of free ids; see the [module](super) for the protocol.

use super::raw::RawPool;
use crate::links::NIL;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{seeded, thread_stripe};
use crossbeam_utils::CachePadded;

const STRIPES: usize = if cfg!(cortado_loom) { 1 } else { 8 };

/// Free ids, last in first out per stripe.
#[derive(Debug)]
pub struct FreeList {
    /// `tag << 32 | id`
    heads: [CachePadded<AtomicU64>; STRIPES],
}

impl FreeList {
    pub fn new() -> Self {
        Self { heads: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))) }
    }

    /// Takes an id, from this thread's stripe first.
    pub fn pop(&self, pool: &RawPool) -> Option<u32> {
        let own = thread_stripe();
        (0..STRIPES).find_map(|step| {
            let head = &self.heads[(own + step) % STRIPES];
            let mut seen = head.load(Ordering::Acquire);
            loop {
                let id = seen as u32;
                if id == NIL {
                    return None;
                }
                let next = pool.meta(id).timer.next();
                // Acquire pairs with the Release in `push`: the id's last owner is done with it.
                match head.compare_exchange_weak(
                    seen,
                    retag(seen, next),
                    Ordering::Acquire,
                    Ordering::Acquire,
                ) {
                    Ok(_) => return Some(id),
                    Err(now) => seen = now,
                }
            }
        })
    }

    /// Gives `ids` back, in one step for all of them.
    pub fn push(&self, pool: &RawPool, ids: &[u32]) {
        let (Some(&first), Some(&last)) = (ids.first(), ids.last()) else { return };
        for pair in ids.windows(2) {
            pool.meta(pair[0]).timer.set_next(pair[1]);
        }
        let head = &self.heads[thread_stripe() % STRIPES];
        let mut seen = head.load(Ordering::Relaxed);
        loop {
            pool.meta(last).timer.set_next(seen as u32);
            // Release pairs with the Acquire in `pop`.
            match head.compare_exchange_weak(
                seen,
                retag(seen, first),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Walks all free ids, at quiescence.
    pub fn for_each(&self, pool: &RawPool, mut visit: impl FnMut(u32)) {
        for head in &self.heads {
            let mut id = head.load(Ordering::Acquire) as u32;
            while id != NIL {
                visit(id);
                id = pool.meta(id).timer.next();
            }
        }
    }
}

#[inline]
fn retag(seen: u64, id: u32) -> u64 {
    if seeded("free-list-without-tag") {
        return u64::from(id);
    }
    (((seen >> 32).wrapping_add(1)) << 32) | u64::from(id)
}
