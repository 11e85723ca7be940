//! `Core`: the part of a cache that knows no `K` and no `V`, compiled once for all caches.

use super::schedule::Schedule;
use super::upkeep::{Upkeep, UpkeepSettings};
use crate::clock::{NEVER, Ticker, Timestamp};
use crate::config::Config;
use crate::drain::DrainStatus;
use crate::engine::base::Base;
use crate::engine::delivery::{Deliver, Notices};
use crate::list::End;
use crate::node::Generation;
use crate::pool::{RawHandle, RawPool};
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::{Arc, plain::OnceLock};
use crate::scheduler::Alarm;
use crate::stats::Stats;
use std::ops::Deref;
use std::sync::Weak;
use std::time::Duration;

/// The part of a cache that knows no `K` and no `V`: what all rooms use, the queue of notices, and
/// the upkeep, which only the maintenance sees.
///
/// Neither the counts of the core's `Arc` nor the words that every write or pass changes share a
/// cache line with what reads use.
#[repr(C, align(64))]
pub struct Core {
    base: Base,
    pub(super) status: DrainStatus,
    pub(super) schedule: Schedule,
    /// The first write makes it: an empty cache is without its 1.3 KiB.
    upkeep: OnceLock<Box<Upkeep>>,
    upkeep_settings: UpkeepSettings,
    pub notices: Notices,
}

impl Deref for Core {
    type Target = Base;

    #[inline(always)]
    fn deref(&self) -> &Base {
        &self.base
    }
}

/// A cache that has its upkeep.
#[derive(Clone, Copy)]
pub struct Keeper<'a> {
    pub core: &'a Core,
    pub upkeep: &'a Upkeep,
}

/// What a cache is made of, beside its settings.
pub struct Parts {
    pub ticker: Ticker,
    pub pool: Arc<RawPool>,
    pub reads_prolong: bool,
    pub listener: Option<Weak<dyn Deliver>>,
}

impl Core {
    pub fn new(config: &Config, parts: Parts) -> Self {
        let core = Self {
            upkeep_settings: UpkeepSettings::new(config, parts.ticker.now()),
            base: Base::new(config, parts.ticker, parts.pool, parts.reads_prolong),
            status: DrainStatus::default(),
            schedule: Schedule::new(config),
            upkeep: OnceLock::new(),
            notices: Notices::new(config, parts.listener),
        };
        if cfg!(cortado_loom) {
            // loom does not see that std's lock publishes it.
            let _ = core.keeper();
        }
        core
    }

    /// The upkeep, which this makes if need be.
    #[inline(always)]
    pub(super) fn keeper(&self) -> Keeper<'_> {
        let make = || Box::new(Upkeep::new(&self.upkeep_settings, self.capacity()));
        Keeper { core: self, upkeep: self.upkeep.get_or_init(make) }
    }

    /// The upkeep, if there is one by now.
    #[inline(always)]
    pub(super) fn keeper_if_made(&self) -> Option<Keeper<'_>> {
        self.upkeep.get().map(|upkeep| Keeper { core: self, upkeep })
    }

    /// The maintenance lock: no pass runs until it is dropped.
    pub fn lock_maintenance(&self) -> impl Sized {
        self.upkeep.get().map(|upkeep| upkeep.lock())
    }

    /// The number of entries, as of the last pass.
    pub fn entries(&self) -> u64 {
        self.upkeep.get().map_or(0, |upkeep| upkeep.published.entries())
    }

    /// The weight of all entries, as of the last pass.
    pub fn weight(&self) -> u64 {
        self.upkeep.get().map_or(0, |upkeep| upkeep.published.weight())
    }

    /// When a pass has something to expire; `None` if nothing is to expire.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let due = self.upkeep.get().map(|upkeep| upkeep.published.next_due());
        due.filter(|&due| due != NEVER)
    }

    /// How long until a pass has something to expire; `None` if nothing is to expire.
    pub fn next_expiration(&self) -> Option<Duration> {
        self.next_due().map(|due| due.saturating_since(self.ticker.now()).to_duration())
    }

    /// Dead nodes that the cache still has its count on.
    pub fn unreclaimed(&self) -> usize {
        self.upkeep.get().map_or(0, |upkeep| upkeep.published.unreclaimed())
    }

    /// The weight of the dead nodes.
    fn unreclaimed_weight(&self) -> u64 {
        self.upkeep.get().map_or(0, |upkeep| upkeep.unreclaimed_weight.load(Relaxed))
    }

    /// The memory that the cache has in use, beside what keys and values point to.
    fn own_bytes(&self) -> usize {
        let upkeep = self.upkeep.get().map_or(0, |upkeep| upkeep.bytes());
        let index = self.index.bytes(&crate::epoch::pin());
        size_of::<Self>() + self.pool.bytes() + index + upkeep
    }

    /// Writes that are spilled beside the stripes of the write buffer.
    pub fn spilled_writes(&self) -> usize {
        self.upkeep.get().map_or(0, |upkeep| upkeep.writes.spill.count())
    }

    /// How many spilled writes a pass takes out.
    pub fn spill_portion(&self) -> usize {
        self.upkeep.get().map_or(0, |upkeep| upkeep.writes.portion())
    }

    /// The generation up to which everything older is swept.
    fn swept(&self) -> Generation {
        self.upkeep.get().map_or(Generation::FIRST, |upkeep| upkeep.published.swept())
    }

    /// How many generations have begun since the last one up to which everything was swept.
    pub fn unswept(&self) -> u64 {
        self.hot.generation().raw().saturating_sub(self.swept().raw())
    }

    /// Makes every node inserted before this call invisible. Does nothing and returns false if that
    /// would leave more than `unswept` generations to be swept.
    pub fn next_generation(&self, unswept: u64) -> bool {
        self.hot.next_generation(self.swept(), unswept)
    }

    /// At most so many nodes: from the front, those with the best prospects first; from the back,
    /// roughly in the order in which the policy would evict them. None without a bound.
    pub fn ranked(&self, limit: usize, end: End) -> Vec<RawHandle> {
        // The lock keeps the cache from giving up its own counts.
        let Some(state) = self.upkeep.get().map(|upkeep| upkeep.lock()) else { return Vec::new() };
        let nodes = state.policy.iter().flat_map(|policy| policy.ranked(&*self.pool, end));
        nodes.take(limit).map(|id| RawHandle::retain(&self.pool, id)).collect()
    }

    /// Registers the cache with the scheduler.
    pub fn set_alarm(&self, alarm: Box<dyn Alarm>) {
        let _ = self.schedule.alarm.set(alarm);
    }

    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn is_scheduled(&self) -> bool {
        self.schedule.is_scheduled
    }

    pub fn stats(&self) -> Stats {
        let (entries, weight) = (self.entries(), self.weight());
        let mut stats = match &self.recorder {
            Some(recorder) => recorder.snapshot(entries, weight),
            None => Stats::of_size(entries, weight),
        };
        let notices = &self.notices;
        stats.pending_notifications = notices.pending() as u64;
        stats.discarded_notifications = notices.discarded.load(Relaxed);
        stats.refused_after_close = notices.refused_after_close.load(Relaxed);
        stats.pending_drops = (notices.nodes_to_drop() + self.unreclaimed()) as u64;
        stats.pending_drop_weight = notices.weight_to_drop() + self.unreclaimed_weight();
        stats.own_bytes = self.own_bytes() as u64;
        stats.loads_under_way = self.flights.len() as u64;
        stats
    }
}

/// For tests.
#[cfg(any(feature = "internals", cortado_loom))]
impl Core {
    #[cfg(test)]
    pub fn status(&self) -> &DrainStatus {
        &self.status
    }

    pub fn upkeep(&self) -> &Upkeep {
        self.keeper().upkeep
    }
}
