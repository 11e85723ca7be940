//! The state itself, and what belongs to no room.

use super::hot::Hot;
use super::notices::Notices;
use super::state::Maintenance;
use super::upkeep::Upkeep;
use crate::clock::{Ticker, Timestamp};
use crate::config::Config;
use crate::engine::flights::Flights;
use crate::engine::reentrancy::{CacheId, Frame, ReentrancyMark, Subject};
use crate::expiration::FixedLifetimes;
use crate::index::{self, Index};
use crate::links::NodeId;
use crate::node::Meta;
use crate::pool::RawPool;
use crate::primitives::Arc;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedU64;
use crate::stats::{Recorder, Stats};

/// A key's slot in the index, for a write.
pub type Search<'g> = index::Search<'g, RawPool>;

/// The part of a cache that knows no `K` and no `V`; see the [module](super).
///
/// The fields that reads use come first. Neither the counts of the core's `Arc` nor the words that
/// every write or pass changes share a cache line with them.
#[repr(C, align(64))]
pub struct Core {
    pub hot: Hot,
    pub index: Index,
    pub ticker: Ticker,
    pub pool: Arc<RawPool>,
    pub flights: Arc<Flights>,
    pub recorder: Option<Box<Recorder>>,
    pub lifetimes: FixedLifetimes,
    /// The bound on the weight; `u64::MAX` without one. The maintenance lock orders its changes.
    max_capacity: GuardedU64,
    is_bounded: bool,
    pub upkeep: Upkeep,
    pub notices: Notices,
}

impl Core {
    pub fn new(config: &Config, ticker: Ticker, pool: Arc<RawPool>, reads_prolong: bool) -> Self {
        let max_capacity = config.max_capacity.unwrap_or(u64::MAX);
        Self {
            index: Index::with_capacity(config.initial_capacity),
            lifetimes: FixedLifetimes::new(config.time_to_live, config.time_to_idle),
            flights: Arc::new(Flights::new()),
            recorder: config.record_stats.then(Box::default),
            max_capacity: GuardedU64::new(max_capacity),
            is_bounded: config.max_capacity.is_some(),
            hot: Hot::new(reads_prolong),
            upkeep: Upkeep::new(config, max_capacity, ticker.now()),
            notices: Notices::new(config),
            ticker,
            pool,
        }
    }

    /// The bound on the weight; `u64::MAX` without one.
    #[inline]
    pub fn max_capacity(&self) -> u64 {
        self.max_capacity.load(Relaxed)
    }

    /// Changes the bound on the weight, with the maintenance lock held.
    pub fn set_max_capacity(&self, state: &mut Maintenance, max_capacity: u64) {
        self.max_capacity.store(max_capacity, Relaxed);
        self.upkeep.set_capacity(max_capacity);
        if let Some(policy) = &mut state.policy {
            policy.set_max_weight(max_capacity);
        }
    }

    /// The bound on the weight, if there is one.
    pub fn capacity(&self) -> Option<u64> {
        self.is_bounded.then(|| self.max_capacity())
    }

    /// Tells this cache apart from others on the stack of callbacks.
    pub fn id(&self) -> CacheId {
        CacheId::of(self)
    }

    /// Marks a callback about this node's key. The caller has a count on the node, or a guard
    /// protects it.
    #[inline]
    pub fn mark_callback(&self, meta: &Meta, id: NodeId) -> Option<ReentrancyMark> {
        let subject = Subject { cache: self.id(), hash: meta.hash(), id };
        ReentrancyMark::push(Frame::Callback(subject))
    }

    /// Marks a node as unlinked, under its bucket's lock. Where reads prolong nothing, every other
    /// change of a deadline is made under that lock too.
    #[inline(always)]
    pub fn mark_gone(&self, meta: &Meta) -> Timestamp {
        if self.hot.reads_prolong() { meta.mark_gone() } else { meta.mark_gone_alone() }
    }

    pub fn stats(&self) -> Stats {
        let (entries, weight) = (self.entries(), self.weight());
        let mut stats = match &self.recorder {
            Some(recorder) => recorder.snapshot(entries, weight),
            None => Stats::of_size(entries, weight),
        };
        self.notices.add_to(&mut stats);
        stats.pending_drops = (self.notices.nodes_to_drop() + self.unreclaimed()) as u64;
        stats.loads_under_way = self.flights.len() as u64;
        stats
    }
}
