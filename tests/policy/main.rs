//! The eviction policy by itself, on a [`store`] of the tests' own.
//!
//! * [`rules`], [`duels`]: bounded work, weights, second chances; who stays and who goes.
//! * [`newest`]: what was written last, in the policies that refuse nothing.
//! * [`ghost`]: what is remembered of keys that were turned away.
//! * [`sketch`]: the frequency sketch.
//! * [`sample`], [`trial`]: the sample of the keys by which the rules are chosen, and the choice.
//! * [`hit_ratio`]: hit ratios on synthetic loads.
//! * [`properties`]: random programs, which the fuzzer shares ([`program`]).
//! * [`damage`]: the recount notices each kind of damage.
//!
//! [`sample`] installs an allocator that counts the bytes of each thread by itself, so the other
//! tests of the program do not disturb its count.
#![cfg(not(cortado_loom))]

mod damage;
mod duels;
#[path = "../common/effort.rs"]
mod effort;
mod ghost;
mod hit_ratio;
mod newest;
mod program;
mod properties;
mod rules;
mod sample;
mod sketch;
mod store;
mod trial;
