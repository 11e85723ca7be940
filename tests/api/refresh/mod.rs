//! Refresh: stale entries, and the reloads that renew them.

mod bench;
mod caffeine;
mod ended_meanwhile;
mod failing;
mod inline;
mod inline_limits;
mod limits;
mod made_stale;
mod many;
mod model;
mod operations;
mod overtaken;
mod programs;
mod put_off;
mod renewals;
