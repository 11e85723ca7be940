//! The whole cache against its model: random programs of operations in random configurations.
//!
//! `CORTADO_MODEL_OPS` sets the number of operations in all.

use crate::common::crowd::counted;
use crate::common::effort::scale;
use crate::harness::{Case, Counts, run};
use cortado::RemovalCause;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::abort;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Operations of a whole run, over all tests.
const OPS: u64 = 10_000_000;
const TESTS: u64 = 5;
/// Operations of a case, on average.
const LENGTH: u64 = 150;

/// After so long, and less than twice as long, a case hangs: it takes milliseconds.
const HANG: Duration = Duration::from_secs(20);

fn cases() -> u32 {
    let cases = scale("CORTADO_MODEL_OPS", OPS) / TESTS / LENGTH;
    u32::try_from(cases.max(1)).unwrap_or(u32::MAX)
}

/// Runs random programs with configurations whose first bytes come from `header`.
fn check(name: &str, header: impl Strategy<Value = [u8; 8]>) {
    let records = prop::collection::vec(any::<[u8; 6]>(), 0..2 * LENGTH as usize);
    let cases =
        (header, records).prop_map(|(header, records)| Case::from_records(&header, records));
    check_all(name, cases);
}

/// The case that is running, and how many were begun.
#[derive(Default)]
struct Watch {
    begun: Mutex<(u64, Option<Case>)>,
    over: Condvar,
}

impl Watch {
    /// Runs cases. If one of them hangs, says which, and ends the process: the driver has one
    /// thread, which waits for itself then.
    fn over<T>(run: impl FnOnce(&Self) -> T) -> T {
        let watch = Self::default();
        thread::scope(|scope| {
            scope.spawn(|| watch.watch());
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&watch)));
            watch.begun.lock().unwrap().0 = u64::MAX;
            watch.over.notify_all();
            outcome.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn begin(&self, case: &Case) {
        let mut begun = self.begun.lock().unwrap();
        *begun = (begun.0 + 1, Some(case.clone()));
    }

    fn watch(&self) {
        let mut begun = self.begun.lock().unwrap();
        while begun.0 != u64::MAX {
            let seen = begun.0;
            let (now, wait) = self.over.wait_timeout(begun, HANG).unwrap();
            begun = now;
            if wait.timed_out() && begun.0 == seen && begun.1.is_some() {
                eprintln!("a case hangs: {:#?}", begun.1);
                abort();
            }
        }
    }
}

fn check_all(name: &str, strategy: impl Strategy<Value = Case>) {
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..Config::default()
    };
    let counts = Mutex::new(Counts::default());
    let outcome = Watch::over(|watch| {
        let outcome = TestRunner::new(config).run(&strategy, |case| {
            watch.begin(&case);
            let more = run(&case);
            counts.lock().unwrap().add(&more);
            Ok(())
        });
        outcome.map_err(|failure| failure.to_string())
    });
    let counts = counts.into_inner().unwrap();
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    counted(counts.operations, "operations");
    assert_variety(&counts, u64::from(cases()), name.starts_with("bounded"));
}

/// Programs to which nothing happens would show nothing.
fn assert_variety(counts: &Counts, cases: u64, bounded: bool) {
    let Counts { hits, misses, loads, load_failures, panics, .. } = *counts;
    for (what, times) in [
        ("hits", hits),
        ("misses", misses),
        ("loads", loads),
        ("loads that panic", load_failures),
        ("inserts that panic", panics),
    ] {
        assert!(cases < 100 || times > cases / 100, "only {times} {what}");
    }
    let special = &counts.special;
    for times in special.all().into_iter().take(if bounded { 8 } else { 7 }) {
        assert!(cases < 100 || times > cases / 100, "too little variety: {special:?}");
    }
    for cause in RemovalCause::ALL {
        let times = counts.removed[cause as usize];
        let enough = cases < 100 || times > cases / 10 || cause == RemovalCause::Size && !bounded;
        assert!(enough, "only {times} removals as {cause:?}");
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
    let bytes = prop::collection::vec(any::<u8>(), 0..2 * 6 * LENGTH as usize);
    check_all("any bytes", bytes.prop_map(|bytes| Case::decode(&bytes)));
}
