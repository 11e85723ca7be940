//! Recounts every invariant; for tests, at quiescence.

use crate::clock::NEVER;
use crate::engine::Engine;
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::macros::ensure;
use crate::node::{GONE, state};
use crate::pool::Timers;
use crate::primitives::atomic::Ordering;
use crate::removal::RemovalCause;
use std::collections::HashSet;

impl<K, V> Engine<K, V> {
    /// Runs all maintenance, then checks that index, wheel, policy, pool, queues and counters
    /// agree.
    ///
    /// # Errors
    /// Says what does not hold.
    pub fn audit(&self) -> Result<(), String> {
        self.run_pending();
        self.recount()
    }

    /// The second half of it.
    ///
    /// # Errors
    /// Says what does not hold.
    pub fn recount(&self) -> Result<(), String> {
        let core = &self.core;
        let guard = crate::epoch::pin();
        let mut state = core.upkeep().state.lock();
        let state = &mut *state;
        ensure!(core.upkeep().writes.is_empty(), "writes are pending");
        ensure!(core.flights.is_empty(), "loads or computations are in progress");
        // The scheduler's thread may be working on both at any time.
        let (notices, scheduled) = (&core.notices, core.is_scheduled());
        let may_wait = scheduled || notices.receiving().is_some();
        ensure!(may_wait || notices.outbox.is_idle(), "removals are not announced");
        ensure!(scheduled || notices.to_drop.is_empty(), "keys and values wait to be dropped");
        let indexed = core.index.validate(&guard, &*core.pool)?;
        ensure!(indexed as u64 == state.count(), "{indexed} indexed, {} counted", state.count());

        let mut ids = Vec::new();
        let mut cursor = Some(Hash32::FIRST);
        while let Some(position) = cursor {
            cursor = core.index.ids_at(&guard, &*core.pool, position, &mut ids);
        }
        let (mut weight, mut timed) = (0, 0);
        for &id in &ids {
            let meta = core.pool.meta(id);
            let wanted = state::KEY | state::VALUE | state::OWNED | state::ADDED | state::LINKED;
            ensure!(meta.state() == wanted, "node {id}: state {:#b}", meta.state());
            ensure!(meta.deadline() != GONE, "node {id} is indexed and gone");
            ensure!(meta.refs() > 0, "node {id} is indexed without a count");
            ensure!(!core.hot.is_cleared(meta), "node {id} should have been swept");
            weight += u64::from(meta.weight());
            timed += usize::from(meta.deadline() != NEVER);
        }
        let dead = state.dead.iter().flat_map(|batch| &batch.ids);
        let dead: u64 = dead.map(|&id| u64::from(core.pool.meta(id).weight())).sum();
        let counted = core.upkeep().unreclaimed_weight.load(Ordering::Relaxed);
        ensure!(dead == counted, "dead nodes weigh {dead}, counted {counted}");
        ensure!(weight == state.weight(), "weight {weight}, counted {}", state.weight());
        ensure!(core.weight() == weight, "published weight {}, is {weight}", core.weight());
        ensure!(core.entries() == state.count(), "published count {}", core.entries());

        let timers = Timers { pool: &core.pool, now: state.wheel.clock() };
        state.wheel.validate(&timers)?;
        // A deadline that was taken away is noticed when it would have come.
        ensure!(state.wheel.len() >= timed, "{} timed, {timed} expected", state.wheel.len());
        ensure!(state.wheel.len() <= ids.len(), "{} timed of {}", state.wheel.len(), ids.len());
        if let Some(policy) = &state.policy {
            policy.validate(&*core.pool)?;
            ensure!(weight <= policy.max_weight(), "{weight} is over {}", policy.max_weight());
        }
        let stats = core.stats();
        let removed: u64 = RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum();
        let (there, given) = (state.count() + removed, stats.insertions);
        ensure!(given == 0 || given == there, "{given} values given, {there} inside or removed");
        self.audit_pool(&ids.into_iter().collect())
    }

    /// Whether a worker may be dropping the node's key and value at this moment. The node has no
    /// count then. The worker's job may have ended since the node was looked at.
    fn may_be_dropping(&self, id: NodeId) -> bool {
        let core = &self.core;
        core.is_scheduled() && (core.notices.handoff.is_out() || core.pool.meta(id).state() == 0)
    }

    /// Every node is in the index, free, waiting for its grace period, or held by a handle.
    ///
    /// # Panics
    /// If a node is free twice.
    fn audit_pool(&self, indexed: &HashSet<NodeId>) -> Result<(), String> {
        let pool = &self.core.pool;
        let mut free = HashSet::new();
        // At once: a list that comes back to a node has no end at which to say so.
        pool.for_each_free(|id| assert!(free.insert(id), "audit: node {id} is free twice"));
        let mut owned = 0;
        for id in pool.ids() {
            let bits = pool.meta(id).state();
            if free.contains(&id) {
                let is_unused = bits == 0 && !indexed.contains(&id);
                ensure!(is_unused, "node {id} is free with life {bits:#b}");
                continue;
            }
            owned += usize::from(bits & state::OWNED != 0 && !indexed.contains(&id));
            let held = pool.meta(id).refs() > 0 || bits == 0 || self.may_be_dropping(id);
            ensure!(held, "node {id} is held by nobody");
        }
        let unreclaimed = self.core.unreclaimed();
        ensure!(owned == unreclaimed, "{owned} nodes wait to be reclaimed, {unreclaimed} counted");
        Ok(())
    }
}
