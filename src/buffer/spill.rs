//! Where events go that a full stripe has no room for while somebody else has the maintenance lock.
//!
//! Who holds that lock may have lost its core, for as long as the system pleases: milliseconds on a
//! busy machine, a tenth of a second in a container that has used up its share. A stripe is full
//! within a tenth of a millisecond, and its writers would have to wait for the lock all that time.
//! As long as there is room here, they go on.
//!
//! Order is not kept: events that concern one node may be drained in any order, as between stripes.
//!
//! # Bound
//! What waits here is so many events at most, and weighs so much. What a pass has taken out counts
//! until it is applied.
//!
//! Pushing waits for nobody but, for some instructions, another who pushes: the queue is made of
//! blocks. The drainer waits for a pusher that is between its steps, as it does in a
//! [ring](super::ring).
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, the drainer | both | crossbeam's | the events |
//! | `account` | pushers before they push, the drainer after it has applied; by read-modify-write only | both | Relaxed | nothing: it is raised before the event can be taken out, so it is never below what the queue holds. A pusher asks for a pass after it has pushed, and the pass that this brings about finds both |

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::queue::SegQueue;
use crate::sync::seeded;

/// More events than this never wait, whatever the limit: 6 MiB of them.
pub const MAX_EVENTS: u64 = if cfg!(cortado_loom) { 4 } else { 1 << 18 };
/// The account is `count << COUNT_SHIFT | weight`.
const COUNT_SHIFT: u32 = 44;
const ONE: u64 = 1 << COUNT_SHIFT;
/// So that one more weight of 32 bits does not reach the count.
const MAX_WEIGHT: u64 = ONE / 2;

#[derive(Debug)]
pub struct Spill {
    events: SegQueue<(u64, u32)>,
    account: AtomicU64,
    most: u64,
    heaviest: u64,
}

impl Spill {
    /// For so many events, which weigh so much together.
    pub fn new(most: u64, heaviest: u64) -> Self {
        Self {
            events: SegQueue::new(),
            account: AtomicU64::new(0),
            most: most.min(MAX_EVENTS),
            heaviest: heaviest.min(MAX_WEIGHT),
        }
    }

    /// Takes the event in, if there is room for it.
    pub fn push(&self, event: u64, weight: u32) -> bool {
        let room = |account: u64| {
            let after = account + (ONE | u64::from(weight));
            let fits = count_of(after) <= self.most && weight_of(after) <= self.heaviest;
            (fits || seeded("write_spill_takes_all")).then_some(after)
        };
        let fits = self.account.fetch_update(Relaxed, Relaxed, room).is_ok();
        if fits {
            self.events.push((event, weight));
        }
        fits
    }

    /// Takes out at most so many events, which stay part of the account. By the drainer.
    pub fn take(&self, quota: usize, events: &mut Vec<u64>) -> Spilled<'_> {
        let mut account = 0;
        while events.len() < quota
            && let Some((event, weight)) = self.events.pop()
        {
            events.push(event);
            account += ONE | u64::from(weight);
        }
        Spilled { spill: self, account }
    }

    /// How many events wait.
    #[inline]
    pub fn count(&self) -> u64 {
        count_of(self.account.load(Relaxed))
    }

    /// What they weigh.
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

/// What was taken out but is still part of the account.
pub struct Spilled<'a> {
    spill: &'a Spill,
    account: u64,
}

impl Spilled<'_> {
    /// Takes it off the account, and says whether there is more.
    pub fn settle(&mut self) -> bool {
        let taken = std::mem::take(&mut self.account);
        let more = self.spill.account.fetch_sub(taken, Relaxed) != taken;
        more && !seeded("write_spill_forgets_the_rest")
    }
}

impl Drop for Spilled<'_> {
    /// After a panic of whoever was to deal with it.
    fn drop(&mut self) {
        if self.account != 0 {
            self.settle();
        }
    }
}
