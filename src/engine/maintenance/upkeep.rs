//! The upkeep: the words and buffers of the maintenance, and its state under a lock. What
//! operations record, who runs the next pass, what the last pass found.

use super::state::{Maintenance, Published, UpkeepSettings};
use crate::buffer::read::ReadBuffer;
use crate::buffer::ring::MAX_CAPACITY;
use crate::buffer::stripe_count;
use crate::buffer::write::{MAX_BATCH, WriteBuffer, WriteLimits, due_weight};
use crate::primitives::atomic::Ordering;
use crate::primitives::guarded::GuardedU32;
use crate::primitives::{Mutex, MutexGuard};
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
