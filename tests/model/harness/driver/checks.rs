//! What must hold between operations: the bound, promptness, and everything the cache counts.

use super::{Driver, expect_eq};
use crate::harness::oracle::{NEVER, Oracle, Rec, nanos};
use cortado::RemovalCause;

/// How long writes may wait for the pass that sees to them, by the cache's clock.
const PASS_DELAY: u64 = 1_000_000;

/// Expirations that an operation does in passing, at the least.
const SHARE: usize = 16;

impl Driver {
    /// The bound holds after each operation but for a sixteenth, or one entry that is not applied.
    pub(super) fn check_bound(&self) {
        if let Some(capacity) = self.oracle.config.max_capacity {
            let (weight, most) = (self.oracle.weight(), capacity + (capacity / 16).max(1));
            assert!(weight <= most, "operation {}: {weight} of {capacity}", self.number as isize);
        }
    }

    /// How many entries should have left by now though nobody asked for maintenance.
    pub(super) fn late(&self) -> usize {
        let oracle = &self.oracle;
        let since = |rec: &Rec| oracle.tick_end(oracle.owed_from(rec)).saturating_add(PASS_DELAY);
        let ended = oracle.recs().filter(|rec| !rec.cleared && rec.deadline <= oracle.now);
        ended.filter(|rec| since(rec) <= oracle.now).count()
    }

    /// A cache in use expires entries within the tick, as many at a time as an operation's share of
    /// the maintenance allows.
    pub(super) fn check_prompt(&self, before: usize) {
        let after = self.late();
        assert!(
            after == 0 || after + SHARE <= before,
            "operation {}: {after} of {before} entries that should have left are still there",
            self.number as isize
        );
    }

    /// What must hold when all maintenance is done.
    pub(super) fn check_finished(&mut self) {
        self.check_finished_but_for(Oracle::overdue);
    }

    /// The same, where it is enough if nothing is `overdue`.
    pub(super) fn check_finished_but_for(&mut self, overdue: impl Fn(&Oracle, &Rec) -> bool) {
        self.oracle.was_finished();
        let oracle = &self.oracle;
        let number = self.number as isize;
        if self.computing == 0 {
            for rec in oracle.recs() {
                let now = oracle.now;
                assert!(!overdue(oracle, rec), "operation {number}: still there at {now}: {rec:?}");
            }
        }
        expect_eq!(self, self.cache.entry_count(), oracle.recs().count() as u64, "entry_count");
        let weight = oracle.weight();
        expect_eq!(self, self.cache.weighted_size(), weight, "weighted_size");
        let most = self.cache.policy().max_capacity().unwrap_or(u64::MAX);
        assert!(weight <= most, "operation {number}: {weight} of {most} after maintenance");
        self.check_next_expiration();
        self.check_stats();
    }

    pub(super) fn check_next_expiration(&self) {
        let oracle = &self.oracle;
        let timed = oracle.recs().filter(|rec| rec.deadline != NEVER);
        let Some(earliest) = timed.map(|rec| oracle.owed_from(rec)).min() else { return };
        let next = self.cache.next_expiration().map(nanos);
        let latest = (earliest - oracle.now.min(earliest)).saturating_add(oracle.tick_span());
        assert!(
            next.is_some_and(|next| next <= latest),
            "operation {}: the next expiration is at most {latest} away, not {next:?}",
            self.number as isize
        );
    }

    pub(super) fn check_stats(&self) {
        let stats = self.cache.stats();
        let counts = &self.oracle.counts;
        expect_eq!(self, stats.entries, self.cache.entry_count(), "entries in the statistics");
        if !self.oracle.config.record_stats {
            expect_eq!(self, stats.hits + stats.misses + stats.insertions, 0, "unrecorded");
            return;
        }
        let kept = (stats.hits, stats.misses, stats.insertions, stats.loads, stats.load_failures);
        let expected =
            (counts.hits, counts.misses, counts.insertions, counts.loads, counts.load_failures);
        expect_eq!(self, kept, expected, "hits, misses, insertions, loads, failures");
        let removed = RemovalCause::ALL.map(|cause| stats.removed(cause));
        expect_eq!(self, removed, counts.removed, "removals by cause");
        expect_eq!(self, stats.listener_panics + stats.drop_panics, 0, "panics");
    }
}
