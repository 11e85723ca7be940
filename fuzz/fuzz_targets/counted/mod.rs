//! Says how much was done, for the script that adds it up: a fuzzer does not come to an end by
//! itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const STEP: u64 = 1 << 12;

static DONE: AtomicU64 = AtomicU64::new(0);

pub fn add(number: u64, what: &str) {
    let before = DONE.fetch_add(number, Relaxed);
    if before / STEP != (before + number) / STEP {
        eprintln!("counted {STEP} {what}");
    }
}
