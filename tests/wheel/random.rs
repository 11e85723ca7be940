//! The wheel against a model, in random programs (`tests/wheel/model`).
//!
//! `CORTADO_WHEEL_OPS` sets the number of operations.

use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use crate::model::{HEADER_LEN, OP_LEN, run, run_with};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Operations of a program, on average.
const LENGTH: usize = 60;

#[test]
fn agrees_with_the_model() {
    let cases = scale("CORTADO_WHEEL_OPS", 1_000_000) / 10 / LENGTH as u64;
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

/// The same without shrinking, and without a look at everything after each step.
#[test]
fn agrees_with_the_model_in_more_programs() {
    let programs = scale("CORTADO_WHEEL_OPS", 1_000_000) / (2 * LENGTH as u64);
    let fired = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let fired = &fired;
            scope.spawn(move || {
                for program in (thread..programs).step_by(2) {
                    let (mut state, mut bytes) = (seed(program), Vec::new());
                    while bytes.len() < HEADER_LEN + 2 * LENGTH * OP_LEN {
                        bytes.extend(draw(&mut state).to_le_bytes());
                    }
                    bytes.truncate(HEADER_LEN + 2 * LENGTH * OP_LEN);
                    let outcome = catch_unwind(|| run_with(&bytes, 32));
                    let outcome = outcome.unwrap_or_else(|_| panic!("program {program}"));
                    fired.fetch_add(outcome, Relaxed);
                }
            });
        }
    });
    // They do reach what they are for: many timers are handed out.
    let (fired, operations) = (fired.into_inner() as u64, programs * 2 * LENGTH as u64);
    assert!(fired > operations / 6, "{fired} of {operations}");
    counted(operations, "operations");
}
