//! Statistics: counts what a cache does, if the builder asks for it.

mod durations;
#[cfg(feature = "serde")]
mod serial;

pub use durations::Durations;
pub(crate) use durations::Histogram;

use crate::clock::{Nanos, nanos};
use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use crate::primitives::thread_stripe;
use crate::removal::RemovalCause;
use crossbeam_utils::CachePadded;
use std::time::Duration;

const STRIPES: usize = 8;

/// What a cache has done since it was built, and what it has at the moment; see
/// [`Cache::stats`](crate::Cache::stats). If other threads write the counters meanwhile, the
/// counters may be a few operations apart. The page [metrics](crate::guide::metrics) says which to
/// export, and what to alert on.
///
/// ```
/// use cortado::{Cache, Clock, RemovalCause};
/// use std::time::Duration;
///
/// let (clock, hand) = Clock::manual();
/// let cache = Cache::builder()
///     .time_to_live(Duration::from_secs(60))
///     .removal_listener(|_| ())
///     .record_stats(true)
///     .clock(clock)
///     .build();
/// cache.get_with("a", || 1);
/// cache.get("a");
/// cache.optionally_get_with("b", || None);
/// hand.advance(Duration::from_secs(62));
/// cache.run_pending_tasks();
///
/// let stats = cache.stats();
/// assert_eq!((stats.hits, stats.misses, stats.hit_ratio()), (1, 2, 1.0 / 3.0));
/// assert_eq!((stats.loads, stats.load_failures, stats.insertions), (1, 1, 1));
/// assert_eq!((stats.entries, stats.weight), (0, 0));
/// assert_eq!(stats.removed(RemovalCause::Expired), 1);
/// assert_eq!((stats.listener_panics, stats.drop_panics), (0, 0));
/// assert_eq!((stats.pending_notifications, stats.discarded_notifications), (0, 0));
/// assert_eq!(stats.refused_after_close, 0);
/// assert_eq!(stats.expiry_lateness().max(), Duration::from_secs(2));
/// assert_eq!(stats.load_times().count(), 2);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Lookups (`get` and the like) that found a living entry.
    pub hits: u64,
    /// Lookups that found no living entry.
    pub misses: u64,
    /// Values that were given to the cache, including those that the cache refused.
    pub insertions: u64,
    /// Loads (`get_with` and the like) that returned a value, and reloads whose loader returned no
    /// error. A bulk load is one load: it counts if its loader returned no error.
    pub loads: u64,
    /// Keys that have a load, a reload or a computation under way. Loads that wait for the
    /// executor count, too. If the number stays up, a loader or a computation hangs. (After an
    /// [`invalidate`](crate::Cache::invalidate) of the key, new callers load anew. Those that wait
    /// already go on waiting.)
    pub loads_under_way: u64,
    /// Loads and reloads that brought nothing: the loader returned `None` or an error, panicked,
    /// or was cancelled. A bulk load has failed if its loader returned an error, of one key or of
    /// all.
    pub load_failures: u64,
    /// Panics of the removal listener, or of the destructors of what it was given. Each was
    /// caught, and the next removal was delivered.
    pub listener_panics: u64,
    /// Panics of the destructors of keys and values during maintenance, which catches them.
    pub drop_panics: u64,
    /// Entries in the cache, as in [`Cache::entry_count`](crate::Cache::entry_count).
    pub entries: u64,
    /// Weight of the entries, as in [`Cache::weighted_size`](crate::Cache::weighted_size).
    pub weight: u64,
    /// Removals of which the listener has not been notified yet. A number that only grows means
    /// that the listener is too slow or stuck.
    pub pending_notifications: u64,
    /// Removed entries whose memory is not free yet: a view or a read may still see them, or the
    /// [`executor`](crate::Builder::executor) has not come to drop them. Those that only handles
    /// keep are not counted, nor those of which the listener is still to be notified. A number
    /// that only grows means that a view is kept, or that the executor is stuck or gone.
    /// Counted also without [`record_stats`](crate::Builder::record_stats), as are the other
    /// numbers of what waits or is under way.
    pub pending_drops: u64,
    /// Removals of which nobody will ever be notified: because too many notifications waited (see
    /// [`Overflow::Discard`](crate::Overflow::Discard)), or because the
    /// [receiver](crate::Removals) was dropped.
    pub discarded_notifications: u64,
    /// Values that a closed cache refused without a notification: the listener put them back, or
    /// the cache has a [receiver](crate::Builder::removals).
    pub refused_after_close: u64,
    /// Reloads of stale entries that have ended: with a new value, with "not modified" or "gone",
    /// or because the entry was another one, or was removed, by then. (If the loader says
    /// "not modified" or "gone" and the entry has expired meanwhile, that counts nowhere.) Counted
    /// also without [`record_stats`](crate::Builder::record_stats), as the next two.
    pub reloads: u64,
    /// Reloads whose loader failed or panicked. The old value stayed.
    pub reload_failures: u64,
    /// Reads that triggered no reload of a stale entry, since too many were under way
    /// ([`refresh_limit`](crate::Builder::refresh_limit)), or too many notifications waiting
    /// ([`notification_limit`](crate::Builder::notification_limit)).
    pub reloads_skipped: u64,
    /// Reloads that are under way, those that wait for the executor included.
    pub reloads_under_way: u64,
    /// Weight of the entries that were evicted for want of room, those that were refused on
    /// arrival among them.
    pub evicted_weight: u64,
    /// Weight of the entries that [`pending_drops`](Self::pending_drops) counts.
    pub pending_drop_weight: u64,
    /// Bytes of the cache's own memory: its nodes, with the parts of keys and values that are not
    /// behind a pointer; the index without its overflow buckets, which are up to a tenth of it;
    /// the policy; the buffers. What the allocator adds is not counted. Free nodes count until
    /// their pages go back to the system. Counted also without
    /// [`record_stats`](crate::Builder::record_stats).
    pub own_bytes: u64,
    removals: [u64; RemovalCause::ALL.len()],
    load_times: Durations,
    lateness: Durations,
}

impl Stats {
    /// The statistics of a cache that keeps no counters: only its size.
    pub(crate) fn of_size(entries: u64, weight: u64) -> Self {
        Self { entries, weight, ..Self::default() }
    }

    /// Statistics each number of which is another one, from 1 on, for tests of what publishes them.
    #[cfg(any(feature = "internals", test))]
    #[doc(hidden)]
    #[must_use]
    pub fn numbered() -> Self {
        let mut last = 0;
        let mut next = || {
            last += 1;
            last
        };
        Self {
            hits: next(),
            misses: next(),
            insertions: next(),
            loads: next(),
            loads_under_way: next(),
            load_failures: next(),
            listener_panics: next(),
            drop_panics: next(),
            entries: next(),
            weight: next(),
            pending_notifications: next(),
            pending_drops: next(),
            discarded_notifications: next(),
            refused_after_close: next(),
            reloads: next(),
            reload_failures: next(),
            reloads_skipped: next(),
            reloads_under_way: next(),
            evicted_weight: next(),
            pending_drop_weight: next(),
            own_bytes: next(),
            removals: std::array::from_fn(|_| next()),
            load_times: Durations::default(),
            lateness: Durations::default(),
        }
    }

    /// Number of values that left with this cause.
    #[must_use]
    pub fn removed(&self, cause: RemovalCause) -> u64 {
        self.removals[cause as usize]
    }

    /// The share of lookups that were hits. 0 before the first lookup.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            lookups => self.hits as f64 / lookups as f64,
        }
    }

    /// How long after their deadlines expired entries were removed. This is how long their memory
    /// was held and the listener waited. Lookups never see an expired entry, however late it is
    /// removed.
    #[must_use]
    pub fn expiry_lateness(&self) -> &Durations {
        &self.lateness
    }

    /// How long loads and reloads took, those that failed among them. Their sum is the time that
    /// was spent in loaders, over all threads.
    #[must_use]
    pub fn load_times(&self) -> &Durations {
        &self.load_times
    }
}

#[derive(Debug, Default)]
struct Stripe {
    hits: AtomicU64,
    misses: AtomicU64,
    insertions: AtomicU64,
    removals: [AtomicU64; RemovalCause::ALL.len()],
}

/// The counters behind [`Stats`], striped so that threads do not share cache lines.
#[derive(Debug, Default)]
pub struct Recorder {
    stripes: [CachePadded<Stripe>; STRIPES],
    loads: AtomicU64,
    load_failures: AtomicU64,
    load_times: Histogram,
    evicted_weight: AtomicU64,
    listener_panics: AtomicU64,
    drop_panics: AtomicU64,
    lateness: Histogram,
}

impl Recorder {
    #[inline]
    fn stripe(&self) -> &Stripe {
        &self.stripes[thread_stripe() % STRIPES]
    }

    #[inline]
    pub fn hit(&self) {
        self.stripe().hits.fetch_add(1, Relaxed);
    }

    #[inline]
    pub fn miss(&self) {
        self.stripe().misses.fetch_add(1, Relaxed);
    }

    pub fn inserted(&self) {
        self.stripe().insertions.fetch_add(1, Relaxed);
    }

    /// Counts a removal of a value of this weight. For an expired value, `late` is the time from
    /// its deadline to its removal.
    pub fn removed(&self, cause: RemovalCause, weight: u32, late: Nanos) {
        self.stripe().removals[cause as usize].fetch_add(1, Relaxed);
        match cause {
            RemovalCause::Expired => self.lateness.record(late),
            RemovalCause::Size => {
                self.evicted_weight.fetch_add(weight.into(), Relaxed);
            }
            RemovalCause::Explicit | RemovalCause::Replaced => {}
        }
    }

    pub fn loaded(&self, time: Duration) {
        self.loads.fetch_add(1, Relaxed);
        self.load_times.record(nanos(time));
    }

    pub fn load_failed(&self, time: Duration) {
        self.load_failures.fetch_add(1, Relaxed);
        self.load_times.record(nanos(time));
    }

    pub fn listener_panicked(&self) {
        self.listener_panics.fetch_add(1, Relaxed);
    }

    pub fn drop_panicked(&self) {
        self.drop_panics.fetch_add(1, Relaxed);
    }

    pub fn snapshot(&self, entries: u64, weight: u64) -> Stats {
        let sum = |counter: fn(&Stripe) -> &AtomicU64| {
            self.stripes.iter().map(|stripe| counter(stripe).load(Relaxed)).sum()
        };
        Stats {
            hits: sum(|s| &s.hits),
            misses: sum(|s| &s.misses),
            insertions: sum(|s| &s.insertions),
            loads: self.loads.load(Relaxed),
            load_failures: self.load_failures.load(Relaxed),
            load_times: self.load_times.snapshot(),
            evicted_weight: self.evicted_weight.load(Relaxed),
            listener_panics: self.listener_panics.load(Relaxed),
            drop_panics: self.drop_panics.load(Relaxed),
            removals: std::array::from_fn(|cause| {
                self.stripes.iter().map(|stripe| stripe.removals[cause].load(Relaxed)).sum()
            }),
            lateness: self.lateness.snapshot(),
            ..Stats::of_size(entries, weight)
        }
    }
}
