//! Free ids that nobody has needed for a while, by block; the memory of a block that is here as a
//! whole goes back to the system. See the [module](super) for the protocol.

use super::raw::RawPool;
use crate::links::NIL;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, seeded};
use std::collections::{BTreeMap, BTreeSet};

/// log2 of the bytes that a block has, unless it is a little more, ...
const BLOCK_BYTES: u32 = 14;
/// ... and of its nodes at most.
const BLOCK_NODES: u32 = 8;
/// Ids that leave at once: whoever needs one takes some for others too.
pub const REFILL: usize = if cfg!(cortado_loom) { 2 } else { 64 };
/// How long, in nanoseconds of the cache's time, a free id was not needed before it is moved here.
const WINDOW: u64 = 250_000_000;
/// At least this share of the ids outside has to be free all the time to be worth the work, ...
const IDLE_SHARE: usize = 8;
/// ... and this many blocks' worth.
const IDLE_BLOCKS: usize = 8;
/// If as many are here in blocks that are not whole, this share of them is moved in each window,
/// needed or not: they come back as others, of lower blocks, so that the nodes in use gather there.
const SWAP_SHARE: usize = 32;
/// Ids moved for each block that may be given back in the same call: giving back costs the system's
/// time.
const IDS_PER_BLOCK: usize = 64;

/// What [`RawPool::trim`] left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surplus {
    /// As many ids are free as are needed.
    #[default]
    None,
    /// More may be, as will be known at this time.
    Unsettled(u64),
    /// There are more to be moved now.
    Left,
}

/// The ids of a block that are here.
struct Block {
    /// The first of those that are linked through `timer.next`, and how many there are.
    head: u32,
    listed: usize,
    /// How many at the block's end have not been touched since it was given back.
    untouched: usize,
}

/// How many ids have been free since when.
struct Watch {
    since: u64,
    least: usize,
    /// How many are still to be moved.
    surplus: usize,
}

struct State {
    partial: BTreeMap<u32, Block>,
    /// Blocks that are here as a whole, given back to the system.
    parked: BTreeSet<u32>,
    watch: Watch,
}

/// See the [module](self).
pub struct Reserve {
    /// log2 of the nodes of a block.
    bits: u32,
    /// How many ids are here.
    len: AtomicUsize,
    state: Mutex<State>,
}

impl Reserve {
    pub fn new(stride: usize) -> Self {
        let bits = BLOCK_BYTES.saturating_sub(stride.ilog2());
        let watch = Watch { since: 0, least: 0, surplus: 0 };
        Self {
            bits: if cfg!(cortado_loom) { 1 } else { bits.min(BLOCK_NODES) },
            len: AtomicUsize::new(0),
            state: Mutex::new(State { partial: BTreeMap::new(), parked: BTreeSet::new(), watch }),
        }
    }

    /// Nodes of a block.
    pub fn block_len(&self) -> usize {
        1 << self.bits
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// How many nodes have been given back to the system.
    pub fn parked(&self) -> usize {
        self.state.lock().parked.len() << self.bits
    }

    /// Takes some ids out, those of the lowest blocks that have their memory first: so the others'
    /// nodes are all free at some time. How many of `taken` they are.
    pub fn take(&self, pool: &RawPool, taken: &mut [u32; REFILL]) -> usize {
        // A hint: who sees too few makes a new id, who sees too many finds that out under the lock.
        if self.len() == 0 {
            return 0;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut entry = match state.partial.first_entry() {
            Some(entry) => entry,
            None => {
                let Some(number) = state.parked.pop_first() else { return 0 };
                let whole = Block { head: NIL, listed: 0, untouched: self.block_len() };
                state.partial.insert(number, whole);
                state.partial.first_entry().expect("just inserted")
            }
        };
        let first = *entry.key() << self.bits;
        let block = entry.get_mut();
        let mut count = 0;
        for id in taken {
            if block.listed > 0 {
                *id = block.head;
                block.head = pool.meta(block.head).timer.next();
                block.listed -= 1;
            } else if block.untouched > 0 {
                *id = first + (self.block_len() - block.untouched) as u32;
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

    /// Moves free ids here that were not needed for a while, `most` at a time. One caller does so
    /// at a time.
    pub fn trim(&self, pool: &RawPool, now: u64, most: usize) -> Surplus {
        let (free, all) = (pool.free_len(), pool.handed_out());
        let Some(mut guard) = self.state.try_lock() else { return Surplus::None };
        let state = &mut *guard;
        let enough = ((all - self.len().min(all)) / IDLE_SHARE).max(IDLE_BLOCKS << self.bits);
        let watch = &mut state.watch;
        watch.least = watch.least.min(free);
        let watched = now.checked_sub(watch.since);
        if watched.is_none_or(|watched| watched >= WINDOW) {
            let scattered = self.len().saturating_sub(state.parked.len() << self.bits);
            if watched.is_some() && (watch.least > enough || scattered > enough) {
                watch.surplus = watch.least.max(scattered / SWAP_SHARE);
            }
            (watch.since, watch.least) = (now, free);
        }
        let wanted = watch.surplus.min(most);
        if wanted == 0 {
            let end = watch.since.saturating_add(WINDOW);
            return if free > enough { Surplus::Unsettled(end) } else { Surplus::None };
        }
        drop(guard);
        let moved = self.put(pool, wanted);
        let watch = &mut self.state.lock().watch;
        // If there were no more, the others are in use.
        watch.surplus = if moved == 0 { 0 } else { watch.surplus.saturating_sub(moved) };
        if watch.surplus > 0 {
            Surplus::Left
        } else if pool.free_len() > enough {
            Surplus::Unsettled(now.saturating_add(WINDOW))
        } else {
            Surplus::None
        }
    }

    /// Moves up to so many free ids here, and gives whole blocks back. How many.
    pub fn put(&self, pool: &RawPool, most: usize) -> usize {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (mut moved, mut blocks) = (0, most.div_ceil(IDS_PER_BLOCK));
        while moved < most
            && blocks > 0
            && let Some(id) = pool.pop_free()
        {
            moved += 1;
            let number = id >> self.bits;
            let new = || Block { head: NIL, listed: 0, untouched: 0 };
            let block = state.partial.entry(number).or_insert_with(new);
            pool.meta(id).timer.set_next(block.head);
            block.head = id;
            block.listed += 1;
            let complete =
                block.listed + block.untouched == self.block_len() || seeded("park-what-is-in-use");
            if complete && pool.is_divided(id, self.block_len()) {
                pool.give_back(number << self.bits, self.block_len());
                state.partial.remove(&number);
                state.parked.insert(number);
                blocks -= 1;
            }
        }
        self.len.fetch_add(moved, Ordering::Relaxed);
        moved
    }

    /// Walks all ids that are here, at quiescence.
    pub fn for_each(&self, pool: &RawPool, mut visit: impl FnMut(u32)) {
        let state = self.state.lock();
        for (number, block) in &state.partial {
            let end = (number << self.bits) + self.block_len() as u32;
            (end - block.untouched as u32..end).for_each(&mut visit);
            let mut id = block.head;
            for _ in 0..block.listed {
                visit(id);
                id = pool.meta(id).timer.next();
            }
        }
        for number in &state.parked {
            let first = number << self.bits;
            (first..first + self.block_len() as u32).for_each(&mut visit);
        }
    }
}

impl RawPool {
    /// Gives memory back that was not needed for a while: looks at `most` free ids at most. For one
    /// caller at a time.
    pub fn trim(&self, now: u64, most: usize) -> Surplus {
        self.reserve.trim(self, now, most)
    }

    /// Moves up to `most` free ids to the reserve, needed or not; how many.
    pub fn shelve(&self, most: usize) -> usize {
        self.reserve.put(self, most)
    }

    /// How many nodes are in blocks that were given back, of those that were handed out.
    pub fn parked(&self) -> usize {
        self.reserve.parked()
    }
}
