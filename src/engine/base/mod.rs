//! What every room of the engine may use: mechanisms, settings, and the words that every read looks
//! at. No `K` and no `V`.

mod hot;

use self::hot::Hot;
use super::flights::Flights;
use super::reentrancy::{CacheId, Frame, ReentrancyMark, Subject};
use crate::clock::{Ticker, Timestamp};
use crate::config::Config;
use crate::expiration::FixedLifetimes;
use crate::index::{self, Index};
use crate::links::NodeId;
use crate::node::Meta;
use crate::pool::RawPool;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedU64;
use crate::primitives::{Arc, catch_user_panic, seeded};
use crate::stats::Recorder;

/// A key's slot in the index, for a write.
pub type Search<'g> = index::Search<'g, RawPool>;

/// See the [module](self). The fields that reads use come first.
#[repr(C, align(64))]
pub struct Base {
    pub hot: Hot,
    pub index: Index,
    pub ticker: Ticker,
    pub pool: Arc<RawPool>,
    pub flights: Arc<Flights>,
    pub recorder: Option<Box<Recorder>>,
    pub lifetimes: FixedLifetimes,
    /// The maintenance lock orders its changes.
    max_capacity: GuardedU64,
    is_bounded: bool,
}

impl Base {
    pub fn new(config: &Config, ticker: Ticker, pool: Arc<RawPool>, reads_prolong: bool) -> Self {
        Self {
            index: Index::with_capacity(config.initial_capacity),
            lifetimes: FixedLifetimes::new(config.time_to_live, config.time_to_idle),
            flights: Arc::new(Flights::new()),
            recorder: config.record_stats.then(Box::default),
            max_capacity: GuardedU64::new(config.max_capacity.unwrap_or(u64::MAX)),
            is_bounded: config.max_capacity.is_some(),
            hot: Hot::new(reads_prolong),
            ticker,
            pool,
        }
    }

    /// The bound on the weight; `u64::MAX` without one.
    #[inline]
    pub fn max_capacity(&self) -> u64 {
        self.max_capacity.load(Relaxed)
    }

    /// Changes the bound, with the maintenance lock held.
    pub fn set_max_capacity(&self, max_capacity: u64) {
        self.max_capacity.store(max_capacity, Relaxed);
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

    /// Drops the keys and values of nodes without a count.
    pub fn destroy(&self, ids: &[NodeId]) {
        self.pool.destroy_all(ids, |drop_contents| self.note_drop(is_completed(drop_contents)));
    }

    /// Drops what may have the last count on a key and a value.
    pub fn drop_caught<T>(&self, what: T) {
        self.note_drop(is_completed(|| drop(what)));
    }

    fn note_drop(&self, is_completed: bool) {
        if !is_completed && let Some(recorder) = &self.recorder {
            recorder.drop_panicked();
        }
    }
}

/// Runs user code; false if it panicked.
pub fn is_completed(run: impl FnOnce()) -> bool {
    if seeded("panics-are-let-through") {
        run();
        return true;
    }
    catch_user_panic(run).is_some()
}
