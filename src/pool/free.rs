//! Striped stacks of free ids; see the [module](super) for the protocol.

use super::chunks::{Address, NodeMemory};
use crate::links::NodeId;
use crate::prefetch::prefetch;
use crate::primitives::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::primitives::atomic::{AtomicU64, AtomicUsize};
use crate::primitives::plain::OnceLock;
use crate::primitives::{seeded, thread_stripe};
use crossbeam_utils::CachePadded;

const STRIPES: usize = if cfg!(cortado_loom) { 1 } else { 4 };

/// The head of a list as it was read: `tag << 32 | id`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Head(pub(super) u64);

impl Head {
    /// The first id of the list.
    #[inline(always)]
    pub(super) fn id(self) -> NodeId {
        NodeId::from_raw(self.0 as u32)
    }

    /// A head with another first id and the next tag.
    #[inline]
    fn with_id(self, id: NodeId) -> Self {
        if seeded("free-list-without-tag") {
            return Self(u64::from(id.raw()));
        }
        Self((((self.0 >> 32).wrapping_add(1)) << 32) | u64::from(id.raw()))
    }
}

/// A node that was free, and its address.
type Popped<'p> = Option<(NodeId, Address<'p>)>;

/// Free ids, last in first out per stripe.
pub struct FreeList {
    /// Allocated by the first push: a cache from which nothing was removed yet needs no stripes.
    stripes: OnceLock<Box<Stripes>>,
}

#[derive(Default)]
struct Stripes {
    /// Each is a [`Head`].
    heads: [CachePadded<AtomicU64>; STRIPES],
    /// Counts batches; selects the stripe for the next one.
    turn: AtomicUsize,
}

impl Stripes {
    #[inline]
    fn pop_from<'p>(&self, pool: &'p impl NodeMemory, stripe: usize) -> Popped<'p> {
        let head = &self.heads[stripe % STRIPES];
        let mut seen = Head(head.load(Acquire));
        loop {
            let id = seen.id();
            if id == NodeId::NONE {
                return None;
            }
            let node = pool.at(id);
            let next = node.meta().timer.next();
            // Acquire pairs with the Release in `push`: the id's last owner is done with it.
            match head.compare_exchange_weak(seen.0, seen.with_id(next).0, Acquire, Acquire) {
                Ok(_) => {
                    // The next pop reads this node's link, and its caller writes to the node.
                    if next.may_name_node() {
                        prefetch(pool.at(next).meta());
                    }
                    return Some((id, node));
                }
                Err(now) => seen = Head(now),
            }
        }
    }

    #[cold]
    fn pop_elsewhere<'p>(&self, pool: &'p impl NodeMemory, own: usize) -> Popped<'p> {
        (1..STRIPES).find_map(|step| self.pop_from(pool, own + step))
    }

    /// Selects the stripe for the next batch: this thread's stripe if it is empty, else the stripes
    /// in turn. The threads that free ids are those that run maintenance. The threads that need ids
    /// are others, unless there is only one thread.
    fn taker(&self) -> &AtomicU64 {
        let own = &self.heads[thread_stripe() % STRIPES];
        if Head(own.load(Relaxed)).id() == NodeId::NONE {
            return own;
        }
        &self.heads[self.turn.fetch_add(1, Relaxed) % STRIPES]
    }
}

impl FreeList {
    pub fn new() -> Self {
        let stripes = OnceLock::new();
        if cfg!(cortado_loom) {
            // loom does not see that std's lock publishes them.
            let _ = stripes.set(Box::default());
        }
        Self { stripes }
    }

    /// Takes an id, from this thread's stripe first. Returns the id and the address of its node.
    #[inline]
    pub fn pop<'p>(&self, pool: &'p impl NodeMemory) -> Popped<'p> {
        let (stripes, own) = (self.stripes.get()?, thread_stripe());
        stripes.pop_from(pool, own).or_else(|| stripes.pop_elsewhere(pool, own))
    }

    /// Puts `ids` on the list, in one step for all of them.
    #[inline]
    pub fn push(&self, pool: &impl NodeMemory, ids: &[NodeId]) {
        let Some(&first) = ids.first() else { return };
        let head = self.stripes.get_or_init(Box::default).taker();
        // Acquire pairs with the Release below: `depth` reads the count that the thread which
        // pushed the first id has stored.
        let mut seen = Head(head.load(Acquire));
        loop {
            let (mut below, mut count) = (seen.id(), depth(pool, seen));
            for &id in ids.iter().rev() {
                count = count.wrapping_add(1);
                let links = &pool.at(id).meta().timer;
                links.set_next(below);
                links.set_number(count);
                below = id;
            }
            // Release pairs with the Acquire in `pop`.
            match head.compare_exchange_weak(seen.0, seen.with_id(first).0, Release, Acquire) {
                Ok(_) => return,
                Err(now) => seen = Head(now),
            }
        }
    }

    /// Number of ids in all stripes. An estimate while other threads take or return ids.
    pub fn len(&self, pool: &impl NodeMemory) -> usize {
        let stripe = |head: &CachePadded<AtomicU64>| {
            let seen = Head(head.load(Acquire));
            let count = depth(pool, seen);
            // If another thread took the first id meanwhile, the count may be any number.
            let same = Head(head.load(Acquire)) == seen;
            if same { count as usize } else { 0 }
        };
        self.heads().map(stripe).fold(0, usize::saturating_add)
    }

    pub(super) fn heads(&self) -> impl Iterator<Item = &CachePadded<AtomicU64>> {
        self.stripes.get().into_iter().flat_map(|stripes| &stripes.heads)
    }
}

/// Number of ids from the first one to the end of the stripe. Valid only if the head is still
/// `seen`.
#[inline]
fn depth(pool: &impl NodeMemory, seen: Head) -> u32 {
    let first = seen.id();
    if first == NodeId::NONE { 0 } else { pool.at(first).meta().timer.number() }
}
