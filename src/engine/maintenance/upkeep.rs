//! The upkeep: the words and buffers of the maintenance, and its state under a lock. What
//! operations record, who runs the next pass, what the last pass found.

use crate::buffer::read::ReadBuffer;
use crate::buffer::ring::MAX_CAPACITY;
use crate::buffer::stripe_count;
use crate::buffer::write::{MAX_BATCH, WriteBuffer, WriteLimits, due_weight};
use crate::clock::{NEVER, Timestamp};
use crate::config::{Config, Eviction};
use crate::epoch::Grace;
use crate::eviction::Policy;
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::node::Generation;
use crate::primitives::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::primitives::guarded::{GuardedU32, GuardedU64};
use crate::primitives::{Mutex, MutexGuard, plain};
use crate::wheel::{Geometry, Wheel};
use std::collections::VecDeque;
use std::time::Duration;

/// The share of the capacity that recorded writes may hold, as the builder's documentation
/// promises: writes that wait for a pass, and writes that a pass has taken out and not yet made
/// room for, in all stripes of the write buffer together.
pub const SLACK_SHARE: u64 = 16;

/// Each stripe of a new cache has room for at least this weight, unless there is only one stripe.
const LEAST_STRIPE_WEIGHT: u64 = 64;

/// The smallest batch that a stripe has memory for. A capacity that is raised later needs it.
const LEAST_ROOM: usize = 16;

/// How long a scheduled cache lets recorded writes wait for a pass.
pub const PASS_DELAY: Duration = Duration::from_millis(2);

/// See the [module](self). What writers only read comes first, on cache lines of its own.
#[repr(C, align(64))]
pub struct Upkeep {
    pub writes: WriteBuffer,
    pub reads: ReadBuffer,
    /// Whether entries may weigh other than 1.
    weighs: bool,
    pub published: Published,
    /// How many threads must have the maintenance lock. Unsynchronised hint. A stale value costs
    /// one superfluous or postponed pass.
    lock_waiters: GuardedU32,
    /// The weight of all dead nodes. Only the holder of the maintenance lock changes it.
    pub unreclaimed_weight: GuardedU64,
    /// The memory of the policy's tables, as of the last pass.
    pub policy_bytes: GuardedU64,
    pub state: Mutex<Maintenance>,
}

/// Splits the promised slack: half for the batch that a pass is applying, half for the stripes.
/// Where a quarter of the slack exceeds what the stripes can hold, writers may spill the other
/// quarter. That requires that every entry weighs 1. Updates and removals need no room; the whole
/// slack bounds the number of those that are spilled.
///
/// A stripe asks for a drain at half of its weight, or when it is full if that is few entries. What
/// comes until a thread has drained it takes the other half. Without that half, threads that write
/// at once would wait for each other.
fn write_limits(weighs: bool, capacity: u64, stripes: usize) -> WriteLimits {
    let stripes = stripes as u64;
    let share = capacity / SLACK_SHARE;
    let quarter = share / 4;
    let spills = !weighs && quarter / stripes >= MAX_CAPACITY as u64;
    let (spilled_events, spilled_weight) = if spills { (share, quarter) } else { (0, 0) };
    let weight = ((share / 2 - spilled_weight) / stripes).max(1);
    let batch = usize::try_from(due_weight(weight)).unwrap_or(MAX_BATCH).min(MAX_BATCH);
    WriteLimits { batch, weight, spilled_events, spilled_weight }
}

/// How many stripes of the write buffer share the slack. In a small cache they are fewer than the
/// hardware threads: 16 stripes would share room for 31 events at a capacity of 1,000, and every
/// write would run a pass.
fn write_stripes(capacity: u64) -> usize {
    let all = stripe_count();
    if cfg!(cortado_loom) {
        return all;
    }
    let filled = capacity / SLACK_SHARE / 2 / LEAST_STRIPE_WEIGHT;
    let filled = usize::try_from(filled).unwrap_or(all).clamp(1, all);
    1 << filled.ilog2()
}

impl Upkeep {
    pub fn new(settings: &UpkeepSettings, capacity: Option<u64>) -> Self {
        let &UpkeepSettings { weighs, built, .. } = settings;
        let most = capacity.unwrap_or(u64::MAX);
        let stripes = write_stripes(most);
        let limits = write_limits(weighs, most, stripes);
        // The capacity may be raised later; the memory of the stripes stays as it is.
        let batch = limits.batch.max(LEAST_ROOM);
        let writes = WriteBuffer::new(stripes, WriteLimits { batch, ..limits });
        writes.set_limits(limits);
        Self {
            reads: ReadBuffer::new(),
            writes,
            weighs,
            state: Mutex::new(Maintenance::new(settings, capacity)),
            lock_waiters: GuardedU32::new(0),
            unreclaimed_weight: GuardedU64::new(0),
            policy_bytes: GuardedU64::new(0),
            published: Published::new(built),
        }
    }

    /// Follows a change of the capacity, with the maintenance lock held.
    pub fn set_capacity(&self, state: &mut Maintenance, capacity: u64) {
        self.writes.set_limits(write_limits(self.weighs, capacity, self.writes.stripes()));
        if let Some(policy) = &mut state.policy {
            policy.set_max_weight(capacity);
        }
    }

    /// The memory of the buffers and of the policy's tables, roughly.
    pub fn bytes(&self) -> usize {
        let policy = self.policy_bytes.load(Ordering::Relaxed) as usize;
        size_of::<Self>() + self.reads.bytes() + self.writes.bytes() + policy
    }

    /// The maintenance lock, for a caller that must have it.
    pub fn lock(&self) -> MutexGuard<'_, Maintenance> {
        self.lock_waiters.fetch_add(1, Ordering::Relaxed);
        let state = self.state.lock();
        self.lock_waiters.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Whether a thread waits for the maintenance lock, as a rule to run a pass. Other threads
    /// leave the lock alone then: the mutex is not fair, and a thread that has just released it
    /// would get it again before the waiting thread wakes up.
    pub fn has_lock_waiters(&self) -> bool {
        self.lock_waiters.load(Ordering::Relaxed) > 0
    }
}

/// What an upkeep needs to know of its cache.
pub struct UpkeepSettings {
    pub geometry: plain::Arc<Geometry>,
    pub eviction: Eviction,
    pub weighs: bool,
    /// When the cache was built.
    pub built: Timestamp,
    /// Of the policy's random numbers.
    pub seed: u64,
}

impl UpkeepSettings {
    pub fn new(config: &Config, built: Timestamp) -> Self {
        let (geometry, eviction) = (config.geometry(), config.eviction.0);
        // Of the thread that builds: one that writes may be bound to a core.
        let _ = stripe_count();
        // Here, since the source of randomness may fail. A model's executions must be repeatable,
        // so the seed is fixed.
        let random = || crate::hash::random_state().hash_one("policy");
        let seed = if cfg!(cortado_loom) { 0 } else { random() };
        Self { geometry, eviction, weighs: config.weighs, built, seed }
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
        let policy_for = |capacity| Policy::of_kind(settings.eviction, capacity, settings.seed);
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
