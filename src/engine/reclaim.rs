//! The pass's last part: letting go of nodes that nobody can see any more.
//!
//! Dead nodes go to the epoch in batches. After the grace period no guard of a reader protects them, so the
//! counts are all that is left. A node on which the cache has the only one is the pass's alone: if key and
//! value have nothing to drop it is free at once, else whoever ran the pass drops them after the lock.

use super::core::Core;
use super::maintenance::Work;
use crate::node::life;
use crate::sync::atomic::Ordering;
use crate::sync::seeded;

/// A pass gives up about this many dead nodes, more by less than a batch.
const DROPS: usize = 512;
/// Dead nodes are handed to the epoch in batches of this many, and at the end of each pass.
const RETIRE_BATCH: usize = 256;

impl Work<'_> {
    pub(super) fn dead(&mut self, id: u32) {
        self.state.retired.push(id);
        if self.state.retired.len() >= RETIRE_BATCH {
            self.retire();
        }
    }

    /// Hands the dead to the epoch: once every guard of today is gone, their batch is ripe.
    pub(super) fn retire(&mut self) {
        if self.state.retired.is_empty() {
            return;
        }
        let count = self.state.retired.len();
        let batch = std::mem::replace(&mut self.state.retired, Vec::with_capacity(count));
        self.core.undropped.fetch_add(count, Ordering::Relaxed);
        let ripe = crate::sync::Arc::clone(&self.core.ripe);
        // The closure owns all it touches, and drops no key and no value.
        if seeded("retire-without-grace") {
            return ripe.push(batch);
        }
        self.guard.defer(move || ripe.push(batch));
        self.retired = true;
    }
}

impl Core {
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
