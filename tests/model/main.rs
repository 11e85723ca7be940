//! The whole cache against its model.
//!
//! * [`programs`]: random programs of operations in random configurations.
//! * [`harness`]: the model, and the driver that holds a cache against it. The fuzzer shares it.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod harness;
mod programs;
