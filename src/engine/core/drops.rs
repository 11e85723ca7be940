//! Nodes whose keys and values wait to be dropped: they have left the cache, no thread can see them
//! any more, and no handle is on them.
//!
//! Passes leave them here in batches. As a rule the thread that ran the pass drops them at once.
//! While several threads write in a steady flow, a pass leaves them to the writers: each of them
//! drops a [portion](PORTION) after every few writes of its own. So a thread frees about as many
//! values as it allocates, a few at a time, and its own cache in the allocator has room for them.
//! glibc's has room for seven blocks of a size. The rest of a batch would go to an arena, whose
//! lock threads share. If more batches wait than a pass allows, a writer drops a whole one in place
//! of a portion. `docs/performance.md` has the gain.

use crate::links::NodeId;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::{GuardedBool, GuardedU32};
use crate::primitives::queue::SegQueue;
use crate::primitives::{Mutex, Patience, thread_cells};
use std::cell::Cell;
use std::sync::OnceLock;

/// How many nodes a writer drops at once: as many blocks as glibc keeps for a thread.
pub const PORTION: usize = 7;
/// A writer drops a portion after so many writes. That is less than a portion, so that writers
/// keep up.
const WRITES_PER_PORTION: u32 = 6;
/// So many batches may wait, however large the cache is. A pass adds two or three.
const MOST_BATCHES: u64 = 16;
/// A batch may wait for so many entries: some 250 nodes, a sixteenth. But one may always wait.
const ENTRIES_PER_BATCH: u64 = 4096;
/// A thread that writes to several caches in turns may have its turn to drop always in the same
/// one. A pass leaves nothing to the writers of a cache in which this many times as much waits as
/// it allowed.
const NEGLECTED: usize = 2;

/// See the [module](self).
pub struct Drops {
    /// Made by the first push: what needs no drop is never here.
    places: OnceLock<Box<Places>>,
}

struct Places {
    batches: SegQueue<Vec<NodeId>>,
    /// The rest of the batch of which writers take portions. Nobody runs user code under this
    /// lock.
    begun: Mutex<Vec<NodeId>>,
    /// Whether `begun` has any. A hint: the lock orders them.
    has_begun: GuardedBool,
    /// How many batches the last pass left to the writers at most; 0 if whoever delivers next
    /// drops all. It orders nothing.
    left_to_writers: GuardedU32,
}

impl Places {
    fn make() -> Box<Self> {
        Box::new(Self {
            batches: SegQueue::new(),
            begun: Mutex::new(Vec::new()),
            has_begun: GuardedBool::new(false),
            left_to_writers: GuardedU32::new(0),
        })
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && !self.has_begun.load(Relaxed)
    }

    fn take(&self, patience: Patience) -> Option<Vec<NodeId>> {
        if let Some(batch) = self.batches.pop() {
            return Some(batch);
        }
        if !self.has_begun.load(Relaxed) {
            return None;
        }
        let mut begun = match patience {
            Patience::Wait => self.begun.lock(),
            Patience::Skip => self.begun.try_lock()?,
        };
        self.has_begun.store(false, Relaxed);
        Some(std::mem::take(&mut *begun))
    }
}

impl Drops {
    pub fn new() -> Self {
        let drops = Self { places: OnceLock::new() };
        if cfg!(cortado_loom) {
            // loom does not see that std's lock publishes them.
            drops.places.get_or_init(Places::make);
        }
        drops
    }

    pub fn push(&self, ids: Vec<NodeId>) {
        self.places.get_or_init(Places::make).batches.push(ids);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.places.get().is_none_or(|places| places.is_empty())
    }

    /// Says, at the end of a pass, whether writers are to drop what waits, in a cache of so many
    /// `entries`. Otherwise whoever delivers next drops all of it.
    pub fn leave_to_writers(&self, entries: Option<u64>) {
        let Some(places) = self.places.get() else { return };
        let allowed = |entries: u64| (entries / ENTRIES_PER_BATCH).clamp(1, MOST_BATCHES) as u32;
        let mut most = entries.map_or(0, allowed);
        if most > 0 && places.batches.len() > NEGLECTED * most as usize {
            most = 0;
        }
        if places.left_to_writers.load(Relaxed) != most {
            places.left_to_writers.store(most, Relaxed);
        }
    }

    /// How many batches are left to the writers, who drop whole ones beyond that. 0 if whoever
    /// delivers next drops all.
    #[inline]
    pub fn left_to_writers(&self) -> usize {
        self.places.get().map_or(0, |places| places.left_to_writers.load(Relaxed) as usize)
    }

    /// Whether a thread that has just written has something to drop.
    #[inline]
    pub fn are_due_after_write(&self) -> bool {
        let Some(places) = self.places.get() else { return false };
        !places.is_empty() && (places.left_to_writers.load(Relaxed) == 0 || is_turn())
    }

    /// Takes a batch, or what is left of one. [`Patience::Skip`] does not wait for a writer that is
    /// just taking a portion.
    pub fn take(&self, patience: Patience) -> Option<Vec<NodeId>> {
        self.places.get()?.take(patience)
    }

    /// A batch, if more wait than are left to the writers.
    pub fn take_excess(&self) -> Option<Vec<NodeId>> {
        let places = self.places.get()?;
        let is_excess = places.batches.len() > self.left_to_writers();
        is_excess.then(|| places.batches.pop()).flatten()
    }

    /// Takes a portion: these nodes, and how many they are. `prefetch` is called with the nodes of
    /// the next portion and of the one after it.
    pub fn take_portion(
        &self,
        prefetch: impl Fn(&[NodeId], &[NodeId]),
    ) -> ([NodeId; PORTION], usize) {
        let mut portion = [NodeId::NONE; PORTION];
        let Some(places) = self.places.get() else { return (portion, 0) };
        let Some(mut begun) = places.begun.try_lock() else { return (portion, 0) };
        if begun.is_empty() {
            *begun = places.batches.pop().unwrap_or_default();
        }
        let left = begun.len().saturating_sub(PORTION);
        let count = begun.len() - left;
        portion[..count].copy_from_slice(&begun[left..]);
        begun.truncate(left);
        let (rest, next) = begun.split_at(left.saturating_sub(PORTION));
        prefetch(next, &rest[rest.len().saturating_sub(PORTION)..]);
        if places.has_begun.load(Relaxed) != (left > 0) {
            places.has_begun.store(left > 0, Relaxed);
        }
        (portion, count)
    }
}

thread_cells! {
    /// The thread's writes to caches that have left drops to their writers.
    static WRITES: Cell<u32> = Cell::new(0);
}

/// Whether it is this thread's turn to drop a portion.
#[inline]
fn is_turn() -> bool {
    WRITES.with(|writes| {
        let now = writes.get() + 1;
        let is_turn = now >= WRITES_PER_PORTION;
        writes.set(if is_turn { 0 } else { now });
        is_turn
    })
}
