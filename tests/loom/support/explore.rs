//! Runs a model, and says on standard error in how many executions: `executions: 1234 of NAME`,
//! which `.ci/loom` adds up. With `LOOM_MAX_DURATION` seconds at most: then the line ends with
//! `(not all)` if there were more to come.
#![allow(dead_code, reason = "each test binary uses its part")]

use loom::model::Builder;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// At `LOOM_MAX_PREEMPTIONS` preemptions, 2 by default.
pub fn model(check: impl Fn() + Send + Sync + 'static) {
    explore(Builder::new(), ("LOOM_MAX_PREEMPTIONS", 2), check);
}

/// Explores with that builder and so many preemptions as the variable says, or the number beside
/// it.
pub fn explore(
    mut builder: Builder,
    (variable, bound): (&str, usize),
    check: impl Fn() + Send + Sync + 'static,
) {
    let wanted = std::env::var(variable).ok().and_then(|bound| bound.parse().ok());
    builder.preemption_bound = Some(wanted.unwrap_or(bound));
    // How often the time is looked at, in executions.
    builder.checkpoint_interval = 16;
    let most = builder.max_duration;
    let begun = Instant::now();
    let executions = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&executions);
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        check();
    });
    let this = std::thread::current();
    let (executions, name) = (executions.load(Relaxed), this.name().unwrap_or("a model"));
    let is_all = most.is_none_or(|most| begun.elapsed() < most);
    let line =
        format!("executions: {executions} of {name}{}\n", if is_all { "" } else { " (not all)" });
    // Past what the test harness catches, and in one piece.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
