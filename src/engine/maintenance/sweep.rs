//! The pass's share of growing the index and of sweeping it, and what the pass publishes.

use super::pass::{MAX_DRAINED, Pass, take_unit};
use super::upkeep::Sweep;
use crate::clock::NEVER;
use crate::eviction::Policy;
use crate::hash::Hash32;
use crate::index::moves_for;
use crate::node::NO_PERIOD;
use crate::primitives::atomic::Ordering;
use crate::primitives::seeded;

/// Old buckets of a growing index that a pass moves, beside those that its additions ask for.
const MOVES: usize = 64;
/// The reads that a record period takes, as a share of the entries.
const PERIOD_READS: u64 = 4;
/// The evictions that a record period takes, as a share of the entries.
const PERIOD_EVICTIONS: u64 = 64;
/// A cache with more free room than this share of its capacity does not record reads.
const ROOM: u64 = 8;

impl Pass<'_> {
    /// Starts a larger index if this one is full, or a smaller one if it is nearly empty, moves
    /// some buckets, and frees some retired tables. True if there is more to be done.
    ///
    /// A pass moves as many buckets as keep up with the additions that it drained, and some more.
    #[inline(never)]
    pub fn resize_index(&mut self, additions: usize) -> bool {
        let core = self.core;
        // Spilled additions are entries that later passes drain.
        let entries = self.state.count() + self.upkeep.writes.spill.weight();
        if self.state.fitted == Some(entries) {
            return core.index.free_retired();
        }
        let wanted = usize::try_from(entries).unwrap_or(usize::MAX);
        let mut left = moves_for(if seeded("growth-lags") { 0 } else { additions }) + MOVES;
        let (mut prepares, mut moves, mut size);
        loop {
            size = core.index.buckets(self.guard);
            prepares = self.prepare_index(wanted, additions);
            moves = core.index.help(self.guard, &*core.pool, left, self.budget.patience);
            left = left.saturating_sub(size);
            // After many additions, a small table that was moved at once is too small again.
            if moves || left == 0 || core.index.buckets(self.guard) <= size {
                break;
            }
        }
        self.left.skipped_busy |= moves && core.index.is_held_up(self.guard);
        // A table that a move has just completed may have the wrong size already.
        let is_settled = !prepares
            && !core.index.is_moving(self.guard)
            && (core.index.buckets(self.guard) == size || seeded("the-last-move-fits"));
        self.state.fitted = is_settled.then_some(entries);
        core.index.free_retired() || moves || prepares
    }

    /// Prepares the table to move to, if the index has the wrong size for `wanted` entries. It is
    /// zeroed piece by piece: a piece for each share of the additions. True if pieces are left.
    fn prepare_index(&self, wanted: usize, additions: usize) -> bool {
        let index = &self.core.index;
        let mut pieces = additions.div_ceil(MAX_DRAINED).max(1);
        let mut prepares = true;
        while prepares && pieces > 0 {
            prepares = index.resize_for(self.guard, wanted) && !index.is_moving(self.guard);
            pieces -= 1;
        }
        prepares
    }

    /// Removes what an `invalidate_all` made invisible, within the budget: an entry costs a unit,
    /// and so does a bucket in which there is nothing to remove. True if there is more.
    #[inline(never)]
    pub fn sweep(&mut self) -> bool {
        let core = self.core;
        loop {
            let generation = core.hot.generation();
            let sweep = match self.state.sweep {
                Some(under_way) => under_way,
                None if self.state.swept == generation => return false,
                None => Sweep { generation, cursor: Hash32::FIRST },
            };
            self.state.sweep = Some(sweep);
            if self.budget.units == 0 {
                return true;
            }
            let (mut is_whole, mut is_held, before) = (true, false, self.budget.units);
            let mut ids = std::mem::take(&mut self.state.ids);
            let next = core.index.ids_at(self.guard, &*core.pool, sweep.cursor, &mut ids);
            for id in ids.drain(..) {
                if core.pool.meta(id).generation() != generation.mark() {
                    is_whole = take_unit(&mut self.budget.units);
                    if !is_whole && !seeded("sweeps-finish-their-bucket") {
                        break;
                    }
                    is_held |= self.sweep_one(id).is_err();
                }
            }
            self.state.ids = ids;
            if !is_whole || is_held {
                // A later pass comes back to the bucket.
                return true;
            }
            if self.budget.units == before {
                self.budget.spend(1);
            }
            self.state.sweep = next.map(|cursor| Sweep { cursor, ..sweep });
            if next.is_none() {
                self.state.swept = sweep.generation;
            }
        }
    }

    /// Tells other threads what this pass knows.
    #[inline(never)]
    pub fn publish_progress(&mut self) {
        let core = self.core;
        let published = &self.upkeep.published;
        published.entries.store(self.state.count(), Ordering::Relaxed);
        published.weight.store(self.state.weight(), Ordering::Relaxed);
        let policy_bytes = self.state.policy.as_ref().map_or(0, Policy::bytes);
        self.upkeep.policy_bytes.store(policy_bytes as u64, Ordering::Relaxed);
        published.set_swept(self.state.swept);
        published.set_last_pass(self.now);
        let due = self.state.wheel.next_deadline().unwrap_or(NEVER);
        published.set_next_due(due);
        self.update_record_period();
        if seeded("pass-forgets-wishes") {
            core.hot.clear_pass_requests();
        }
        core.hot.request_pass_by(due);
    }

    /// Begins a new record period if the present one is over. While an eighth of the cache is free,
    /// reads are not recorded: the policy has nothing to choose.
    fn update_record_period(&mut self) {
        let Some(policy) = &self.state.policy else { return };
        let hot = &self.core.hot;
        let period = hot.record_period();
        if policy.weight() < policy.max_weight() - policy.max_weight() / ROOM {
            hot.set_record_period(NO_PERIOD);
        } else if period == NO_PERIOD || self.is_period_over() {
            (self.state.reads_in_period, self.state.evictions_in_period) = (0, 0);
            let next = period.wrapping_add(1);
            hot.set_record_period(if next == NO_PERIOD { 1 } else { next });
        }
    }

    /// A node's reads are recorded once per period. A period lasts until a quarter as many reads
    /// are recorded as there are entries. Hit ratios of replayed traces, recording every first
    /// touch since the last drain / by periods of a sixteenth / by periods of a quarter: oltp at
    /// 5 % of its keys 62.6 / 62.2 / 62.6, p3 17.6 / 17.8 / 17.7, gcc 92.7 / 92.6 / 92.5, orm_night
    /// 86.6 / 89.1 / 88.2. Zipf reads then cost 144 / 95 / 73 ns.
    ///
    /// Those figures are of periods that end by reads alone. A period ends also when a quarter of
    /// the entries were evicted. Otherwise the few keys of a cache that is hardly read would be
    /// recorded once and never again.
    fn is_period_over(&self) -> bool {
        let reads = u64::from(self.state.reads_in_period);
        let evictions = u64::from(self.state.evictions_in_period);
        let quarter = self.state.count() / PERIOD_READS;
        (reads > quarter && evictions > self.state.count() / PERIOD_EVICTIONS)
            || evictions > quarter
    }
}
