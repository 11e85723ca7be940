//! A histogram of durations that many threads record into. It is log-linear, with eight buckets per
//! octave. So a reported figure is at most an eighth above the true one.
//!
//! An existing crate does not fit: HDR histograms take `&mut self` to record, or need a channel to
//! synchronise.

use crate::clock::Nanos;
use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::Duration;

/// log2 of the buckets in an octave.
const FINE: u32 = 3;
const BUCKETS: usize = ((64 - FINE as usize) << FINE) + (1 << FINE);

/// Its buckets are allocated when it records for the first time.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: OnceLock<Box<[AtomicU64]>>,
    /// The sum in nanoseconds, in two words: a cache may expire millions of entries that are days
    /// late.
    sum: AtomicU64,
    sum_above: AtomicU64,
    max: AtomicU64,
}

fn bucket(value: u64) -> usize {
    let octave = 63 - (value | 1).leading_zeros();
    if octave < FINE {
        return value as usize;
    }
    let fine = (value >> (octave - FINE)) as usize & ((1 << FINE) - 1);
    (((octave - FINE + 1) as usize) << FINE) + fine
}

/// The largest value that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    let octave = (bucket >> FINE) as u32;
    if octave == 0 {
        return bucket as u64;
    }
    let lower = (((1 << FINE) + (bucket & ((1 << FINE) - 1))) as u64) << (octave - 1);
    lower + ((1u64 << (octave - 1)) - 1)
}

impl Histogram {
    pub fn record(&self, time: Nanos) {
        let allocate = || (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        let counts: &[AtomicU64] = self.counts.get_or_init(allocate);
        counts[bucket(time.raw())].fetch_add(1, Relaxed);
        let before = self.sum.fetch_add(time.raw(), Relaxed);
        if before.checked_add(time.raw()).is_none() {
            self.sum_above.fetch_add(1, Relaxed);
        }
        self.max.fetch_max(time.raw(), Relaxed);
    }

    pub fn snapshot(&self) -> Durations {
        let max = Duration::from_nanos(self.max.load(Relaxed));
        let above = u128::from(self.sum_above.load(Relaxed)) << 64;
        let sum = above | u128::from(self.sum.load(Relaxed));
        let sum = Duration::new((sum / 1_000_000_000) as u64, (sum % 1_000_000_000) as u32);
        let counts = self.counts.get().into_iter().flatten().enumerate();
        let counts = counts.map(|(at, count)| (upper(at), count.load(Relaxed)));
        let counts = counts.filter(|(_, count)| *count > 0);
        let buckets = counts.map(|(upper, count)| (Duration::from_nanos(upper), count));
        Durations { max, sum, buckets: buckets.collect() }
    }
}

/// How long something took each time, as a histogram: how late expired entries were removed
/// ([`Stats::expiry_lateness`](super::Stats::expiry_lateness)), how long loads took
/// ([`Stats::load_times`](super::Stats::load_times)).
///
/// It has eight buckets for each doubling of the duration, so a quantile is rounded up by at most
/// an eighth. The maximum and the sum are exact.
///
/// ```
/// use cortado::{Cache, Clock};
/// use std::time::Duration;
///
/// let (clock, hand) = Clock::manual();
/// let cache = Cache::builder().record_stats(true).clock(clock).build();
/// for seconds in 1..=100 {
///     cache.insert_with_ttl(seconds, (), Duration::from_secs(seconds));
/// }
/// hand.advance(Duration::from_secs(100));
/// cache.run_pending_tasks();
/// let lateness = cache.stats().expiry_lateness().clone();
/// assert_eq!((lateness.count(), lateness.max()), (100, Duration::from_secs(99)));
/// assert!(lateness.quantile(0.5) < lateness.quantile(0.99));
/// assert_eq!(lateness.buckets().map(|(_, count)| count).sum::<u64>(), 100);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    max: Duration,
    sum: Duration,
    buckets: Box<[(Duration, u64)]>,
}

impl Durations {
    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// All durations together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The longest duration; zero if none was recorded.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The duration that at least this share (from 0 to 1) of all recorded ones do not exceed,
    /// rounded up to its bucket: `quantile(0.99)` is the 99th percentile. Zero if none was
    /// recorded.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.count() as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |&&(_, count): &&(Duration, u64)| {
            seen += count;
            seen >= rank
        };
        self.buckets.iter().find(reaches).map_or(Duration::ZERO, |(upper, _)| self.max.min(*upper))
    }

    /// The buckets that have any durations, the shortest first: the longest duration that falls
    /// into the bucket, and how many are in it. For an exporter that has histograms.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.buckets.iter().copied()
    }
}

#[cfg(all(test, not(cortado_loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_within_an_eighth() {
        let mut last = 0;
        for shift in 0..64 {
            for offset in [0, 1, 2] {
                let value = (1u64 << shift).saturating_add(offset << shift.max(4) >> 4);
                let b = bucket(value);
                assert!(b < BUCKETS && upper(b) >= value, "{value} in {b}");
                assert!(b == 0 || upper(b - 1) < value, "{value} in {b}");
                assert!(upper(b) - value <= value / 8, "{value} in {b}");
            }
            assert!(bucket(1 << shift) >= last);
            last = bucket(1 << shift);
        }
        assert_eq!(upper(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn sums_of_long_times_are_exact() {
        let histogram = Histogram::default();
        let day = Duration::from_secs(86_400);
        for _ in 0..3 {
            histogram.record(Nanos::from_raw(u64::MAX));
        }
        histogram.record(crate::clock::nanos(day));
        assert_eq!(histogram.snapshot().sum(), Duration::from_nanos(u64::MAX) * 3 + day);
    }

    #[test]
    fn quantiles_of_a_known_sequence() {
        let histogram = Histogram::default();
        assert_eq!(histogram.snapshot(), Durations::default());
        assert_eq!(histogram.snapshot().quantile(0.5), Duration::ZERO);
        (1..=1000).for_each(|n| histogram.record(Nanos::from_raw(n * 1000)));
        let durations = histogram.snapshot();
        assert_eq!((durations.count(), durations.max()), (1000, Duration::from_micros(1000)));
        assert_eq!(durations.sum(), Duration::from_micros(500_500));
        assert_eq!(durations.quantile(1.0), durations.max());
        let within = |got: Duration, want: u64| {
            let got = got.as_nanos() as u64;
            got >= want && got <= want + want / 8
        };
        assert!(within(durations.quantile(0.5), 500_000), "{durations:?}");
        assert!(within(durations.quantile(0.99), 990_000), "{durations:?}");
    }
}
