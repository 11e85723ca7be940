//! The guide: a page for each subject. Its programs compile as they stand; those without a
//! `fn main` stand inside one.
//!
//! | to decide | |
//! |---|---|
//! | [`lifetimes`] | which lifetime when |
//! | [`weights`], [`memory`] | a bound in bytes; how much memory a cache takes |
//! | [`listeners`] | who hears of removals, and where it runs |
//! | [`tasks`] | a cache for async code |
//!
//! | to build | |
//! |---|---|
//! | [`tokens`], [`dns`], [`http`], [`sessions`], [`idempotency`], [`negative_caching`] | caches of these |
//! | [`refresh`], [`invalidation`] | values that become stale; values that are wrong by now |
//! | [`timers`] | delayed items, jobs, and operations that time out |
//!
//! | to run | |
//! |---|---|
//! | [`testing`] | tests that never sleep |
//! | [`metrics`], [`prometheus`] | what to export, and what to alert on |
//! | [`snapshots`] | a cache that survives a restart |
//! | [`wasm`] | a browser, or Node |
//! | [`changing_over`] | from moka, quick_cache, `cached`, or a map of your own |
//! | [`stability`] | minimum Rust, what a version may change, how to report a vulnerability |

macro_rules! pages {
    ($($name:ident: $page:literal,)+) => {
        $(#[doc = include_str!(concat!("../docs/", $page))] pub mod $name {})+
    };
}
pages! {
    changing_over: "changing-over.md",
    lifetimes: "guide/lifetimes.md",
    tokens: "guide/tokens.md",
    dns: "guide/dns.md",
    http: "guide/http.md",
    refresh: "guide/refresh.md",
    invalidation: "guide/invalidation.md",
    sessions: "guide/sessions.md",
    idempotency: "guide/idempotency.md",
    negative_caching: "guide/negative-caching.md",
    weights: "guide/weights.md",
    listeners: "guide/listeners.md",
    memory: "guide/memory.md",
    metrics: "guide/metrics.md",
    testing: "guide/testing.md",
    tasks: "guide/async.md",
    wasm: "guide/wasm.md",
    stability: "stability.md",
}
// Pages whose programs need a feature are shown in any case, and compiled with it.
#[cfg(any(not(doctest), feature = "serde"))]
pages! { snapshots: "guide/snapshots.md", }
#[cfg(any(not(doctest), feature = "timer"))]
pages! { timers: "timers.md", }
// Its programs need packages that the library's tests do not have: `.ci/pages` runs them.
#[cfg(not(doctest))]
pages! { prometheus: "guide/prometheus.md", }
