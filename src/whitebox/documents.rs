//! The documents whose programs are compiled.

macro_rules! pages {
    ($($name:ident: $page:literal,)+) => { $(#[doc = include_str!($page)] mod $name {})+ };
}
pages! {
    readme: "../../README.md",
    changing_over: "../../docs/changing-over.md",
    lifetimes: "../../docs/guide/lifetimes.md",
    tokens: "../../docs/guide/tokens.md",
    dns: "../../docs/guide/dns.md",
    http: "../../docs/guide/http.md",
    refresh: "../../docs/guide/refresh.md",
    invalidation: "../../docs/guide/invalidation.md",
    sessions: "../../docs/guide/sessions.md",
    idempotency: "../../docs/guide/idempotency.md",
    negative_caching: "../../docs/guide/negative-caching.md",
    weights: "../../docs/guide/weights.md",
    listeners: "../../docs/guide/listeners.md",
    metrics: "../../docs/guide/metrics.md",
    testing: "../../docs/guide/testing.md",
    tasks: "../../docs/guide/async.md",
    memory: "../../docs/guide/memory.md",
    wasm: "../../docs/guide/wasm.md",
}
#[cfg(feature = "serde")]
pages! { snapshots: "../../docs/guide/snapshots.md", }
#[cfg(feature = "timer")]
pages! { timers: "../../docs/timers.md", }
