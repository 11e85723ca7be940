//! What operations record for the maintenance: reads that the policy has to hear of, and writes.

use super::core::{Core, Keeper};
use super::pass::{Budget, LEAST_EVICTIONS, PassOrder, QUIET};
use super::upkeep::PASS_DELAY;
use crate::buffer::read::Push;
use crate::buffer::write::Pressure;
use crate::clock::Timestamp;
use crate::engine::event::{Event, Packed};
use crate::links::NodeId;
use crate::node::NO_PERIOD;
use crate::primitives::{seeded, thread};
use std::cell::Cell;

crate::primitives::thread_cells! {
    /// The weight that this thread has written in heavy entries, of whatever cache, and for which
    /// it has not yet made room.
    static OWED: Cell<u64> = Cell::new(0);
}

/// The weight for which this thread owes room. A writer evicts as much, if the cache is beyond its
/// promised bounds. So the excess does not grow with each heavy entry, and writers of light ones do
/// not work for the others.
pub fn take_owed_room() -> u64 {
    OWED.try_with(Cell::take).unwrap_or(0)
}

impl Core {
    /// Whether a pass is due at `now`, or required and not begun.
    #[inline(always)]
    pub fn is_maintenance_due(&self, now: Timestamp) -> bool {
        self.hot.is_pass_due(now) || self.is_pass_required()
    }

    /// Whether a pass is required and not begun.
    #[inline(always)]
    pub fn is_pass_required(&self) -> bool {
        self.status.is_required()
    }

    /// Requires a pass after this call.
    pub fn require_pass(&self) {
        let _ = self.keeper();
        self.status.request();
    }

    /// Requires a pass if a computation that has ended has kept an entry from being evicted.
    pub fn after_computation(&self) {
        if self.flights.has_released() {
            self.require_pass();
        }
    }

    /// Has the scheduler, if the cache has one, run a pass at once.
    pub fn wake_scheduler(&self) {
        self.schedule.wake_within(std::time::Duration::ZERO);
    }

    /// Has the next operation, or the scheduler, hand on the reloads that wait. To be called by who
    /// has not done that, and after a pass, which has met the request.
    pub fn leave_noted_reloads(&self) {
        if self.notices.has_noted_reloads() {
            self.require_pass();
            self.wake_scheduler();
        }
    }

    /// Records a read of the node, unless one is recorded in this period. True if a pass is to
    /// follow.
    #[inline]
    pub fn record_read(&self, id: NodeId) -> bool {
        let period = self.hot.record_period();
        let meta = self.pool.meta(id);
        period != NO_PERIOD && meta.touch(period) && self.keeper().push_read(id)
    }

    /// Records a write. To be called right after the commit, with no lock held. No user code runs
    /// between the commit and this call or inside it (the clock was read before): a panic that kept
    /// the event back would leave a node in the index of which the maintenance never hears.
    #[inline]
    pub fn record_write(&self, event: Packed, weight: u32, now: Timestamp) {
        self.keeper().push_write(event.get(), weight, now);
    }

    /// Records that a read has made a life shorter. A read waits for no lock, so where its stripe
    /// is full the event is spilled. (With 262,144 spilled events, it waits for a pass after all.)
    /// The read requires a pass, and runs it when its guard is gone.
    pub fn record_shortening(&self, id: NodeId, now: Timestamp) {
        let event = Event::Rescheduled(id).pack().get();
        let keeper = self.keeper();
        let refused = match keeper.upkeep.writes.push(event, 0) {
            Ok(Pressure::Low) => return,
            Ok(_) => false,
            Err(_) => !keeper.upkeep.writes.spill.push_weightless(event),
        };
        if refused {
            keeper.pass_now(now, Some(event));
        }
        self.status.request();
        self.schedule.wake_within(PASS_DELAY);
    }
}

impl Keeper<'_> {
    #[inline(never)]
    fn push_read(self, id: NodeId) -> bool {
        match self.upkeep.reads.push(id) {
            Push::Stored => return false,
            Push::HalfFull => {}
            // The record is lost. The next read of the node makes a new one.
            Push::Full => self.core.pool.meta(id).untouch(),
        }
        self.core.status.request();
        true
    }

    fn push_write(self, event: u64, weight: u32, now: Timestamp) {
        if weight > LEAST_EVICTIONS {
            let _ = OWED.try_with(|owed| owed.set(owed.get() + u64::from(weight)));
        }
        let pressure = match self.upkeep.writes.push(event, weight) {
            Ok(pressure) => pressure,
            Err(_) => self.push_again(event, weight, now),
        };
        if pressure > Pressure::Low {
            // The scheduler has to know even if a pass of this thread puts the entry on the wheel:
            // it may be sleeping for longer than the entry is to live.
            self.core.schedule.wake_within(PASS_DELAY);
        }
        match pressure {
            Pressure::Low => {
                // A cache that is only written to must not wait until the batch is full.
                if self.core.hot.is_pass_due(now) {
                    self.core.status.request();
                }
            }
            Pressure::First => {
                let last = self.upkeep.published.last_pass();
                if now.saturating_since(last) >= QUIET {
                    self.core.status.request();
                } else {
                    // Without this, a cache that is only read from now on would keep the event.
                    self.core.hot.request_pass_by(now.saturating_add(QUIET));
                }
            }
            Pressure::Drain => self.core.status.request(),
            Pressure::Urgent if seeded("urgent-writers-go-on") => {}
            Pressure::Urgent => self.lighten(weight, now),
        }
    }

    /// Runs a pass, or lets another thread run one, so that this thread's stripe is within its
    /// weight limit. It may wait for the maintenance lock, and for a preempted writer that has
    /// not yet stored its event. Exception: a pass takes out at most 1,024 events. If the other
    /// stripes hold that many, this stripe stays over its limit by a few events until the next
    /// write.
    #[cold]
    fn lighten(self, weight: u32, now: Timestamp) {
        let writes = &self.upkeep.writes;
        let is_heavy = writes.is_heavy(weight);
        if !is_heavy {
            self.pass_or_yield(now, None);
        }
        if is_heavy || writes.is_urgent() {
            self.pass_now(now, None);
        }
    }

    /// Runs a pass, or yields the caller's core once if another thread has or waits for the
    /// maintenance lock. Returns whether the pass ran.
    ///
    /// With more threads than cores, the yield lets the thread that has the lock finish its pass.
    /// So few events wait, and their cache lines stay cached. With 8 and 16 threads on two
    /// cores this gives 1.6 to 1.7 times as many unique inserts and updates per second. With 1 and
    /// 2 threads it changes nothing. (More yields gained nothing.)
    fn pass_or_yield(self, now: Timestamp, refused: Option<u64>) -> bool {
        let has_run = !self.upkeep.has_lock_waiters()
            && self.pass_if_free(PassOrder { now, refused, budget: Budget::of_writer() });
        if !has_run {
            thread::yield_now();
        }
        has_run
    }

    /// Records an event that the write buffer has refused. A pass makes room, and applies the event
    /// itself: it must not evict for an entry that this event removes. While another thread, which
    /// may have been preempted, has the maintenance lock, the event is spilled instead.
    #[cold]
    fn push_again(self, event: u64, weight: u32, now: Timestamp) -> Pressure {
        let is_heavy = self.upkeep.writes.is_heavy(weight);
        if is_heavy || !self.pass_or_yield(now, Some(event)) {
            if !is_heavy {
                match self.upkeep.writes.push(event, weight) {
                    Ok(pressure) => return pressure,
                    Err(_) if self.spill(event) => return Pressure::Drain,
                    Err(_) => {}
                }
            }
            self.pass_now(now, Some(event));
        }
        // The scheduler may have run, and gone to sleep, before this pass put the entry on the
        // wheel. So this comes after it.
        self.core.schedule.wake_within(PASS_DELAY);
        Pressure::Low
    }

    /// Puts an event that its stripe has refused beside the stripes, if there is room. The index
    /// grows only during maintenance, so pending additions must not exceed the current entry count.
    fn spill(self, event: u64) -> bool {
        let writes = &self.upkeep.writes;
        // Where events may be spilled, an entry weighs 1. Only a new entry needs room.
        let weight = u32::from(matches!(Event::unpack(event), Event::Added(..)));
        writes.spill.weight() < self.upkeep.published.entries() && writes.spill.push(event, weight)
    }
}
