//! The pass's last part: letting go of nodes that no thread can see any more.
//!
//! Dead nodes go to the epoch in batches. After the grace period no guard of a reader protects
//! them, so only counts keep them. A node with no count but the cache's belongs to the pass alone.
//! If its key and value have nothing to drop, the pass frees it at once. Otherwise the thread that
//! ran the pass drops key and value after the lock.

use super::budget::By;
use super::pass::Pass;
use super::run::GRACE_CHECK_DELAY;
use crate::clock::{Nanos, Timestamp};
use crate::engine::core::{Batch, Core, Dead, Maintenance, PASS_DELAY};
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::primitives::atomic::{AtomicBool, Ordering};
use crate::primitives::{Arc, seeded};

/// A pass gives up about this many dead nodes, or as many as it has itself added if these are more;
/// it exceeds the number by less than a batch.
const DROPS: usize = 512;
/// A pass gives up this many while more than [`BACKLOG`] wait, as after a long-held guard or a
/// sweep of many entries. Writers make as many dead nodes again meanwhile.
const MANY_DROPS: usize = 2048;
const BACKLOG: usize = 1 << 16;
/// A batch of this many dead nodes is handed to the epoch at once. Its ids take less than 1,024
/// bytes: glibc's allocator merges all small free blocks whenever it is asked for as much or more.
/// Batches of 256 made writes take 1.05 to 1.18 times as long.
const RETIRE_BATCH: usize = 248;
/// A batch of this share of the entries, or of the capacity by weight, is handed over by the pass.
const RETIRE_SHARE: u64 = 64;
/// Any batch is handed over if the one before was this long ago.
const RETIRE_DELAY: Nanos = Nanos::from_raw(1_000_000);
/// Any batch is handed over after this many passes, whatever the clock does. Batches are few
/// because each costs the epoch two kilobytes, however small it is, as long as a thread that is off
/// its core holds the epoch up. A batch at the end of every pass took up to 17 MB for 70,000 nodes,
/// more than the nodes themselves.
const RETIRE_PASSES: u32 = 16;

/// If dead nodes outnumber the entries by more than this, some thread holds a guard for long.
const HELD_UP: u64 = 1024;

/// Writers yield their cores after passes while so many dead nodes wait. One or two threads on two
/// cores have 200 to 700 on average.
const YIELD_AT: usize = 4096;
/// After so many yields without a reclaimed batch, writers yield no more: a thread that waits for a
/// core would have had it.
const MAX_YIELDS: u32 = 256;

/// A pass of a caller's looks at this many free nodes in order to give memory back.
const CALLER_TRIM: usize = 128;
/// Any other pass looks at this many.
const TRIM: usize = 1024;

impl Pass<'_> {
    /// Adds a dead node to the batch that goes to the epoch next.
    #[inline(always)]
    pub fn push_dead(&mut self, id: NodeId, meta: &Meta) {
        let dead = &mut self.state.dead;
        if dead.ids.capacity() == 0 {
            // Full size at once: growing later may wait for a thread that was preempted inside the
            // allocator.
            dead.ids.reserve_exact(RETIRE_BATCH);
        }
        dead.ids.push(id);
        dead.weight += u64::from(meta.weight());
        if dead.ids.len() >= RETIRE_BATCH {
            self.defer_dead();
        }
    }

    /// Ends a pass that nobody asked for, or one of several: dead nodes may wait, within limits,
    /// until there are more.
    /// The next operation on the cache or the scheduler takes care of them.
    pub fn defer_dead_if_due(&mut self) {
        let dead = &mut self.state.dead;
        if dead.ids.is_empty() {
            return;
        }
        let late = self.now.abs_diff(dead.since) >= RETIRE_DELAY || dead.passes >= RETIRE_PASSES;
        // While a guard holds back more nodes than the cache has, small batches release nothing
        // sooner. Each of them costs the epoch two kilobytes, and a step when the guard is gone.
        let held_up = self.core.upkeep.published.unreclaimed.load(Ordering::Relaxed) as u64
            > self.state.count + HELD_UP;
        // Passes that a caller asked for follow each other, and may be small.
        let many = !held_up
            && !self.budget.is_asked_for()
            && (dead.ids.len() as u64 > self.state.count / RETIRE_SHARE
                || dead.weight > self.core.max_capacity() / RETIRE_SHARE);
        if late || many {
            return self.defer_dead();
        }
        dead.passes += 1;
        self.count_dead();
        self.core.upkeep.wake_within(PASS_DELAY);
    }

    /// Hands the dead nodes to the epoch. When every guard of this moment is gone, their batch is
    /// reclaimable.
    #[inline(never)]
    pub fn defer_dead(&mut self) {
        if self.state.dead.ids.is_empty() {
            return;
        }
        self.count_dead();
        let ids = std::mem::replace(&mut self.state.dead, Dead::new(self.now)).ids;
        let is_over = Arc::new(AtomicBool::new(false));
        self.state.in_grace.push_back(Batch { ids, is_over: Arc::clone(&is_over) });
        let ended = Arc::clone(&self.core.upkeep.grace_ended);
        // The closure owns all that it touches, waits for no thread, and drops no key and no value.
        let end = move || {
            // Release pairs with the acquire in `Batch::is_over`: all that readers did under their
            // guards happens before the batch is reclaimed.
            is_over.store(true, Ordering::Release);
            ended.fetch_add(1, Ordering::Release);
            crate::epoch::note_release();
        };
        if seeded("retire-without-grace") {
            return end();
        }
        self.guard.defer(end);
        self.state.empty_overflows.retire(self.guard);
        self.deferred = true;
    }

    /// Those that died since the last count are unreclaimed.
    fn count_dead(&mut self) {
        let dead = &mut self.state.dead;
        self.core
            .upkeep
            .published
            .unreclaimed
            .fetch_add(dead.ids.len() - dead.counted, Ordering::Relaxed);
        dead.counted = dead.ids.len();
    }
}

impl Core {
    /// Gives back memory of free nodes that are many. Returns whether there is more of it.
    pub fn trim(&self, run_by: By) -> bool {
        // The pool has models of its own.
        if cfg!(cortado_loom) {
            return false;
        }
        self.pool.trim(if run_by == By::Caller { CALLER_TRIM } else { TRIM })
    }

    /// Whether more nodes are free than the pool keeps at hand.
    pub fn has_surplus(&self) -> bool {
        !cfg!(cortado_loom) && self.pool.has_surplus()
    }

    /// Passes give the surplus of now back in as many calls of [`trim`](Self::trim), or fewer.
    pub fn most_trims(&self) -> usize {
        self.pool.most_trims(TRIM)
    }

    /// Asks the scheduler, if the cache has one, to give back memory of the nodes that a job has
    /// freed: they became free after the pass that took them out.
    pub fn trim_soon(&self) {
        if self.upkeep.scheduled && self.has_surplus() && !seeded("jobs-leave-their-surplus") {
            self.upkeep.wake_within(PASS_DELAY);
        }
    }

    /// Whether nodes or tables wait for the end of their grace period, or for a pass after it.
    pub fn waits_for_grace(&self) -> bool {
        self.upkeep.published.unreclaimed.load(Ordering::Relaxed) > 0
            || self.index.retired_tables() > 0
    }

    /// Operations (also reads) run a pass now and then while nodes wait for their grace period. A
    /// scheduler comes first as a rule. But the thread may be missing (in a forked child), and the
    /// runtime may have ended.
    pub fn request_grace_check(&self, now: Timestamp) {
        // A model's clock stands still.
        if !cfg!(cortado_loom) && self.waits_for_grace() {
            self.hot.request_pass_by(now.saturating_add(GRACE_CHECK_DELAY));
        }
    }

    /// Whether batches have come through their grace period and were not reclaimed. A hint: the
    /// thread on which a grace period ends marks the batch first and counts it then.
    pub fn is_grace_over(&self) -> bool {
        // Acquire pairs with the release of a count: its batch is seen to be over, too.
        self.upkeep.grace_ended.load(Ordering::Acquire) > 0
    }

    /// Gives up the cache's count on nodes whose grace period is over, the oldest first, as many as
    /// a pass may drop: at least [`DROPS`], and at least as many as this pass has `added`. (A
    /// thread that was preempted before it flushed may hold an older batch back.) True if there are
    /// more.
    pub fn reclaim(&self, state: &mut Maintenance, added: usize) -> bool {
        let behind = self.unreclaimed() > BACKLOG;
        let most = added.max(if behind { MANY_DROPS } else { DROPS });
        let in_grace = &mut state.in_grace;
        let mut given_up = 0;
        // Batches are looked at only while one is over: after a guard was held for long, tens of
        // thousands wait.
        while given_up < most
            && self.is_grace_over()
            && let Some(at) = in_grace.iter().position(Batch::is_over)
            && let Some(Batch { ids: mut batch, .. }) = in_grace.remove(at)
        {
            self.upkeep.grace_ended.fetch_sub(1, Ordering::Relaxed);
            state.yields = 0;
            let count = batch.len();
            given_up += count;
            self.give_up(&mut batch);
            if self.pool.needs_drop() {
                self.drop_later(batch);
            } else {
                self.pool.free_plain(&batch);
            }
            self.upkeep.published.unreclaimed.fetch_sub(count, Ordering::Relaxed);
        }
        self.is_grace_over()
    }

    /// Takes one of the yields that are left, if guards hold many dead nodes back. False if they do
    /// not, or if no yield is left.
    pub fn take_yield(&self, state: &mut Maintenance) -> bool {
        let unreclaimed = self.upkeep.published.unreclaimed.load(Ordering::Relaxed);
        let yields = unreclaimed >= YIELD_AT && state.yields < MAX_YIELDS;
        state.yields += u32::from(yields);
        yields
    }

    /// Gives up the cache's counts on these nodes. Leaves in `batch` the nodes without another
    /// count.
    fn give_up(&self, batch: &mut Vec<NodeId>) {
        batch.retain(|&id| {
            let meta = self.pool.meta(id);
            meta.clear_state(state::OWNED);
            meta.release() || seeded("reclaim-under-handles")
        });
    }
}
