//! Timers: the queue of delayed items, jobs, and delayed operations.
//!
//! * [`queue`]: what the queue promises, one promise at a time.
//! * [`cases`]: the facts of `tests/wheel/data/wheel_cases.json`, through the queue.
//! * [`random`]: random programs against an ordered map.
//! * [`streams`]: the queue on a tokio runtime.
//! * [`moved_over`]: what programs that come from tokio-util's queue rely on.
//! * [`jobs`], [`series`], [`ends`]: what a timer promises, on a manual clock.
//! * [`threads`]: timers with a thread.
//! * [`tasks`]: async jobs.
//! * [`forms`]: the forms of jobs.
//! * [`aborts`]: jobs that are aborted.
//! * [`settles`]: ends in which a timer settles.
//! * [`drains`]: when a drain ends.
//! * [`captured`]: when what a job captured is dropped.
//! * [`awaited`]: the end of a timer, as tasks await it.
//! * [`operations`]: delayed operations.
//! * [`hostile`]: jobs, executors, clocks and destructors that do what nobody should.
//! * [`panics`]: keys, operations, jobs and schedules whose destructors or clones panic.
//! * [`clocks`]: clocks that go back, or give a wrong reading.
//! * [`chaos`]: random programs whose code panics, or calls the timer.
//! * [`systems`]: what users of other systems do with them.
//! * [`examples`]: the programs of `examples/timers`, on the [`stage`] of a manual clock.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod aborts;
mod awaited;
mod captured;
mod cases;
mod chaos;
mod clocks;
mod drains;
mod ends;
mod examples;
#[path = "../wheel/facts.rs"]
mod facts;
mod forms;
mod hostile;
mod jobs;
mod moved_over;
mod operations;
mod panics;
mod queue;
mod random;
mod series;
mod settles;
#[allow(dead_code, reason = "the program plays on the real clock")]
#[path = "../../examples/timers/stage.rs"]
mod stage;
mod streams;
mod systems;
mod tasks;
mod threads;
