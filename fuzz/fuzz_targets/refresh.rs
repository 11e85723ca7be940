//! Programs of refresh against a model, as `tests/api/refresh/programs.rs` runs them.
#![no_main]

#[allow(dead_code, reason = "the fuzzer uses its part")]
#[path = "../../tests/api/refresh/bench.rs"]
mod bench;
#[path = "../../tests/common/mod.rs"]
mod common;
mod counted;
#[path = "../../tests/api/refresh/model.rs"]
mod model;
#[path = "../../tests/api/refresh/programs.rs"]
mod programs;

use libfuzzer_sys::{Corpus, fuzz_target};

/// Longer programs find nothing that these do not.
const MOST: usize = 100;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some((first, rest)) = bytes.split_first() else { return Corpus::Reject };
    let (steps, _) = rest.as_chunks::<5>();
    if steps.len() > MOST {
        return Corpus::Reject;
    }
    let number =
        |step: &[u8; 5]| step.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let program: Vec<u64> = steps.iter().map(number).collect();
    programs::run(first % 2 == 0, &program);
    counted::add(program.len() as u64, "steps");
    Corpus::Keep
});
