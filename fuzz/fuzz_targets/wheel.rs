//! Programs of wheel operations against the model of `tests/wheel/model`.
#![no_main]

mod counted;
#[path = "../../tests/wheel/model/mod.rs"]
mod model;

use libfuzzer_sys::{Corpus, fuzz_target};
use model::{HEADER_LEN, OP_LEN, run};

/// Longer programs find nothing that these do not.
const MOST_OPS: usize = 300;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if bytes.len() > HEADER_LEN + MOST_OPS * OP_LEN {
        return Corpus::Reject;
    }
    run(bytes);
    let operations = bytes.len().saturating_sub(HEADER_LEN).div_ceil(OP_LEN);
    counted::add(operations as u64, "operations");
    Corpus::Keep
});
