//! The cache, and what it relies on, with real servers.

mod basics;
mod chaos;
mod coherence;
mod facts;
mod faults;
mod fleet;
mod input;
mod loads;
mod lost_writes;
mod seen;
mod stale;
mod support;
mod tls;
