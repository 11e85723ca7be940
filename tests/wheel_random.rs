//! The wheel against a model, in random programs (`tests/wheel_model`).
//!
//! `CORTADO_WHEEL_OPS` sets the number of operations in all.
#![cfg(not(cortado_loom))]

mod common;
mod wheel_model;

use common::crowd::{counted, scale};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use wheel_model::{HEADER_LEN, OP_LEN, run};

/// Operations of a program, on average.
const LENGTH: usize = 60;

#[test]
fn agrees_with_the_model() {
    let cases = scale("CORTADO_WHEEL_OPS", 1_000_000) / LENGTH as u64;
    let config = Config {
        cases: u32::try_from(cases.max(1)).unwrap_or(u32::MAX),
        failure_persistence: None,
        ..Config::default()
    };
    let programs = (any::<[u8; HEADER_LEN]>(), vec(any::<[u8; OP_LEN]>(), 0..2 * LENGTH));
    let operations = Cell::new(0);
    let outcome = TestRunner::new(config).run(&programs, |(header, ops)| {
        run(&[&header[..], ops.as_flattened()].concat());
        operations.set(operations.get() + ops.len() as u64);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    counted(operations.get(), "operations");
}

/// The programs do reach what they are for: most timers are handed out somewhere.
#[test]
fn programs_hand_out_timers() {
    let mut random = 0_u64;
    let mut fired = 0;
    for _ in 0..50 {
        let bytes: Vec<u8> = (0..HEADER_LEN + 100 * OP_LEN)
            .map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 56) as u8
            })
            .collect();
        fired += run(&bytes);
    }
    assert!(fired > 50 * 20, "{fired}");
}
