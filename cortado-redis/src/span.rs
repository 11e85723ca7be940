//! Spans of what takes time, by the feature `tracing`: loaders that run, and exchanges with the
//! server. Without the feature, all here is nothing.

use crate::script::Script;
use std::future::Future;

/// What a loader runs for.
#[derive(Clone, Copy)]
pub enum Work {
    Load,
    BulkLoad,
    Reload,
}

/// The loader in a span of its own, within that of the call that asked for the value.
pub fn of_loader<F: Future>(
    work: Work,
    cache: &str,
    loader: F,
) -> impl Future<Output = F::Output> + use<F> {
    #[cfg(feature = "tracing")]
    let loader = {
        macro_rules! span {
            ($name:literal) => {
                tracing::info_span!(target: "cortado_redis", $name, cache.name = cache)
            };
        }
        let span = match work {
            Work::Load => span!("cache.load"),
            Work::BulkLoad => span!("cache.load_many"),
            Work::Reload => span!("cache.reload"),
        };
        tracing::Instrument::instrument(loader, span)
    };
    #[cfg(not(feature = "tracing"))]
    let _ = (work, cache);
    loader
}

/// A request and its answer, in a span of their own.
pub fn of_exchange<F: Future>(script: Script, exchange: F) -> impl Future<Output = F::Output> {
    #[cfg(feature = "tracing")]
    let exchange = {
        let span = tracing::debug_span!(target: "cortado_redis", "cache.exchange", ?script);
        tracing::Instrument::instrument(exchange, span)
    };
    #[cfg(not(feature = "tracing"))]
    let _ = script;
    exchange
}

/// What a task does for a call, in the call's span.
pub fn of_caller<F: Future>(task: F) -> impl Future<Output = F::Output> {
    #[cfg(feature = "tracing")]
    let task = tracing::Instrument::in_current_span(task);
    task
}
