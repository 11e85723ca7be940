//! Refresh: stale entries, and the reloads that renew them.

mod bench;
mod operations;
mod reloads;
