//! The pass's last part: letting go of nodes that nobody can see any more.
//!
//! Dead nodes go to the epoch in batches. After the grace period no guard of a reader protects them, so the
//! counts are all that is left. A node on which the cache has the only one is the pass's alone: if key and
//! value have nothing to drop it is free at once, else whoever ran the pass drops them after the lock.

use super::budget::Budget;
use super::core::{Core, PASS_DELAY};
use super::maintenance::Work;
use crate::node::life;
use crate::pool::Surplus;
use crate::sync::atomic::Ordering;
use crate::sync::seeded;

/// A pass gives up about this many dead nodes, more by less than a batch.
const DROPS: usize = 512;
/// Dead nodes are handed to the epoch in batches of this many,
const RETIRE_BATCH: usize = 256;
/// or of this share of the entries, or of the capacity by weight,
const RETIRE_SHARE: u64 = 64;
/// or when the last batch was this long ago,
const RETIRE_DELAY: u64 = 1_000_000;
/// or so many passes, whatever the clock does. For each batch costs the epoch two kilobytes, however small it
/// is, as long as some thread that is off its core holds it up: a batch at the end of every pass took up to
/// 17 MB for 70,000 nodes, more than the nodes themselves.
const RETIRE_PASSES: u32 = 16;

/// How long, without a scheduler, the dead wait for a pass that others have no need of. Not less: where the clock
/// is that of a simulation, every operation may be milliseconds after the last.
const ATTENTION: u64 = 16_000_000;

/// Free nodes that a pass of a caller's looks at to give memory back, ...
const TRIM_IN_PASSING: usize = 128;
/// ... and any other.
const TRIM: usize = 1024;

impl Work<'_> {
    /// The node is to be handed to the epoch.
    pub(super) fn dead(&mut self, id: u32) {
        self.state.retired.push(id);
        self.state.retired_weight += u64::from(self.core.pool.meta(id).weight());
        if self.state.retired.len() >= RETIRE_BATCH {
            self.retire();
        }
    }

    /// The end of a pass that nobody asked for: the dead may wait for more of them, within limits. If they do,
    /// whoever operates on the cache after that, or the scheduler, takes care of them.
    pub(super) fn retire_in_time(&mut self) {
        let waiting = self.state.retired.len() as u64;
        if waiting == 0 {
            return;
        }
        let late = self.now.abs_diff(self.state.last_retired) >= RETIRE_DELAY
            || self.state.kept_back >= RETIRE_PASSES;
        let many = waiting > self.state.count / RETIRE_SHARE
            || self.state.retired_weight > self.core.max_capacity / RETIRE_SHARE;
        if late || many {
            return self.retire();
        }
        self.state.kept_back += 1;
        self.count_dead();
        self.core.pass_by(self.now.saturating_add(ATTENTION));
        self.core.wake_within(PASS_DELAY);
    }

    /// Hands the dead to the epoch: once every guard of today is gone, their batch is ripe.
    pub(super) fn retire(&mut self) {
        if self.state.retired.is_empty() {
            return;
        }
        self.count_dead();
        let count = self.state.retired.len();
        let batch = std::mem::replace(&mut self.state.retired, Vec::with_capacity(count));
        (self.state.retired_weight, self.state.kept_back, self.state.counted) = (0, 0, 0);
        self.state.last_retired = self.now;
        let ripe = crate::sync::Arc::clone(&self.core.ripe);
        // The closure owns all it touches, and drops no key and no value.
        if seeded("retire-without-grace") {
            return ripe.push(batch);
        }
        self.guard.defer(move || ripe.push(batch));
        self.retired = true;
    }

    /// Those that died since the last count are undropped.
    fn count_dead(&mut self) {
        let count = self.state.retired.len();
        self.core.undropped.fetch_add(count - self.state.counted, Ordering::Relaxed);
        self.state.counted = count;
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

    /// While nodes wait for their grace period and there is no scheduler to look after them, an operation does
    /// now and then, be it a read.
    pub(super) fn attend_to_grace(&self, now: u64) {
        // A model's clock stands.
        if !cfg!(cortado_loom) && !self.scheduled && self.undropped.load(Ordering::Relaxed) > 0 {
            self.pass_by(now.saturating_add(ATTENTION));
        }
    }

    /// Gives up the cache's count on nodes whose grace period is over, as many as a pass may drop. True
    /// if there are more.
    pub(super) fn collect(&self) -> bool {
        let mut given_up = 0;
        while given_up < DROPS
            && let Some(mut batch) = self.ripe.pop()
        {
            let count = batch.len();
            given_up += count;
            batch.retain(|&id| {
                let meta = self.pool.meta(id);
                meta.clear_life(life::OWNED);
                meta.release() || seeded("reclaim-under-handles")
            });
            if self.pool.needs_drop() {
                self.doomed.push(batch);
            } else {
                self.pool.free_plain(&batch);
            }
            self.undropped.fetch_sub(count, Ordering::Relaxed);
        }
        !self.ripe.is_empty()
    }
}
