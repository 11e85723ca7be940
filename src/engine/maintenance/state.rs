//! The state that the maintenance lock protects, and the figures that passes publish.

use crate::buffer::stripe_count;
use crate::clock::{NEVER, Timestamp};
use crate::config::{Config, Eviction};
use crate::epoch::Grace;
use crate::eviction::Policy;
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::node::Generation;
use crate::primitives::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::primitives::plain;
use crate::wheel::{Geometry, Wheel};
use std::collections::VecDeque;

/// What an upkeep needs to know of its cache.
pub struct UpkeepSettings {
    pub geometry: plain::Arc<Geometry>,
    pub eviction: Eviction,
    pub weighs: bool,
    /// When the cache was built.
    pub built: Timestamp,
}

impl UpkeepSettings {
    pub fn new(config: &Config, built: Timestamp) -> Self {
        let (geometry, eviction) = (config.geometry(), config.eviction.0);
        // Of the thread that builds: one that writes may be bound to a core.
        let _ = stripe_count();
        Self { geometry, eviction, weighs: config.weighs, built }
    }
}

/// How many nodes there are, and their weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub count: u64,
    pub weight: u64,
}

/// The state of the maintenance. The maintenance lock protects it.
pub struct Maintenance {
    pub wheel: Wheel,
    pub policy: Option<Policy>,
    /// In a cache without a policy: see [`count`](Self::count) and [`weight`](Self::weight).
    pub unbounded: Totals,
    /// Whether the cache is gone. No pass runs any more.
    pub ended: bool,
    /// Reads that were drained, and entries that were evicted, in this record period.
    pub reads_in_period: u32,
    pub evictions_in_period: u32,
    /// Victims that the policy has ever named.
    #[cfg(test)]
    pub victims_named: u64,
    /// Dead nodes, the oldest first. The cache still has its counts on them.
    pub dead: VecDeque<Dead>,
    /// The weight of all dead nodes.
    pub unreclaimed_weight: u64,
    /// Yields of writers since nodes were last reclaimed.
    pub yields: u32,
    /// The main region's victim that was prefetched last.
    pub prefetched: NodeId,
    /// Scratch space for the events of one stripe.
    pub events: Vec<u64>,
    /// The sweep that is under way after an `invalidate_all`.
    pub sweep: Option<Sweep>,
    /// The generation up to which everything older is swept.
    pub swept: Generation,
    /// The number of entries for which the index was last found to have the right size.
    pub fitted: Option<u64>,
    /// Scratch space for the ids of one bucket.
    pub ids: Vec<NodeId>,
}

impl Maintenance {
    pub fn new(settings: &UpkeepSettings, capacity: Option<u64>) -> Self {
        // A model's executions must be repeatable, so the seed is fixed.
        let random = || ahash::RandomState::new().hash_one("policy");
        let seed = || if cfg!(cortado_loom) { 0 } else { random() };
        let policy_for = |capacity| Policy::of_kind(settings.eviction, capacity, seed());
        Self {
            wheel: Wheel::new(plain::Arc::clone(&settings.geometry), settings.built),
            policy: capacity.map(policy_for),
            unbounded: Totals::default(),
            ended: false,
            reads_in_period: 0,
            evictions_in_period: 0,
            #[cfg(test)]
            victims_named: 0,
            dead: VecDeque::new(),
            unreclaimed_weight: 0,
            yields: 0,
            prefetched: NodeId::NONE,
            events: Vec::new(),
            sweep: None,
            swept: Generation::FIRST,
            fitted: None,
            ids: Vec::new(),
        }
    }

    /// The number of nodes that the maintenance knows to be in the index.
    pub fn count(&self) -> u64 {
        self.policy.as_ref().map_or(self.unbounded.count, |policy| policy.len() as u64)
    }

    /// Their weight.
    pub fn weight(&self) -> u64 {
        self.policy.as_ref().map_or(self.unbounded.weight, Policy::weight)
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

/// Dead nodes that wait for the same grace period, or for a pass after it.
pub struct Dead {
    pub ids: Vec<NodeId>,
    /// `None` during a pass that adds nodes.
    pub grace: Option<Grace>,
}

/// Reads and writes a word that is an instant.
macro_rules! instants {
    ($word:ident, $set:ident) => {
        pub fn $word(&self) -> Timestamp {
            Timestamp::from_raw(self.$word.load(Ordering::Relaxed))
        }

        pub fn $set(&self, instant: Timestamp) {
            self.$word.store(instant.raw(), Ordering::Relaxed);
        }
    };
}

/// The figures that passes publish. All of them are as of the last pass. They begin a cache line,
/// since every pass writes them.
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
    /// When the epoch was last advanced for this cache.
    last_advance: AtomicU64,
    /// The first grace period that dead nodes, or what the index has retired, wait for;
    /// none if nothing waits.
    grace: AtomicU64,
    /// Dead nodes that the cache still has its count on.
    pub unreclaimed: AtomicUsize,
}

impl Published {
    pub fn new(now: Timestamp) -> Self {
        Self {
            entries: AtomicU64::new(0),
            weight: AtomicU64::new(0),
            swept: AtomicU64::new(Generation::FIRST.raw()),
            next_due: AtomicU64::new(NEVER.raw()),
            last_pass: AtomicU64::new(now.raw()),
            last_advance: AtomicU64::new(now.raw()),
            grace: AtomicU64::new(Grace::to_word(None)),
            unreclaimed: AtomicUsize::new(0),
        }
    }

    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    pub fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    pub fn unreclaimed(&self) -> usize {
        self.unreclaimed.load(Ordering::Relaxed)
    }

    /// Acquire pairs with the Release in [`set_swept`](Self::set_swept).
    pub fn swept(&self) -> Generation {
        Generation::from_raw(self.swept.load(Ordering::Acquire))
    }

    pub fn set_swept(&self, swept: Generation) {
        self.swept.store(swept.raw(), Ordering::Release);
    }

    instants!(next_due, set_next_due);
    instants!(last_pass, set_last_pass);
    instants!(last_advance, set_last_advance);

    pub fn grace(&self) -> Option<Grace> {
        Grace::from_word(self.grace.load(Ordering::Relaxed))
    }

    pub fn set_grace(&self, grace: Option<Grace>) {
        self.grace.store(Grace::to_word(grace), Ordering::Relaxed);
    }
}
