//! The whole cache against its model: random programs of operations in random configurations.
//!
//! `PROPTEST_CASES` sets the number of cases per test, `CORTADO_MODEL_OPS` that of operations in all.

#[path = "model/mod.rs"]
mod model;

use model::{Case, run};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations of a default run, over all tests.
const OPS: u64 = 1_200_000;
const TESTS: u64 = 4;
/// Operations of a case, on average.
const LENGTH: u64 = 150;

fn cases() -> u32 {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    let cases = number("PROPTEST_CASES")
        .unwrap_or_else(|| number("CORTADO_MODEL_OPS").unwrap_or(OPS) / TESTS / LENGTH);
    u32::try_from(cases.max(1)).unwrap_or(u32::MAX)
}

/// Runs random programs with configurations whose first bytes come from `header`.
fn check(name: &str, header: impl Strategy<Value = [u8; 8]>) {
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..Config::default()
    };
    let records = prop::collection::vec(any::<[u8; 6]>(), 0..2 * LENGTH as usize);
    let case = (header, records).prop_map(|(header, records)| Case::from_records(&header, records));
    let executed = AtomicU64::new(0);
    let outcome = TestRunner::new(config).run(&case, |case| {
        executed.fetch_add(run(&case), Ordering::Relaxed);
        Ok(())
    });
    eprintln!("{name}: {} operations", executed.into_inner());
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Any bytes, but for some that are set.
fn header(set: fn(&mut [u8; 8])) -> impl Strategy<Value = [u8; 8]> {
    any::<[u8; 8]>().prop_map(move |mut header| {
        set(&mut header);
        header
    })
}

#[test]
fn unbounded() {
    check("unbounded", header(|header| header[0] = 0));
}

#[test]
fn bounded_by_count() {
    check("bounded by count", header(|header| bound(header, 0)));
}

#[test]
fn bounded_by_weight() {
    check("bounded by weight", header(|header| bound(header, 1)));
}

fn bound(header: &mut [u8; 8], weigher: u8) {
    header[0] = 4 + header[0] % 12;
    header[1] = header[1] & !1 | weigher;
}

#[test]
fn with_all_lifetimes_at_once() {
    let all = |header: &mut [u8; 8]| {
        header[2] = header[2] & !3 | 1;
        header[3] = header[3] & !3 | 1;
        header[4] = 3 + header[4] % 7;
    };
    check("all lifetimes", header(all));
}

/// What the fuzzer runs: bytes of any length and kind.
#[test]
fn from_any_bytes() {
    let config = Config { cases: cases() / 4, failure_persistence: None, ..Config::default() };
    let bytes = prop::collection::vec(any::<u8>(), 0..6 * LENGTH as usize);
    let outcome = TestRunner::new(config).run(&bytes, |bytes| {
        run(&Case::decode(&bytes));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
