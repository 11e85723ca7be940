//! The spill: a queue for the events of a full stripe while another thread holds the maintenance
//! lock.
//!
//! The holder of that lock may be preempted, for as long as the system decides. That is
//! milliseconds on a busy machine, and a tenth of a second in a container that has used up its
//! share of processor time. A stripe fills up within a tenth of a millisecond. Without the spill,
//! its writers would wait for the lock all that time. While the spill has room, they go on.
//!
//! The spill keeps no order: events that concern one node may be drained in any order, as between
//! stripes.
//!
//! # Bound
//! A spill has a limit for the number of its events and a limit for their total weight. Events that
//! a pass has taken out count until they are applied. Events of reads have no weight, and a read
//! must not wait: for them there is room for [`MAX_EVENTS`], whatever the limits. They arise where
//! a hook makes lives shorter.
//!
//! A push waits only for another pusher, and only for some instructions: the queue consists of
//! blocks. The drainer waits for a pusher that is between its steps, as in a [ring](super::ring).
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, the drainer | both | crossbeam's | the events |
//! | `account` | pushers before they push, the drainer after it has applied the events; by read-modify-write only | both | Relaxed | nothing: a pusher raises it before the event can be taken out, so it is never below what the queue holds. A pusher requests a pass after it has pushed, and that pass finds both the account and the event |

use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use crate::primitives::guarded::GuardedU64;
use crate::primitives::queue::SegQueue;
use crate::primitives::seeded;

/// No spill holds more events than this, whatever its limit. They take 6 MiB (24 bytes each).
pub const MAX_EVENTS: u64 = if cfg!(cortado_loom) { 4 } else { 1 << 18 };
/// The count begins at this bit of the account, which is `count << COUNT_SHIFT | weight`.
const COUNT_SHIFT: u32 = 44;
/// This is one event of weight 0 in the account.
const ONE: u64 = 1 << COUNT_SHIFT;
/// No spill holds more weight than this, so that one more weight of 32 bits does not reach the
/// count.
const MAX_WEIGHT: u64 = ONE / 2;

/// An event with its weight.
struct Spilled {
    event: u64,
    weight: u32,
}

/// See the [module](self).
pub struct Spill {
    events: SegQueue<Spilled>,
    account: AtomicU64,
    /// The largest number of events. Like the next word, it orders nothing: a pusher that reads an
    /// old limit stays within that one.
    most: GuardedU64,
    /// The largest total weight.
    heaviest: GuardedU64,
}

impl Spill {
    /// Creates a spill without room.
    pub fn new() -> Self {
        Self {
            events: SegQueue::new(),
            account: AtomicU64::new(0),
            most: GuardedU64::new(0),
            heaviest: GuardedU64::new(0),
        }
    }

    /// Takes at most `most` events with a total weight of at most `heaviest` from now on. What is
    /// pending beyond that stays until it is drained.
    pub fn set_limits(&self, most: u64, heaviest: u64) {
        self.most.store(most.min(MAX_EVENTS), Relaxed);
        self.heaviest.store(heaviest.min(MAX_WEIGHT), Relaxed);
    }

    /// Stores the event if there is room for it. Returns whether it did.
    pub fn push(&self, event: u64, weight: u32) -> bool {
        self.push_within(self.most.load(Relaxed), self.heaviest.load(Relaxed), event, weight)
    }

    /// Stores an event that changes no weight, and whose caller must not wait. There is room for
    /// [`MAX_EVENTS`], whatever the limits. Returns whether it did.
    pub fn push_weightless(&self, event: u64) -> bool {
        self.push_within(MAX_EVENTS, MAX_WEIGHT, event, 0)
    }

    fn push_within(&self, most: u64, heaviest: u64, event: u64, weight: u32) -> bool {
        let room = |account: u64| {
            let after = account + (ONE | u64::from(weight));
            let fits = count_of(after) <= most && weight_of(after) <= heaviest;
            (fits || seeded("write-spill-takes-all")).then_some(after)
        };
        let fits = self.account.fetch_update(Relaxed, Relaxed, room).is_ok();
        if fits {
            self.events.push(Spilled { event, weight });
        }
        fits
    }

    /// Moves events into `events` until it holds `quota` of them or the spill is empty. They stay
    /// part of the account until the caller [releases](Self::release) what this returns. Only the
    /// drainer calls this.
    #[must_use = "the batch is part of the account until it is released"]
    pub fn take_batch(&self, quota: usize, events: &mut Vec<u64>) -> u64 {
        let mut account = 0;
        while events.len() < quota
            && let Some(Spilled { event, weight }) = self.events.pop()
        {
            events.push(event);
            account += ONE | u64::from(weight);
        }
        account
    }

    /// Subtracts a batch from the account. Returns whether more events are pending.
    pub fn release(&self, taken: u64) -> bool {
        let more = self.account.fetch_sub(taken, Relaxed) != taken;
        more && !seeded("write-spill-forgets-the-rest")
    }

    /// How many events are pending.
    #[inline]
    pub fn count(&self) -> usize {
        count_of(self.account.load(Relaxed)) as usize
    }

    /// The total weight of the pending events.
    pub fn weight(&self) -> u64 {
        weight_of(self.account.load(Relaxed))
    }
}

fn count_of(account: u64) -> u64 {
    account >> COUNT_SHIFT
}

fn weight_of(account: u64) -> u64 {
    account & (ONE - 1)
}
