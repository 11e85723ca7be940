//! The figures of a second.

use crate::Subject;
use crate::work::{Counts, Meters};
use cortado::RemovalCause;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub struct Second {
    pub at: u64,
    pub operations: u64,
    threads_born: u64,
    pub entries: u64,
    values_alive: i64,
    /// `None` where the system does not say.
    pub resident_kib: Option<u64>,
    /// What it has asked the allocator for.
    heap_kib: u64,
    /// Of the cache's pool, and how many of them have been given back.
    nodes: usize,
    parked: usize,
    /// Of all calls in this second 99.99 % took no longer.
    pub call_micros: u64,
    /// Of all that expired in this second 99 % were removed no later.
    pub late_micros: u64,
    removed: [u64; 4],
    hit_ratio: f64,
}

impl Second {
    pub const HEADER: &str = "seconds,operations,threads_born,entries,values_alive,resident_kib,heap_kib,nodes,parked,\
         call_p9999_us,lateness_p99_us,replaced,explicit,expired,size,hit_ratio";

    pub fn now(since: Duration, cache: &Subject, counts: &Counts, meters: &Meters) -> Self {
        let causes = [
            RemovalCause::Replaced,
            RemovalCause::Explicit,
            RemovalCause::Expired,
            RemovalCause::Size,
        ];
        let (stats, pool) = (cache.stats(), cache.pool());
        let (call_micros, late_micros) = meters.take();
        Self {
            at: since.as_secs(),
            operations: counts.operations.load(Relaxed),
            threads_born: counts.born.load(Relaxed),
            entries: stats.entries,
            values_alive: counts.alive.load(Relaxed),
            resident_kib: resident_kib(),
            heap_kib: crate::heap::kib(),
            nodes: pool.ids().count(),
            parked: pool.parked(),
            call_micros,
            late_micros,
            removed: causes.map(|cause| stats.removed(cause)),
            hit_ratio: stats.hit_ratio(),
        }
    }
}

impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, operations, threads_born, entries, values_alive, .. } = self;
        let Self { heap_kib, nodes, parked, call_micros, late_micros, hit_ratio, .. } = self;
        let resident = self.resident_kib.map_or(String::new(), |kib| kib.to_string());
        let [replaced, explicit, expired, size] = self.removed;
        write!(
            f,
            "{at},{operations},{threads_born},{entries},{values_alive},{resident},{heap_kib},{nodes},{parked},{call_micros},\
             {late_micros},{replaced},{explicit},{expired},{size},{hit_ratio:.3}"
        )
    }
}

/// What the system says that this process occupies, where it does.
fn resident_kib() -> Option<u64> {
    Some(memory_stats::memory_stats()?.physical_mem as u64 / 1024)
}

/// After this, all that a cache needs should be there.
const WARM: usize = 60;

/// How the process has grown since the first minute, in KiB.
pub struct Growth {
    /// From the minute after it to the last, by their medians: a thread that is preempted under
    /// a guard makes the process larger for seconds.
    pub level: u64,
    /// From the end of it to the largest that it ever was.
    pub peak: u64,
}

/// `None` if the process did not live for three minutes, or if the system does not say.
pub fn growth(seconds: &[Second]) -> Option<Growth> {
    let sizes: Vec<u64> = seconds.iter().filter_map(|second| second.resident_kib).collect();
    let later = sizes.get(WARM..).filter(|later| later.len() >= 2 * WARM)?;
    let level = median(&later[later.len() - WARM..]).saturating_sub(median(&later[..WARM]));
    Some(Growth { level, peak: later.iter().max()?.saturating_sub(sizes[WARM - 1]) })
}

fn median(sizes: &[u64]) -> u64 {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes[sizes.len() / 2]
}
