//! The index, by itself and in a cache.
//!
//! * [`model`]: against a `HashMap`, one operation at a time.
//! * [`sizes`]: when it grows and shrinks, and what becomes of its former tables.
//! * [`growth`]: a cache's index grows as fast as its writers fill it.
//! * [`overflows`]: buckets that were full once do not keep the memory that they needed then.
//! * [`stress`]: readers, writers, walks and changes of size at once.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod growth;
mod model;
mod overflows;
mod sizes;
mod stress;
