//! What the exporter publishes.

use crate::common::audited::{Audited, audited};
use cortado::metrics::Exporter;
use cortado::{Cache, Clock, RemovalCause, Stats};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps all that is published, by name and labels.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    described: BTreeSet<String>,
    counters: BTreeMap<String, u64>,
    gauges: BTreeMap<String, f64>,
    histograms: BTreeMap<String, Vec<f64>>,
}

struct Metric {
    name: String,
    kept: Kept,
}

fn name_of(key: &Key) -> String {
    let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
    format!("{}{{{}}}", key.name(), labels.collect::<Vec<_>>().join(","))
}

impl Kept {
    fn metric(&self, key: &Key) -> Arc<Metric> {
        Arc::new(Metric { name: name_of(key), kept: self.clone() })
    }

    fn counter(&self, name: &str) -> u64 {
        self.0.lock().unwrap().counters[name]
    }

    fn gauge(&self, name: &str) -> f64 {
        self.0.lock().unwrap().gauges[name]
    }

    fn histogram(&self, name: &str) -> Vec<f64> {
        self.0.lock().unwrap().histograms.get(name).cloned().unwrap_or_default()
    }

    /// Publishes to this recorder.
    fn publish(&self, exporter: &mut Exporter, stats: &Stats) {
        metrics::with_local_recorder(self, || exporter.publish(stats));
    }
}

impl CounterFn for Metric {
    fn increment(&self, by: u64) {
        panic!("{} grew by {by}, but counts are absolute", self.name);
    }

    fn absolute(&self, value: u64) {
        self.kept.0.lock().unwrap().counters.insert(self.name.clone(), value);
    }
}

impl GaugeFn for Metric {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}
    fn set(&self, value: f64) {
        self.kept.0.lock().unwrap().gauges.insert(self.name.clone(), value);
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        let mut state = self.kept.0.lock().unwrap();
        state.histograms.entry(self.name.clone()).or_default().push(value);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.lock().unwrap().described.insert(name.as_str().to_owned());
    }
    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.lock().unwrap().described.insert(name.as_str().to_owned());
    }
    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.lock().unwrap().described.insert(name.as_str().to_owned());
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.metric(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.metric(key))
    }
}

fn exporter(kept: &Kept) -> Exporter {
    metrics::with_local_recorder(kept, || Exporter::new("pages"))
}

#[test]
fn counters_and_gauges_have_the_numbers_of_the_statistics() {
    let kept = Kept::default();
    let mut exporter = exporter(&kept);
    let cache: Audited<u32, u32> = audited(
        Cache::builder().max_capacity(10).weigher(|_, weight| *weight).record_stats(true).build(),
    );
    cache.insert(1, 3);
    cache.insert(2, 4);
    cache.insert(3, 11);
    cache.get(&1);
    cache.get(&9);
    cache.remove(&2);
    cache.get_with(4, || 2);
    cache.run_pending_tasks();
    cache.insert(6, 6);
    assert_eq!(cache.optionally_get_with(5, || None), None);
    cache.run_pending_tasks();
    kept.publish(&mut exporter, &cache.stats());
    for (name, value) in [
        ("cortado.lookups{cache.name=pages,result=hit}", 1),
        ("cortado.lookups{cache.name=pages,result=miss}", 3),
        ("cortado.insertions{cache.name=pages}", 5),
        ("cortado.removals{cache.name=pages,cause=explicit}", 1),
        ("cortado.removals{cache.name=pages,cause=size}", 2),
        ("cortado.removals{cache.name=pages,cause=expired}", 0),
        // One was too heavy for the cache; three entries of 11 together had no room.
        ("cortado.evicted_weight{cache.name=pages}", 11 + 11 - cache.weighted_size()),
        ("cortado.loads{cache.name=pages,result=success}", 1),
        ("cortado.loads{cache.name=pages,result=failure}", 1),
    ] {
        assert_eq!(kept.counter(name), value, "{name}");
    }
    assert_eq!(kept.gauge("cortado.entries{cache.name=pages}"), 2.0);
    assert_eq!(kept.gauge("cortado.weight{cache.name=pages}"), cache.weighted_size() as f64);
    assert!(kept.gauge("cortado.memory{cache.name=pages}") > 1_000.0);
    assert_eq!(kept.histogram("cortado.load.duration{cache.name=pages}").len(), 2);
}

/// Each number of the statistics is published, as what it is.
#[test]
fn each_number_has_its_metric() {
    let kept = Kept::default();
    let mut exporter = exporter(&kept);
    let stats = Stats::numbered();
    kept.publish(&mut exporter, &stats);
    let removed = |cause| stats.removed(cause);
    let expected = [
        ("cortado.pending_drops{}", stats.pending_drops),
        ("cortado.pending_drop_weight{}", stats.pending_drop_weight),
        ("cortado.entries{}", stats.entries),
        ("cortado.evicted_weight{}", stats.evicted_weight),
        ("cortado.refused_insertions{}", stats.refused_after_close),
        ("cortado.insertions{}", stats.insertions),
        ("cortado.active_loads{}", stats.loads_under_way),
        ("cortado.loads{result=failure}", stats.load_failures),
        ("cortado.loads{result=success}", stats.loads),
        ("cortado.lookups{result=hit}", stats.hits),
        ("cortado.lookups{result=miss}", stats.misses),
        ("cortado.memory{}", stats.own_bytes),
        ("cortado.discarded_notifications{}", stats.discarded_notifications),
        ("cortado.pending_notifications{}", stats.pending_notifications),
        ("cortado.panics{source=drop}", stats.drop_panics),
        ("cortado.panics{source=listener}", stats.listener_panics),
        ("cortado.active_reloads{}", stats.reloads_under_way),
        ("cortado.skipped_reloads{}", stats.reloads_skipped),
        ("cortado.reloads{result=failure}", stats.reload_failures),
        ("cortado.reloads{result=success}", stats.reloads),
        ("cortado.removals{cause=expired}", removed(RemovalCause::Expired)),
        ("cortado.removals{cause=explicit}", removed(RemovalCause::Explicit)),
        ("cortado.removals{cause=replaced}", removed(RemovalCause::Replaced)),
        ("cortado.removals{cause=size}", removed(RemovalCause::Size)),
        ("cortado.weight{}", stats.weight),
    ];
    let state = kept.0.lock().unwrap();
    let counters = state.counters.iter().map(|(name, value)| (name, *value));
    let gauges = state.gauges.iter().map(|(name, value)| (name, *value as u64));
    let published: BTreeMap<String, u64> = counters
        .chain(gauges)
        .map(|(name, value)| {
            (name.replace("cache.name=pages,", "").replace("cache.name=pages", ""), value)
        })
        .collect();
    let expected: BTreeMap<String, u64> =
        expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(published, expected);
    let numbers: BTreeSet<u64> = published.into_values().collect();
    assert_eq!(numbers, (1..=25).collect(), "all numbers of the statistics");
}

/// Without `record_stats` there are no durations.
#[test]
fn histograms_need_recorded_statistics() {
    let kept = Kept::default();
    let mut exporter = exporter(&kept);
    let (clock, hand) = Clock::manual();
    let cache: Audited<u32, u32> = audited(Cache::builder().clock(clock).build());
    cache.get_with(1, || 1);
    cache.insert_with_ttl(2, 2, Duration::from_secs(1));
    hand.advance(Duration::from_secs(3));
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 1);
    kept.publish(&mut exporter, &cache.stats());
    assert!(kept.0.lock().unwrap().histograms.is_empty());
    assert_eq!(kept.gauge("cortado.entries{cache.name=pages}"), 1.0);
}

/// Each duration reaches the histogram once, whatever the number of calls.
#[test]
fn histograms_get_what_is_new() {
    let kept = Kept::default();
    let mut exporter = exporter(&kept);
    let (clock, hand) = Clock::manual();
    let cache: Audited<u32, u32> =
        audited(Cache::builder().record_stats(true).clock(clock).build());
    let expire = |key, late: u64| {
        cache.insert_with_ttl(key, 0, Duration::from_secs(1));
        hand.advance(Duration::from_secs(1 + late));
        cache.run_pending_tasks();
    };
    expire(1, 10);
    kept.publish(&mut exporter, &cache.stats());
    kept.publish(&mut exporter, &cache.stats());
    expire(2, 10);
    expire(3, 11);
    expire(4, 100);
    kept.publish(&mut exporter, &cache.stats());
    let late = kept.histogram("cortado.expiry.lateness{cache.name=pages}");
    assert_eq!(late.len(), 4);
    for (seconds, expected) in late.iter().zip([10.0, 10.0, 11.0, 100.0]) {
        assert!((expected..=expected * 1.125).contains(seconds), "{seconds} for {expected}");
    }
}

/// The documentation of `Exporter` lists what is published, and no more.
#[test]
fn all_metrics_are_described_and_documented() {
    let kept = Kept::default();
    let mut exporter = exporter(&kept);
    let (clock, hand) = Clock::manual();
    let cache: Audited<u32, u32> =
        audited(Cache::builder().record_stats(true).clock(clock).build());
    cache.get_with(1, || 1);
    cache.insert_with_ttl(1, 1, Duration::from_secs(1));
    hand.advance(Duration::from_secs(3));
    cache.run_pending_tasks();
    kept.publish(&mut exporter, &cache.stats());
    let state = kept.0.lock().unwrap();
    let published = state.counters.keys().chain(state.gauges.keys()).chain(state.histograms.keys());
    let published: BTreeSet<String> =
        published.map(|name| name.split('{').next().unwrap().to_owned()).collect();
    assert_eq!(published, state.described);
    let source = include_str!("../../src/metrics.rs");
    let rows = source.lines().filter_map(|line| line.strip_prefix("/// | `cortado."));
    let documented: BTreeSet<String> = rows
        .flat_map(|row| {
            let names = row.split('|').next().unwrap().split('`').map(str::to_owned);
            names.filter(|name| !name.trim().is_empty() && name != ", ").collect::<Vec<_>>()
        })
        .map(|name| format!("cortado.{}", name.trim_start_matches("cortado.")))
        .collect();
    assert_eq!(published, documented);
}
