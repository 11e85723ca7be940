//! A histogram of durations that many threads record into. It is log-linear, with eight buckets per
//! octave. So a reported figure is at most an eighth above the true one.
//!
//! An existing crate does not fit: HDR histograms take `&mut self` to record, or need a channel to
//! synchronise.

use crate::clock::Nanos;
use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// log2 of the buckets in an octave.
const FINE: u32 = 3;
const BUCKETS: usize = ((64 - FINE as usize) << FINE) + (1 << FINE);

#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
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

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), max: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub fn record(&self, time: Nanos) {
        self.counts[bucket(time.raw())].fetch_add(1, Relaxed);
        self.max.fetch_max(time.raw(), Relaxed);
    }

    pub fn snapshot(&self) -> Lateness {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let count = counts.iter().sum();
        let max = self.max.load(Relaxed);
        let at = |share: f64| {
            let rank = ((count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|&n| {
                seen += n;
                seen >= rank
            });
            Duration::from_nanos(found.map_or(0, |bucket| upper(bucket).min(max)))
        };
        Lateness { count, p50: at(0.5), p99: at(0.99), max: Duration::from_nanos(max) }
    }
}

/// How long after their deadlines expired entries were removed. Percentiles are rounded up, by at
/// most an eighth. The maximum is exact.
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
/// let lateness = cache.stats().expiry_lateness();
/// assert_eq!((lateness.count, lateness.max), (100, Duration::from_secs(99)));
/// assert!(lateness.p50 < lateness.p99);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lateness {
    /// Number of expirations that were recorded.
    pub count: u64,
    /// Half of the expirations were no later than this.
    pub p50: Duration,
    /// 99 % of the expirations were no later than this.
    pub p99: Duration,
    /// No expiration was later than this.
    pub max: Duration,
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
    fn percentiles_of_a_known_sequence() {
        let histogram = Histogram::default();
        assert_eq!(histogram.snapshot(), Lateness::default());
        (1..=1000).for_each(|n| histogram.record(Nanos::from_raw(n * 1000)));
        let lateness = histogram.snapshot();
        assert_eq!(lateness.count, 1000);
        assert_eq!(lateness.max, Duration::from_micros(1000));
        let within = |got: Duration, want: u64| {
            let got = got.as_nanos() as u64;
            got >= want && got <= want + want / 8
        };
        assert!(within(lateness.p50, 500_000), "{lateness:?}");
        assert!(within(lateness.p99, 990_000), "{lateness:?}");
    }
}
