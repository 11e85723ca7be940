//! Random programs of operations by threads and tasks, in random configurations, with user code
//! that panics: destructors of keys and values, clones of keys, loaders, conditions and listeners.
//! Jobs are run or dropped, tasks are dropped at any poll. There is no model: a program checks
//! what holds after any operations.
//!
//! * [`ledger`]: keys and values, and what became of them.
//! * [`answers`]: what loaders and other user code of a program answer.
//! * [`subject`]: configurations and their caches.
//! * [`by_threads`], [`by_tasks`]: the operations.
//! * [`program`]: the steps of a program.
//! * [`invariants`]: what a program checks at its end.
//!
//! A program runs on one thread. One that fails prints its seed and its configuration, and ends the
//! test. `CORTADO_CHAOS_SEED=<seed> cargo test --test tasks chaos::` runs only that one, again and
//! again, and prints its steps when it fails. `CORTADO_CHAOS_PROGRAMS` sets the number of programs.

mod answers;
mod by_tasks;
mod by_threads;
mod invariants;
mod ledger;
mod program;
mod subject;

use crate::common::crowd::{counted, seed};
use crate::common::effort::{scale, setting};
use crate::common::{unplanned, watched};
use cortado::{RemovalCause, Stats};
use ledger::Ledger;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use subject::Config;

/// How many programs a whole run has.
const PROGRAMS: u64 = 60_000;

/// How often a single program runs. Its steps are the same each time, as long as the cache does the
/// same: evictions depend on random numbers of the cache's own.
const REPEATS: u64 = 1_000;

/// Runs the program of this seed, and returns its last statistics. Prints how to find it again if
/// it fails.
fn run(seed: u64, is_traced: bool) -> Stats {
    let ledger = Arc::new(Ledger::new(seed, is_traced));
    let config = Config::draw(&ledger);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let stats = program::run(&config, &ledger);
        assert_eq!(unplanned::count(), 0, "unplanned panics, which the cache has caught");
        stats
    }));
    ran.unwrap_or_else(|panic| {
        eprint!("{}", ledger.trace());
        eprintln!("the program of CORTADO_CHAOS_SEED={seed} fails: {config:#?}");
        eprintln!("CORTADO_CHAOS_SEED={seed} cargo test --test tasks chaos:: shows its steps");
        resume_unwind(panic)
    })
}

/// What programs are about. One to which nothing happens would show nothing.
fn events(stats: &Stats) -> Vec<(String, u64)> {
    let removals = RemovalCause::ALL.map(|cause| (format!("{cause:?}"), stats.removed(cause)));
    let others = [
        ("hits", stats.hits),
        ("loads", stats.loads),
        ("load failures", stats.load_failures),
        ("listener panics", stats.listener_panics),
        ("drop panics", stats.drop_panics),
        ("discarded notifications", stats.discarded_notifications),
        ("reloads", stats.reloads),
        ("reload failures", stats.reload_failures),
        ("reloads skipped", stats.reloads_skipped),
        ("refused after close", stats.refused_after_close),
    ];
    removals.into_iter().chain(others.map(|(what, times)| (what.to_owned(), times))).collect()
}

#[test]
fn random_programs() {
    unplanned::start_counting();
    watched(|watch| {
        let only = setting("CORTADO_CHAOS_SEED", u64::MAX);
        if only != u64::MAX {
            for _ in 0..REPEATS {
                watch.begin_silently(format!("CORTADO_CHAOS_SEED={only}"));
                run(only, true);
            }
            return;
        }
        let programs = scale("CORTADO_CHAOS_PROGRAMS", PROGRAMS);
        let mut totals = BTreeMap::<String, u64>::new();
        for seed in (0..programs).map(seed) {
            watch.begin_silently(format!("CORTADO_CHAOS_SEED={seed}"));
            for (what, times) in events(&run(seed, false)) {
                *totals.entry(what).or_default() += times;
            }
        }
        for (what, times) in totals {
            assert!(programs < 1000 || times > programs / 100, "only {times} {what}");
        }
        counted(programs, "programs");
    });
}
