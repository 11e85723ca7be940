//! Spans of loads and reloads: one for each loader that runs, in the span of the call that asked
//! for the value. A program of their own: a load in a thread without a subscriber, in another test,
//! could have its spans taken for ones that nobody wants, in the whole process.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::{
    Audited, TasksAudited, audited, loading_audited, tasks_audited, tasks_loading_audited,
};
use cortado::{Cache, Clock, Loaded, future};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// What is known of a span of the cache.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    name: &'static str,
    parent: Option<&'static str>,
    cache: String,
    outcome: String,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}").trim_matches('"').to_owned();
        match field.name() {
            "cache.name" => self.cache = text,
            "outcome" => self.outcome = text,
            other => panic!("a field {other}"),
        }
    }
}

/// The spans of the cache that have ended.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

impl Spans {
    fn ended(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        tracing_subscriber::registry().with(self.clone())
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if span.name().starts_with("cache.") {
            let parent = span.parent().map(|parent| parent.name());
            let mut seen = Seen { name: span.name(), parent, ..Seen::default() };
            attributes.record(&mut seen);
            span.extensions_mut().insert(seen);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if let Some(seen) = span.extensions_mut().get_mut::<Seen>() {
            record.record(seen);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let seen = context.span(&id).and_then(|span| span.extensions_mut().remove::<Seen>());
        self.0.lock().unwrap().extend(seen);
    }
}

/// The name of the span in which this runs.
fn current() -> Option<&'static str> {
    tracing::Span::current().metadata().map(|metadata| metadata.name())
}

fn seen(name: &'static str, outcome: &str) -> Seen {
    let (cache, outcome) = ("pages".to_owned(), outcome.to_owned());
    Seen { name, parent: Some("request"), cache, outcome }
}

fn pages() -> Audited<u32, u32> {
    audited(Cache::builder().name("pages").build())
}

#[test]
fn a_load_of_a_thread_has_a_span_and_a_hit_has_none() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(spans.subscriber());
    let cache = pages();
    info_span!("request").in_scope(|| {
        let load = || {
            assert_eq!(current(), Some("cache.load"));
            1
        };
        assert_eq!(cache.get_with(1, load), 1);
        assert_eq!(current(), Some("request"));
        assert_eq!(spans.ended(), [seen("cache.load", "value")]);
        cache.get_with(1, || unreachable!());
        cache.get(&1);
        cache.get(&2);
        cache.insert(3, 3);
        assert_eq!(spans.ended(), []);
        assert_eq!(cache.optionally_get_with(2, || None), None);
        assert_eq!(spans.ended(), [seen("cache.load", "none")]);
        let values = cache.get_many_with([1, 5, 6], |keys| {
            assert_eq!(current(), Some("cache.load_many"));
            keys.iter().map(|key| (**key, 0)).collect::<Vec<_>>()
        });
        assert_eq!(values.len(), 3);
        assert_eq!(spans.ended(), [seen("cache.load_many", "value")]);
    });
}

/// A loader that panics ends its span.
#[test]
fn a_load_that_panics_ends_its_span() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(spans.subscriber());
    let cache = pages();
    info_span!("request").in_scope(|| {
        let load = std::panic::AssertUnwindSafe(|| cache.get_with(1, || panic!("no value")));
        assert!(std::panic::catch_unwind(load).is_err());
        assert_eq!(current(), Some("request"));
    });
    assert_eq!(spans.ended(), [seen("cache.load", "")]);
}

/// The span is the current one in each poll of the loader's future, and in nothing else of the
/// task.
#[test]
fn a_load_of_a_task_has_a_span() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(spans.subscriber());
    let cache: TasksAudited<u32, u32> =
        tasks_audited(future::Cache::builder().name("pages").build());
    let load = async {
        let load = async {
            for _ in 0..3 {
                assert_eq!(current(), Some("cache.load"));
                tokio::task::yield_now().await;
            }
            7
        };
        assert_eq!(cache.get_with(1, load).await, 7);
        assert_eq!(current(), Some("request"));
        cache.get_with(1, async { unreachable!() }).await;
        let load = async |keys: Vec<u32>| {
            assert_eq!(current(), Some("cache.load_many"));
            tokio::task::yield_now().await;
            assert_eq!(current(), Some("cache.load_many"));
            keys.into_iter().map(|key| (key, 0)).collect::<Vec<_>>()
        };
        cache.get_many_with([2, 3], |keys| load(keys.iter().map(|key| **key).collect())).await;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(load.instrument(info_span!("request")));
    assert_eq!(spans.ended(), [seen("cache.load", "value"), seen("cache.load_many", "value")]);
}

/// A load whose task is dropped ends its span, without an outcome.
#[test]
fn a_load_that_is_cancelled_ends_its_span() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(spans.subscriber());
    let cache: TasksAudited<u32, u32> =
        tasks_audited(future::Cache::builder().name("pages").build());
    let mut load = Box::pin(cache.get_with(1, std::future::pending()));
    let first = async { assert!(futures_util::poll!(&mut load).is_pending()) };
    pollster::block_on(first.instrument(info_span!("request")));
    assert_eq!(spans.ended(), []);
    drop(load);
    assert_eq!(spans.ended(), [seen("cache.load", "")]);
}

/// A load by a guard is one from the call that gives the guard to what ends it.
#[test]
fn a_load_by_a_guard_has_a_span() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(spans.subscriber());
    let cache = pages();
    info_span!("request").in_scope(|| {
        let guard = cache.get_value_or_guard(&1).unwrap_err();
        assert_eq!(spans.ended(), []);
        guard.insert(1);
        assert_eq!(spans.ended(), [seen("cache.load", "value")]);
        drop(cache.get_value_or_guard(&2).unwrap_err());
    });
    assert_eq!(spans.ended(), [seen("cache.load", "")]);
}

/// A thread that waits for another one's load has no span.
#[test]
fn a_stored_loader_of_threads_has_one_span_for_all_callers() {
    let spans = Spans::default();
    let dispatch = tracing::Dispatch::new(spans.subscriber());
    let load = |key: u32| {
        std::thread::sleep(Duration::from_millis(20));
        Ok::<_, ()>(Loaded::new(key))
    };
    let cache = loading_audited(Cache::builder().name("pages").build_with_loader(load));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _subscriber = tracing::dispatcher::set_default(&dispatch);
                info_span!("request").in_scope(|| assert_eq!(cache.get(&1), Ok(1)));
            });
        }
    });
    assert_eq!(spans.ended(), [seen("cache.load", "value")]);
    let _subscriber = tracing::dispatcher::set_default(&dispatch);
    let minute = Duration::from_secs(60);
    let limits = cortado::LoadLimits { soft: minute, hard: minute };
    info_span!("request").in_scope(|| assert_eq!(cache.get_within(&2, limits), Ok(2)));
    assert_eq!(spans.ended(), [seen("cache.load", "value")]);
}

/// Waiters have no span: one loader runs.
#[test]
fn who_waits_has_no_span() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(spans.subscriber());
    let cache: TasksAudited<u32, u32> =
        tasks_audited(future::Cache::builder().name("pages").build());
    let load = || {
        cache.get_with(1, async {
            tokio::task::yield_now().await;
            7
        })
    };
    let both = async { tokio::join!(load(), load(), load()) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let values = runtime.block_on(both.instrument(info_span!("request")));
    assert_eq!((values, spans.ended().len()), ((7, 7, 7), 1));
}

/// The loader runs in a task of the executor, and its span is in that of the call.
#[test]
fn a_stored_loader_that_awaits_has_the_span_of_its_caller() {
    let spans = Spans::default();
    let _subscriber = tracing::subscriber::set_default(spans.subscriber());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (clock, hand) = Clock::manual();
    runtime.block_on(async {
        let builder = future::Cache::builder()
            .name("pages")
            .refresh_after_write(Duration::from_secs(60))
            .clock(clock)
            .executor(LocalExecutor);
        let load = async |_: u32| {
            tokio::task::yield_now().await;
            assert!(current().is_some_and(|name| name.starts_with("cache.")));
            Ok::<_, ()>(Loaded::new(1))
        };
        let cache = tasks_loading_audited(builder.build_with_loader(load));
        let request = async {
            assert_eq!(cache.get(&1).await, Ok(1));
            assert_eq!(cache.get(&1).await, Ok(1));
            hand.advance(Duration::from_secs(60));
            assert_eq!(cache.get(&1).await, Ok(1));
        };
        request.instrument(info_span!("request")).await;
        while cache.stats().reloads == 0 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(spans.ended(), [seen("cache.load", "value"), seen("cache.reload", "value")]);
}

/// Runs jobs in tasks of this thread's runtime.
struct LocalExecutor;

impl cortado::Execute for LocalExecutor {
    fn execute(&self, job: cortado::Job) {
        tokio::spawn(async move { job() });
    }
}

/// A reload that a thread's read triggers runs elsewhere, in the span of that read.
#[test]
fn a_reload_has_the_span_of_the_read_that_triggered_it() {
    let spans = Spans::default();
    let dispatch = tracing::Dispatch::new(spans.subscriber());
    let _subscriber = tracing::dispatcher::set_default(&dispatch);
    let (clock, hand) = Clock::manual();
    let (jobs, queue) = std::sync::mpsc::channel::<cortado::Job>();
    let builder = Cache::builder()
        .name("pages")
        .refresh_after_write(Duration::from_secs(60))
        .clock(clock)
        .executor(move |job| jobs.send(job).unwrap());
    let load = |_: u32| {
        assert_eq!(current(), Some("cache.reload"));
        Err("down")
    };
    let cache = loading_audited(builder.build_with_loader(load));
    cache.cache().insert(1, 1);
    hand.advance(Duration::from_secs(60));
    info_span!("request").in_scope(|| assert_eq!(cache.get(&1), Ok(1)));
    let elsewhere = std::thread::spawn(move || {
        let _subscriber = tracing::dispatcher::set_default(&dispatch);
        queue.try_iter().for_each(|job| job());
    });
    elsewhere.join().unwrap();
    assert_eq!(cache.stats().reload_failures, 1);
    assert_eq!(spans.ended(), [seen("cache.reload", "none")]);
}

/// A refresh of a key without an entry loads it elsewhere, in the span of the call.
#[test]
fn a_refresh_of_an_absent_key_has_the_span_of_its_caller() {
    let spans = Spans::default();
    let dispatch = tracing::Dispatch::new(spans.subscriber());
    let _subscriber = tracing::dispatcher::set_default(&dispatch);
    let (jobs, queue) = std::sync::mpsc::channel::<cortado::Job>();
    let builder = Cache::builder()
        .name("pages")
        .refresh_after_write(Duration::from_secs(60))
        .executor(move |job| jobs.send(job).unwrap());
    let cache =
        loading_audited(builder.build_with_loader(|key: u32| Ok::<_, ()>(Loaded::new(key))));
    info_span!("request").in_scope(|| assert!(cache.refresh(&1)));
    let elsewhere = std::thread::spawn(move || {
        let _subscriber = tracing::dispatcher::set_default(&dispatch);
        queue.try_iter().for_each(|job| job());
    });
    elsewhere.join().unwrap();
    assert_eq!(cache.cache().get(&1), Some(1));
    assert_eq!(spans.ended(), [seen("cache.load", "value")]);
}
