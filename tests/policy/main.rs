//! The eviction policy by itself, on a [`store`] of the tests' own.
//!
//! * [`rules`], [`duels`]: bounded work, weights; who stays and who goes.
//! * [`newest`]: what was written last, in the policies that refuse nothing.
//! * [`memory`], [`window`]: what is remembered of keys that left, and how the window follows it.
//! * [`sketch`]: the frequency sketch.
//! * [`hit_ratio`]: hit ratios on synthetic loads.
//! * [`properties`]: random programs, which the fuzzer shares ([`program`]).
//! * [`damage`]: the recount notices each kind of damage.
//!
//! [`heap`] installs an allocator that counts.
#![cfg(not(cortado_loom))]

mod damage;
mod duels;
#[path = "../common/effort.rs"]
mod effort;
mod heap;
mod hit_ratio;
mod memory;
mod newest;
mod program;
mod properties;
mod rules;
mod sketch;
mod store;
mod window;
