//! Programs of policy operations: each node on exactly one list, weights that add up, bounds that
//! hold, and the same victims for the same seed.
#![no_main]

#[path = "../../tests/policy/program.rs"]
mod program;
#[path = "../../tests/policy/store.rs"]
mod store;

use cortado::internals::policy::Policy;
use libfuzzer_sys::{Corpus, fuzz_target};
use program::{Op, Program};

/// Longer programs find nothing that these do not.
const MOST_OPS: usize = 400;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some(([max, seed], program)) = bytes.split_first_chunk() else { return Corpus::Reject };
    let (ops, _) = program.as_chunks::<{ Op::LEN }>();
    if ops.len() > MOST_OPS {
        return Corpus::Reject;
    }
    let ops: Vec<Op> = ops.iter().map(|bytes| Op::decode(*bytes)).collect();
    let policy = || Policy::new(u64::from(*max), u64::from(*seed));
    let victims = Program::new(policy()).run(&ops);
    assert_eq!(Program::new(policy()).run(&ops), victims, "the same seed, other victims");
    Corpus::Keep
});
