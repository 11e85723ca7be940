//! An exporter of [`Stats`] through the crate [metrics](https://docs.rs/metrics), by the feature
//! `metrics`.
//!
//! A cache never calls it: it publishes the statistics that it is given. So it costs a cache
//! nothing, and what a metric shows is as old as the last call.

use crate::removal::RemovalCause;
use crate::stats::{Durations, Stats};
use ::metrics::{
    Label, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Publishes the statistics of one cache as metrics, to the recorder that the program has
/// installed.
///
/// Names have dots, and units are beside them, as OpenTelemetry's conventions ask; there is none
/// for caches yet, so the names begin with `cortado`. (An exporter for Prometheus makes underscores
/// of the dots.) Each metric has the label `cache.name`.
///
/// | metric | kind, unit | further label |
/// |---|---|---|
/// | `cortado.lookups` | counter | `result`: `hit`, `miss` |
/// | `cortado.insertions` | counter | |
/// | `cortado.removals` | counter | `cause`: `expired`, `explicit`, `replaced`, `size` |
/// | `cortado.evicted_weight` | counter | |
/// | `cortado.loads` | counter | `result`: `success`, `failure` |
/// | `cortado.load.duration` | histogram, seconds | |
/// | `cortado.reloads` | counter | `result`: `success`, `failure` |
/// | `cortado.skipped_reloads` | counter | |
/// | `cortado.expiry.lateness` | histogram, seconds | |
/// | `cortado.discarded_notifications` | counter | |
/// | `cortado.refused_insertions` | counter | |
/// | `cortado.panics` | counter | `source`: `listener`, `drop` |
/// | `cortado.entries`, `cortado.weight` | gauge | |
/// | `cortado.memory` | gauge, bytes | |
/// | `cortado.active_loads`, `cortado.active_reloads` | gauge | |
/// | `cortado.pending_notifications` | gauge | |
/// | `cortado.pending_drops`, `cortado.pending_drop_weight` | gauge | |
///
/// [`Stats`] says what each of them counts, and which need
/// [`record_stats`](crate::Builder::record_stats).
///
/// ```
/// use cortado::Cache;
/// use cortado::metrics::Exporter;
///
/// let pages: Cache<&str, u32> = Cache::builder().name("pages").record_stats(true).build();
/// let mut exporter = Exporter::new("pages");
/// pages.insert("/", 1);
/// pages.get("/");
/// exporter.publish(&pages.stats()); // every ten seconds, or when the exporter is asked
/// ```
#[derive(Debug)]
pub struct Exporter {
    name: SharedString,
    load_times: Published,
    lateness: Published,
}

/// How many durations of each length were published.
type Published = BTreeMap<Duration, u64>;

impl Exporter {
    /// Makes an exporter with this value of the label `cache.name`, and describes the metrics to
    /// the recorder. One exporter publishes the statistics of one cache.
    #[must_use]
    pub fn new(cache_name: impl Into<String>) -> Self {
        describe();
        let name = SharedString::from(cache_name.into());
        Self { name, load_times: Published::new(), lateness: Published::new() }
    }

    /// Publishes these statistics, which must be newer than those of the last call.
    ///
    /// Counters get the counts since the cache was built. Histograms get the durations since the
    /// last call, or since the cache was built, each as the longest of its bucket: at most an
    /// eighth longer than it was. That is one call of the recorder for each load and each
    /// expiration.
    pub fn publish(&mut self, stats: &Stats) {
        self.count("cortado.lookups", Some(("result", "hit")), stats.hits);
        self.count("cortado.lookups", Some(("result", "miss")), stats.misses);
        self.count("cortado.insertions", None, stats.insertions);
        for cause in RemovalCause::ALL {
            let count = stats.removed(cause);
            self.count("cortado.removals", Some(("cause", cause.name())), count);
        }
        self.count("cortado.evicted_weight", None, stats.evicted_weight);
        self.count("cortado.loads", Some(("result", "success")), stats.loads);
        self.count("cortado.loads", Some(("result", "failure")), stats.load_failures);
        self.count("cortado.reloads", Some(("result", "success")), stats.reloads);
        self.count("cortado.reloads", Some(("result", "failure")), stats.reload_failures);
        self.count("cortado.skipped_reloads", None, stats.reloads_skipped);
        self.count("cortado.discarded_notifications", None, stats.discarded_notifications);
        self.count("cortado.refused_insertions", None, stats.refused_after_close);
        self.count("cortado.panics", Some(("source", "listener")), stats.listener_panics);
        self.count("cortado.panics", Some(("source", "drop")), stats.drop_panics);
        for (metric, value) in [
            ("cortado.entries", stats.entries),
            ("cortado.weight", stats.weight),
            ("cortado.memory", stats.own_bytes),
            ("cortado.active_loads", stats.loads_under_way),
            ("cortado.active_reloads", stats.reloads_under_way),
            ("cortado.pending_notifications", stats.pending_notifications),
            ("cortado.pending_drops", stats.pending_drops),
            ("cortado.pending_drop_weight", stats.pending_drop_weight),
        ] {
            gauge!(metric, self.labels(None)).set(value as f64);
        }
        let labels = self.labels(None);
        observe("cortado.load.duration", &labels, stats.load_times(), &mut self.load_times);
        observe("cortado.expiry.lateness", &labels, stats.expiry_lateness(), &mut self.lateness);
    }

    fn labels(&self, further: Option<(&'static str, &'static str)>) -> Vec<Label> {
        let further = further.map(|(label, value)| Label::from_static_parts(label, value));
        let name = Label::new("cache.name", self.name.clone());
        [name].into_iter().chain(further).collect()
    }

    fn count(
        &self,
        metric: &'static str,
        further: Option<(&'static str, &'static str)>,
        count: u64,
    ) {
        counter!(metric, self.labels(further)).absolute(count);
    }
}

/// Publishes the durations that were recorded since the last call.
fn observe(
    metric: &'static str,
    labels: &[Label],
    durations: &Durations,
    published: &mut Published,
) {
    let histogram = histogram!(metric, labels.to_vec());
    for (longest, count) in durations.buckets() {
        let before = published.entry(longest).or_default();
        let new = usize::try_from(count.saturating_sub(*before)).unwrap_or(usize::MAX);
        *before = count.max(*before);
        histogram.record_many(longest.as_secs_f64(), new);
    }
}

fn describe() {
    for (metric, unit, text) in [
        ("cortado.lookups", Unit::Count, "Lookups, by whether they found a living entry"),
        ("cortado.insertions", Unit::Count, "Values that were given to the cache"),
        ("cortado.removals", Unit::Count, "Values that left the cache, by cause"),
        ("cortado.evicted_weight", Unit::Count, "Weight of entries that were evicted for room"),
        ("cortado.loads", Unit::Count, "Loads and reloads, by whether the loader succeeded"),
        ("cortado.reloads", Unit::Count, "Reloads of stale entries, by whether they failed"),
        ("cortado.skipped_reloads", Unit::Count, "Reads of stale entries that began no reload"),
        ("cortado.discarded_notifications", Unit::Count, "Removals that nobody will hear of"),
        ("cortado.refused_insertions", Unit::Count, "Values that a closed cache refused"),
        ("cortado.panics", Unit::Count, "Panics of listeners and destructors"),
    ] {
        describe_counter!(metric, unit, text);
    }
    for (metric, unit, text) in [
        ("cortado.entries", Unit::Count, "Entries in the cache"),
        ("cortado.weight", Unit::Count, "Weight of the entries"),
        ("cortado.memory", Unit::Bytes, "Memory of the cache itself"),
        ("cortado.active_loads", Unit::Count, "Loads, reloads and computations under way"),
        ("cortado.active_reloads", Unit::Count, "Reloads under way"),
        ("cortado.pending_notifications", Unit::Count, "Removals that wait for the listener"),
        ("cortado.pending_drops", Unit::Count, "Removed entries that are still in memory"),
        ("cortado.pending_drop_weight", Unit::Count, "Weight of these entries"),
    ] {
        describe_gauge!(metric, unit, text);
    }
    let loads = "How long loads and reloads took";
    describe_histogram!("cortado.load.duration", Unit::Seconds, loads);
    let lateness = "How long after their deadlines expired entries were removed";
    describe_histogram!("cortado.expiry.lateness", Unit::Seconds, lateness);
}
