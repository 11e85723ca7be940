//! Refresh: stale entries, and the reloads that renew them.

mod bench;
mod by_call;
mod caffeine;
mod failing;
mod inline;
mod limits;
mod model;
mod operations;
mod renewals;
