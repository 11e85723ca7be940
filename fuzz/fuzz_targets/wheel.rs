//! Programs of wheel operations against the model of `tests/wheel_model`.
#![no_main]

#[path = "../../tests/wheel_model/mod.rs"]
mod wheel_model;

use libfuzzer_sys::{Corpus, fuzz_target};
use wheel_model::{HEADER_LEN, OP_LEN, run};

/// Longer programs find nothing that these do not.
const MOST_OPS: usize = 300;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if bytes.len() > HEADER_LEN + MOST_OPS * OP_LEN {
        return Corpus::Reject;
    }
    run(bytes);
    Corpus::Keep
});
