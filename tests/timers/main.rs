//! Timers: the queue of delayed items.
//!
//! * [`queue`]: what the queue promises, one promise at a time.
//! * [`cases`]: the facts of `tests/wheel/data/wheel_cases.json`, through the queue.
//! * [`random`]: random programs against an ordered map.
//! * [`streams`]: the queue on a tokio runtime.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod queue;
mod random;
mod streams;
