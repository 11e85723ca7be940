//! Programs of cache operations against the model of `tests/model/harness`.
#![no_main]

mod counted;
#[path = "../../tests/model/harness/mod.rs"]
mod harness;

use harness::{Case, run};
use libfuzzer_sys::{Corpus, fuzz_target};

/// Longer programs find nothing that these do not.
const MOST: usize = 2000;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if bytes.len() > MOST {
        return Corpus::Reject;
    }
    counted::add(run(&Case::decode(bytes)).operations, "operations");
    Corpus::Keep
});
