//! The state that the maintenance lock protects, and the figures that passes publish.

use crate::clock::{NEVER, Timestamp};
use crate::config::{Config, Eviction};
use crate::eviction::Policy;
use crate::hash::Hash32;
use crate::index::EmptyOverflows;
use crate::links::NodeId;
use crate::node::Generation;
use crate::primitives::Arc;
use crate::primitives::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::primitives::guarded::GuardedU32;
use crate::wheel::Wheel;
use std::collections::VecDeque;

/// The state of the maintenance. The maintenance lock protects it.
pub struct Maintenance {
    pub wheel: Wheel,
    pub policy: Option<Policy>,
    /// Nodes that the maintenance knows to be in the index, and their weight.
    pub count: u64,
    pub weight: u64,
    /// Whether the cache is gone. No pass runs any more.
    pub ended: bool,
    /// Reads that were drained, and entries that were evicted, in this record period.
    pub reads_in_period: u32,
    pub evictions_in_period: u32,
    /// Victims that the policy has ever named.
    #[cfg(test)]
    pub victims_named: u64,
    /// Dead nodes that are not yet handed to the epoch.
    pub dead: Dead,
    /// Batches of dead nodes that were handed to the epoch, oldest first. The cache still has its
    /// counts on them.
    pub in_grace: VecDeque<Batch>,
    /// Yields of writers since a batch was last reclaimed.
    pub yields: u32,
    /// Overflow buckets that the index has given up. They go to the epoch with the dead.
    pub empty_overflows: EmptyOverflows,
    /// The main region's victim that was prefetched last.
    pub prefetched: NodeId,
    /// Scratch space for the events of one stripe.
    pub events: Vec<u64>,
    /// The sweep that is under way after an `invalidate_all`.
    pub sweep: Option<Sweep>,
    /// The generation up to which everything older is swept.
    pub swept: Generation,
    /// Scratch space for the ids of one bucket.
    pub ids: Vec<NodeId>,
}

impl Maintenance {
    pub fn new(config: &Config, now: Timestamp) -> Self {
        Self {
            wheel: Wheel::new(config.geometry(), now),
            policy: config.max_capacity.map(|capacity| policy_of(config, capacity)),
            count: 0,
            weight: 0,
            ended: false,
            reads_in_period: 0,
            evictions_in_period: 0,
            #[cfg(test)]
            victims_named: 0,
            dead: Dead::new(now),
            in_grace: VecDeque::new(),
            yields: 0,
            empty_overflows: EmptyOverflows::default(),
            prefetched: NodeId::NONE,
            events: Vec::new(),
            sweep: None,
            swept: Generation::FIRST,
            ids: Vec::new(),
        }
    }
}

fn policy_of(config: &Config, capacity: u64) -> Policy {
    // A model's executions must be repeatable, so the seed is fixed.
    let seed = if cfg!(cortado_loom) { 0 } else { ahash::RandomState::new().hash_one("policy") };
    match config.eviction.0 {
        Eviction::TinyLfu => Policy::new(capacity, seed),
        Eviction::SegmentedLru => Policy::segmented_lru(capacity, seed),
        Eviction::Lru => Policy::with_fixed_window(capacity, seed, 1.0),
    }
}

/// A sweep of the index after an `invalidate_all`.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// The generation when the sweep began.
    pub generation: Generation,
    /// The index's cursor.
    pub cursor: Hash32,
}

/// Dead nodes that are not yet handed to the epoch.
pub struct Dead {
    pub ids: Vec<NodeId>,
    pub weight: u64,
    /// How many of `ids` are counted as unreclaimed.
    pub counted: usize,
    /// How many passes have kept them back.
    pub passes: u32,
    /// When the batch before them was handed over.
    pub since: Timestamp,
}

impl Dead {
    pub fn new(now: Timestamp) -> Self {
        Self { ids: Vec::new(), weight: 0, counted: 0, passes: 0, since: now }
    }
}

/// Dead nodes in their grace period.
pub struct Batch {
    pub ids: Vec<NodeId>,
    /// Whether every guard of the time of the hand-over is gone.
    pub is_over: Arc<AtomicBool>,
}

impl Batch {
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// The figures that passes publish. All of them are as of the last pass. They begin a cache line,
/// since every pass writes them.
#[derive(Debug)]
#[repr(align(64))]
pub struct Published {
    pub entries: AtomicU64,
    pub weight: AtomicU64,
    /// The generation up to which everything older is swept.
    swept: AtomicU64,
    /// When a pass will have something to expire.
    next_due: AtomicU64,
    /// When the pass ran.
    last_pass: AtomicU64,
    /// When dead nodes were last handed to the epoch, or it was flushed for them.
    last_flush: AtomicU64,
    /// Dead nodes that the cache still has its count on.
    pub unreclaimed: AtomicUsize,
    /// Consecutive runs of the scheduler that waited for a guard in vain. (It is here because the
    /// scheduler writes it where it publishes.)
    pub idle_runs: GuardedU32,
}

impl Published {
    pub fn new(now: Timestamp) -> Self {
        Self {
            entries: AtomicU64::new(0),
            weight: AtomicU64::new(0),
            swept: AtomicU64::new(Generation::FIRST.raw()),
            next_due: AtomicU64::new(NEVER.raw()),
            last_pass: AtomicU64::new(now.raw()),
            last_flush: AtomicU64::new(now.raw()),
            unreclaimed: AtomicUsize::new(0),
            idle_runs: GuardedU32::new(0),
        }
    }

    /// Acquire pairs with the Release in [`set_swept`](Self::set_swept).
    pub fn swept(&self) -> Generation {
        Generation::from_raw(self.swept.load(Ordering::Acquire))
    }

    pub fn set_swept(&self, swept: Generation) {
        self.swept.store(swept.raw(), Ordering::Release);
    }

    pub fn next_due(&self) -> Timestamp {
        Timestamp::from_raw(self.next_due.load(Ordering::Relaxed))
    }

    pub fn set_next_due(&self, due: Timestamp) {
        self.next_due.store(due.raw(), Ordering::Relaxed);
    }

    pub fn last_pass(&self) -> Timestamp {
        Timestamp::from_raw(self.last_pass.load(Ordering::Relaxed))
    }

    pub fn last_flush(&self) -> Timestamp {
        Timestamp::from_raw(self.last_flush.load(Ordering::Relaxed))
    }

    pub fn set_last_flush(&self, now: Timestamp) {
        self.last_flush.store(now.raw(), Ordering::Relaxed);
    }

    pub fn set_last_pass(&self, now: Timestamp) {
        self.last_pass.store(now.raw(), Ordering::Relaxed);
    }
}
