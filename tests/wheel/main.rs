//! The timer wheel by itself.
//!
//! * [`behaviour`]: what the wheel promises, one promise at a time.
//! * [`cases`]: facts about the original, from `data/wheel_cases.json`.
//! * [`cost`]: what its work is bounded by.
//! * [`random`]: random programs against a [`model`], which the fuzzer shares.
//! * [`damage`]: its recount notices each kind of damage.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod behaviour;
mod cases;
mod cost;
mod damage;
mod facts;
mod model;
mod random;
