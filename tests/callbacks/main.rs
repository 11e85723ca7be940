//! Callbacks of the user's: the removal listener, hooks, weighers, conditions, destructors, and
//! executors that run them.
//!
//! * [`listener`]: what a removal listener can rely on.
//! * [`how_often_asked`], [`asked_key`]: how often hooks and conditions are called; the key that
//!   they are asked about.
//! * [`changed_meanwhile`], [`lifetimes_meanwhile`]: what changes an entry while hooks and
//!   conditions are asked about it.
//! * [`read_hooks`]: which read hooks are called by each read.
//! * [`reentrancy`], [`writing_callbacks`]: callbacks that use the cache, and that write it each
//!   time.
//! * [`panics`]: panics of the user's code, wherever the cache calls it.
//! * [`refreshing`]: both, of the stored loader and of the refresh policy.
//! * [`owned_keys`], [`left_deliveries`]: deliveries inside loads, computations and callbacks.
//! * [`notification_limit`], [`queue_waits`]: the bound on notifications, and who waits for it.
//! * [`closing`], [`last_handles`]: listeners at the end of a cache; callbacks that drop its last
//!   handle.
//! * [`own_executor`], [`inline_executor`]: executors of the user's.
//!
//! No test here may hold a view for long. A case of [`panics`] has a second for its end, and waits
//! for the guards of the whole process. Tests that do hold one are in `real_time`.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod asked_key;
mod changed_meanwhile;
mod closing;
mod how_often_asked;
mod inline_executor;
mod last_handles;
mod left_deliveries;
mod lifetimes_meanwhile;
mod listener;
mod notification_limit;
mod own_executor;
mod owned_keys;
mod panics;
mod queue_waits;
mod read_hooks;
mod reentrancy;
mod refreshing;
mod writing_callbacks;
