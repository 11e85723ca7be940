//! Caches under many threads, and under clocks that are read at the worst moment. `.ci/deep/long`
//! runs most of these suites again and again, with other seeds.
//!
//! * [`exactly_once`]: each value leaves once, with one cause, and is dropped once.
//! * [`linearizable`]: short histories of a key, each explained by a search ([`linear`]).
//! * [`expiry_races`]: readers that prolong lives race the end of these lives.
//! * [`expired_stays_expired`], [`remaining_life`]: what others do between a reading of the clock
//!   and what is done by it.
//! * [`reader_promises`]: promises to readers, checked while others write.
//! * [`overshoot`], [`weights`]: the bound at any moment; the weight that the cache reports.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod exactly_once;
mod expired_stays_expired;
mod expiry_races;
mod linear;
mod linearizable;
mod overshoot;
mod reader_promises;
mod remaining_life;
mod weights;
