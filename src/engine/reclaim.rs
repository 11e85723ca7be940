//! The pass's last part: letting go of nodes that nobody can see any more.
//!
//! Dead nodes go to the epoch in batches. After the grace period no guard of a reader protects
//! them, so the counts are all that is left. A node on which the cache has the only one is the
//! pass's alone: if key and value have nothing to drop it is free at once, else whoever ran the
//! pass drops them after the lock.

use super::budget::Budget;
use super::core::{Core, PASS_DELAY};
use super::maintenance::Work;
use crate::node::{Meta, life};
use crate::pool::Surplus;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, seeded};
use std::collections::VecDeque;

/// A pass gives up about this many dead nodes, more by less than a batch, ...
const DROPS: usize = 512;
/// ... and this many while more than [`BACKLOG`] wait, as after a guard was held for long, or after
/// a sweep of many. Those who write meanwhile make as many dead again.
const MANY_DROPS: usize = 2048;
const BACKLOG: usize = 1 << 16;
/// How many dead nodes the asking for their lines is ahead.
const AHEAD: usize = 16;
/// Dead nodes are handed to the epoch in batches of this many,
const RETIRE_BATCH: usize = 256;
/// or of this share of the entries, or of the capacity by weight,
const RETIRE_SHARE: u64 = 64;
/// or when the last batch was this long ago,
const RETIRE_DELAY: u64 = 1_000_000;
/// or so many passes, whatever the clock does. For each batch costs the epoch two kilobytes,
/// however small it is, as long as some thread that is off its core holds it up: a batch at the end
/// of every pass took up to 17 MB for 70,000 nodes, more than the nodes themselves.
const RETIRE_PASSES: u32 = 16;

/// More dead nodes than the cache has entries, and this many, wait only where a guard is held for
/// long.
const HELD_UP: u64 = 1024;

/// How long, without a scheduler, the dead wait for a pass that others have no need of. Not less:
/// where the clock is that of a simulation, every operation may be milliseconds after the last.
const ATTENTION: u64 = 16_000_000;

/// Free nodes that a pass of a caller's looks at to give memory back, ...
const TRIM_IN_PASSING: usize = 128;
/// ... and any other.
const TRIM: usize = 1024;

/// Dead nodes that the epoch was told of.
pub struct Batch {
    ids: Vec<u32>,
    /// Whether every guard of that time is gone.
    is_over: Arc<AtomicBool>,
}

/// Dead nodes that are not yet handed to the epoch.
pub struct Dead {
    ids: Vec<u32>,
    weight: u64,
    /// How many of them are counted as undropped.
    counted: usize,
    /// Passes that have kept them back, and when those before them were handed over.
    passes: u32,
    since: u64,
}

impl Batch {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

impl Dead {
    pub fn new(now: u64) -> Self {
        Self { ids: Vec::new(), weight: 0, counted: 0, passes: 0, since: now }
    }
}

impl Work<'_> {
    /// The node is to be handed to the epoch.
    pub(super) fn dead(&mut self, id: u32, meta: &Meta) {
        let dead = &mut self.state.dead;
        if dead.ids.capacity() == 0 {
            // At once: to grow it later may wait for a thread that lost its core inside the
            // allocator.
            dead.ids.reserve_exact(RETIRE_BATCH);
        }
        dead.ids.push(id);
        dead.weight += u64::from(meta.weight());
        if dead.ids.len() >= RETIRE_BATCH {
            self.retire();
        }
    }

    /// The end of a pass that nobody asked for: the dead may wait for more of them, within limits.
    /// If they do, whoever operates on the cache after that, or the scheduler, takes care of
    /// them.
    pub(super) fn retire_in_time(&mut self) {
        let dead = &mut self.state.dead;
        if dead.ids.is_empty() {
            return;
        }
        let late = self.now.abs_diff(dead.since) >= RETIRE_DELAY || dead.passes >= RETIRE_PASSES;
        // While a guard holds back more than the cache holds, small batches release nothing sooner,
        // and each takes the epoch a record of two kilobytes and a step when the guard is
        // gone.
        let held_up =
            self.core.undropped.load(Ordering::Relaxed) as u64 > self.state.count + HELD_UP;
        let many = !held_up
            && (dead.ids.len() as u64 > self.state.count / RETIRE_SHARE
                || dead.weight > self.core.max_capacity / RETIRE_SHARE);
        if late || many {
            return self.retire();
        }
        dead.passes += 1;
        self.count_dead();
        self.core.wake_within(PASS_DELAY);
    }

    /// Hands the dead to the epoch: once every guard of today is gone, their batch is ripe.
    #[inline(never)]
    pub(super) fn retire(&mut self) {
        if self.state.dead.ids.is_empty() {
            return;
        }
        self.count_dead();
        let ids = std::mem::replace(&mut self.state.dead, Dead::new(self.now)).ids;
        let is_over = Arc::new(AtomicBool::new(false));
        self.state.in_grace.push_back(Batch { ids, is_over: Arc::clone(&is_over) });
        let ended = Arc::clone(&self.core.grace_ended);
        // The closure owns all it touches, waits for nobody, and drops no key and no value.
        let end = move || {
            // Release with the acquire in `collect`: what readers did under their guards comes
            // before.
            is_over.store(true, Ordering::Release);
            ended.fetch_add(1, Ordering::Relaxed);
        };
        if seeded("retire-without-grace") {
            return end();
        }
        self.guard.defer(end);
        self.state.spares.retire(self.guard);
        self.retired = true;
    }

    /// Those that died since the last count are undropped.
    fn count_dead(&mut self) {
        let dead = &mut self.state.dead;
        self.core.undropped.fetch_add(dead.ids.len() - dead.counted, Ordering::Relaxed);
        dead.counted = dead.ids.len();
    }
}

impl Core {
    /// Gives memory of free nodes back that were not needed for a while.
    pub(super) fn trim(&self, now: u64, budget: &Budget) -> Surplus {
        // A model has no such while, and one of its own for the rest.
        if cfg!(cortado_loom) {
            return Surplus::None;
        }
        self.pool.trim(now, if budget.is_of_caller() { TRIM_IN_PASSING } else { TRIM })
    }

    /// Whether something waits for the end of its grace period, or has been found by no pass since.
    pub(super) fn waits_for_grace(&self) -> bool {
        self.undropped.load(Ordering::Relaxed) > 0 || self.index.outgrown() > 0
    }

    /// While nodes wait for their grace period and there is no scheduler to look after them, an
    /// operation does now and then, be it a read.
    pub(super) fn attend_to_grace(&self, now: u64) {
        // A model's clock stands.
        if !cfg!(cortado_loom) && !self.scheduled && self.waits_for_grace() {
            self.pass_by(now.saturating_add(ATTENTION));
        }
    }

    /// Whether batches have come through their grace period and were not collected. A hint: counted
    /// after the end was marked, by whichever thread it ends on.
    pub(super) fn is_grace_over(&self) -> bool {
        self.grace_ended.load(Ordering::Relaxed) > 0
    }

    /// Gives up the cache's count on nodes whose grace period is over, as many as a pass may drop,
    /// the oldest first. (A thread that lost its core before it flushed may keep an older
    /// batch.) True if there are more.
    pub(super) fn collect(&self, in_grace: &mut VecDeque<Batch>) -> bool {
        if !self.is_grace_over() {
            // The usual case, without a look at each.
            return false;
        }
        let behind = self.undropped.load(Ordering::Relaxed) > BACKLOG;
        let most = if behind { MANY_DROPS } else { DROPS };
        let mut given_up = 0;
        while given_up < most
            && let Some(at) = in_grace.iter().position(Batch::is_over)
            && let Some(Batch { ids: mut batch, .. }) = in_grace.remove(at)
        {
            self.grace_ended.fetch_sub(1, Ordering::Relaxed);
            let count = batch.len();
            given_up += count;
            self.give_up(&mut batch);
            if self.pool.needs_drop() {
                self.doomed.push(batch);
            } else {
                self.pool.free_plain(&batch);
            }
            self.undropped.fetch_sub(count, Ordering::Relaxed);
        }
        in_grace.iter().any(Batch::is_over)
    }

    /// Gives up the cache's counts on these nodes and leaves those that have no other.
    fn give_up(&self, batch: &mut Vec<u32>) {
        let mut left = 0;
        for at in 0..batch.len() {
            if let Some(&next) = batch.get(at + AHEAD) {
                self.pool.prefetch(next);
            }
            let id = batch[at];
            let meta = self.pool.meta(id);
            meta.clear_life(life::OWNED);
            if meta.release() || seeded("reclaim-under-handles") {
                batch[left] = id;
                left += 1;
            }
        }
        batch.truncate(left);
    }
}
