//! The cache for tasks: `cortado::future`.
//!
//! * [`hand`]: an executor that polls by hand, for the others.
//! * [`bulk_loads`], [`bulk_failures`]: loads of many keys, and of some that fail.
//! * [`cancel`], [`dropped_at_each_poll`]: futures that are dropped before they are ready.
//! * [`chaos`]: random programs of both faces, with destructors that panic.
//! * [`colliding_victims`]: entries whose hash a computed key has.
//! * [`deliveries`]: what is not delivered while a load or a computation is polled.
//! * [`listeners`]: listeners that await.
//! * [`lost_receivers`]: removals whose receiver is dropped.
//! * [`many_in_flight`]: thousands of loads and computations at once.
//! * [`exactly_once`]: random operations of tasks that may be dropped, beside threads.
//! * [`fused`]: every operation, with user code that does something of the test's, for [`panics`]
//!   of that code, and for its [`reentrancy`].
//! * [`held_back`]: tasks that wait for deliveries.
//! * [`singleflight`]: many tasks, one load.
//! * [`successors`]: what a dropped future owns is gone before the next one of its key begins.
//! * [`received`]: removals that are received.
//! * [`refresh`]: stale entries, and loaders that await.
//! * [`runtimes`]: every operation on each runtime; the sizes of futures.
//! * [`time_limits`]: a limit for every wait, of threads and of tasks.
//! * [`told_shares`]: how much of what waits an operation tells such a listener.
//! * [`waiting`]: threads and tasks that wait for each other; wakers of every kind.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod bulk_failures;
mod bulk_loads;
mod cancel;
mod chaos;
mod colliding_victims;
mod deliveries;
mod dropped_at_each_poll;
mod exactly_once;
mod fused;
mod guards;
mod hand;
mod held_back;
mod listeners;
mod lost_receivers;
mod many_in_flight;
mod panics;
mod received;
mod received_by_threads;
mod reentrancy;
mod refresh;
mod runtimes;
mod singleflight;
mod successors;
mod time_limits;
mod told_shares;
mod waiting;
