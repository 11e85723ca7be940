//! What is seen from outside: statistics, metrics, spans.

use crate::support::*;
use cortado_redis::Loaded;
use cortado_redis::metrics::Exporter;
use metrics_exporter_prometheus::PrometheusBuilder;
use std::sync::{Arc, Mutex};
use tracing::span::{Attributes, Id};
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

#[test]
fn both_levels_count() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.record_stats(true));
        cache.load("a", async { Ok::<_, String>("1".to_owned()) }).await.unwrap();
        kept(&cache, "a", "1").await;
        let before = cache.stats();
        for _ in 0..3 {
            get(&cache, "a").await;
        }
        let stats = cache.stats();
        assert_eq!(stats.local.hits - before.local.hits, 3);
        assert_eq!((stats.fetches, stats.exchanges), (before.fetches, before.exchanges));
        assert_eq!((stats.loads, stats.connects, stats.losses), (1, 1, 0));
        let quiet = texts(server.port, |it| it);
        kept(&quiet, "a", "1").await;
        assert_eq!(quiet.stats().local.hits, 0, "they cost a hit something");
    });
}

#[test]
fn an_exporter_gets_both_levels() {
    with_server(async |server| {
        let cache = texts(server.port, |it| it.record_stats(true));
        let failing = cache.load::<_, String, _, _>("a", async { Err("no") }).await;
        assert!(failing.is_err());
        cache.insert("a", "1".to_owned()).await.unwrap();
        kept(&cache, "a", "1").await;

        let recorder = PrometheusBuilder::new().build_recorder();
        let mut exporter = Exporter::new("texts");
        let stats = cache.stats();
        metrics::with_local_recorder(&recorder, || exporter.publish(&stats));
        let text = recorder.handle().render();
        for line in [
            "cortado_redis_loads{cache_name=\"texts\"} 1",
            "cortado_redis_load_failures{cache_name=\"texts\"} 1",
            "cortado_redis_writes{cache_name=\"texts\"} 1",
            "cortado_redis_connects{cache_name=\"texts\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        let exchanges =
            format!("cortado_redis_exchanges{{cache_name=\"texts\"}} {}", stats.exchanges);
        assert!(text.contains(&exchanges), "{exchanges}\n{text}");
        let hits = format!(
            "cortado_lookups{{cache_name=\"texts\",result=\"hit\"}} {}\n",
            stats.local.hits
        );
        assert!(stats.local.hits > 0 && text.contains(&hits), "{hits}\n{text}");
    });
}

/// A span's name, and its parent's.
type Seen = (&'static str, Option<&'static str>);

/// The spans that have begun.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

impl Spans {
    fn taken(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// How often there was such a span since the last call, and nothing but exchanges else.
    fn has_one(&self, name: &'static str) {
        let mut spans = self.taken();
        spans.retain(|(name, _)| *name != "cache.exchange");
        assert_eq!(spans, [(name, Some("request"))]);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if span.metadata().target() == "cortado_redis" {
            let parent = span.parent().map(|parent| parent.name());
            self.0.lock().unwrap().push((span.name(), parent));
        }
    }
}

/// In a process of its own: a load in another test, without a subscriber, could have the spans
/// taken for ones that nobody wants.
#[test]
fn loaders_and_exchanges_have_spans_and_hits_have_none() {
    const TEST: &str = "seen::loaders_and_exchanges_have_spans_and_hits_have_none";
    if !is_child() {
        return again(TEST, "").succeeds();
    }
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    with_server(async |server| {
        let cache = texts(server.port, |it| it.refresh_ahead(ms(3_600_000)));
        let calls = async {
            cache
                .load("a", async { Ok::<_, String>(Loaded::with_ttl("1".to_owned(), ms(60_000))) })
                .await
                .unwrap();
            spans.has_one("cache.load");
            let many = async |_| Ok::<_, String>(vec![("b".to_owned(), "2".to_owned())]);
            cache.load_many(&["b".to_owned()], many).await.unwrap();
            spans.has_one("cache.load_many");
            kept(&cache, "a", "1").await;
            spans.taken();
            get(&cache, "a").await;
            assert_eq!(spans.taken(), []);
            cache.load("a", async { Ok::<_, String>("3".to_owned()) }).await.unwrap();
            until("refreshed", async || cache.stats().refreshes == 1).await;
            spans.has_one("cache.reload");
            spans.taken();
            get(&cache, "other").await;
            assert_eq!(spans.taken(), [("cache.exchange", Some("request"))]);
        };
        calls.instrument(info_span!("request")).await;
    });
}
