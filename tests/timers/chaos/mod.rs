//! Random programs of timers in manual mode, with user code that panics or calls the timer: jobs,
//! futures, schedules, destructors, hooks, executors, clocks and wakers. They add, move and cancel
//! jobs, wake and forget futures, set the clock, end the timer. Nobody plans what comes when. A
//! program notes what happens, and checks that each job ends once, in one way, and never begins
//! early; that all counts are exact whenever nothing runs; and that nothing is left at its end.
//!
//! * [`world`]: what a program knows, and what its jobs may do to the timer.
//! * [`acts`]: the calls that any code of a program makes.
//! * [`jobs`]: jobs, their runs, futures and schedules.
//! * [`program`]: the steps of a program, and its executor.
//! * [`operations`]: the same for delayed operations, whose programs are in [`events`].
//!
//! A program runs on one thread. One that fails prints its seed. `CORTADO_TIMER_CHAOS_SEED=<seed>
//! cargo test --test timers chaos:: -- --nocapture` runs only that one, and prints its steps.
//! `CORTADO_TIMER_CHAOS` sets the number of programs.

mod acts;
mod events;
mod jobs;
mod operations;
mod program;
mod world;

use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::{scale, setting};
use crate::common::{unplanned, watched};
use cortado::timer::{OnPanic, Rejection};
use program::Program;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::panicking;
use std::time::Duration;
use world::{Config, Counts, Runs};

/// How many programs of each kind a whole run has.
const PROGRAMS: u64 = 15_000;
const STEPS: u64 = 200;
const MS: Duration = Duration::from_millis(1);

/// The payload of a planned panic. Its destructor may panic, too.
struct Planned(bool);

impl Drop for Planned {
    fn drop(&mut self) {
        if self.0 && !panicking() {
            resume_unwind(Box::new(Planned(false)));
        }
    }
}

/// Runs what may end with a planned panic.
fn planned<T>(run: impl FnOnce() -> T) -> Option<T> {
    let payload = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => return Some(result),
        Err(payload) => payload,
    };
    if !payload.is::<Planned>() {
        resume_unwind(payload);
    }
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    None
}

fn run(seed: u64, is_traced: bool) -> Counts {
    let mut random = seed;
    let mut below = |limit: u64| draw(&mut random) % limit;
    let config = Config {
        runs: [Runs::Here, Runs::Inline, Runs::Queued, Runs::Anyhow][below(4) as usize],
        rejection: [
            Rejection::Retry(Duration::ZERO),
            Rejection::default(),
            Rejection::RunHere,
            Rejection::Discard,
        ][below(4) as usize],
        on_panic: [OnPanic::Continue, OnPanic::Stop][below(2) as usize],
        explosive: [0, 0, 10, 50][below(4) as usize],
        has_hook: below(2) == 0,
        batch: [1, 2, 1024][below(3) as usize],
    };
    let mut program = Program::new(config, random, is_traced);
    let world = Arc::clone(&program.world);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        (0..STEPS).for_each(|_| program.step());
        drop(world);
        program.end()
    }));
    ran.unwrap_or_else(|panic| {
        eprintln!("CORTADO_TIMER_CHAOS_SEED={seed} fails: {config:?}");
        resume_unwind(panic)
    })
}

/// Runs the program that is asked for, or all of them. Returns what they have counted.
fn run_all(run: impl Fn(u64, bool) -> Counts + Send + 'static) {
    unplanned::start_counting();
    watched(move |watch| {
        let only = setting("CORTADO_TIMER_CHAOS_SEED", u64::MAX);
        if only != u64::MAX {
            watch.begin_silently(format!("CORTADO_TIMER_CHAOS_SEED={only}"));
            run(only, true);
            return;
        }
        let programs = scale("CORTADO_TIMER_CHAOS", PROGRAMS);
        let mut total = Counts::default();
        for seed in (0..programs).map(seed) {
            watch.begin_silently(format!("CORTADO_TIMER_CHAOS_SEED={seed}"));
            total += run(seed, false);
        }
        // They do reach what they are for.
        let events = [total.added, total.fired, total.cancelled, total.panicked];
        assert!(events.iter().all(|&events| events > programs), "{total:?}");
        counted(programs, "programs");
    });
}

#[test]
fn random_jobs() {
    run_all(run);
}

#[test]
fn random_operations() {
    run_all(events::run);
}
