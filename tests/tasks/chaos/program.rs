//! The steps of a program.

use super::invariants;
use super::ledger::{Key, Ledger, Value, planned};
use super::subject::{Bench, Config};
use super::{by_tasks, by_threads};
use crate::common::SECOND;
use crate::hand::{Boxed, Task};
use cortado::{Removals, Stats};
use std::fmt::Display;
use std::sync::Arc;

const STEPS: usize = 200;
/// Tasks at a time, at most.
const TASKS: usize = 8;

/// A task that has not ended.
struct Begun<'a> {
    task: Task<'a, ()>,
    is_polled: bool,
    number: u64,
}

impl Begun<'_> {
    fn is_woken(&self) -> bool {
        !self.is_polled || self.task.is_woken()
    }
}

pub struct Program<'a> {
    pub bench: &'a Bench,
    begun: Vec<Begun<'a>>,
    tasks: u64,
    receiver: Option<Removals<Key, Value>>,
}

/// Runs a program, and checks it at its end. Returns the last statistics of its cache.
pub fn run(config: &Config, ledger: &Arc<Ledger>) -> Stats {
    let bench = Bench::new(config, ledger);
    let (receiver, stats) = play(&bench);
    ledger.note("the end");
    drop(receiver);
    drop(bench);
    while ledger.run_next_job() {}
    invariants::check_nothing_is_left(ledger);
    stats
}

/// Returns the receiver, which may outlive the cache.
fn play(bench: &Bench) -> (Option<Removals<Key, Value>>, Stats) {
    let receiver = bench.tasks.removals();
    let mut program = Program { bench, begun: Vec::new(), tasks: 0, receiver };
    (0..STEPS).for_each(|_| program.step());
    program.end_tasks();
    let stats = invariants::check(&mut program);
    (program.receiver, stats)
}

impl<'a> Program<'a> {
    fn step(&mut self) {
        let bench = self.bench;
        let mixes = bench.config.is_for_threads || bench.once_in(6);
        match bench.below(20) {
            0 => bench.hand.advance(bench.one_of([1, 2, 5, 60]) * SECOND),
            1 | 10..=15 if mixes => _ = planned(|| by_threads::run(bench, !self.begun.is_empty())),
            2..=6 => self.begin_operation(),
            7 => bench.run_or_drop_job(),
            8 if bench.once_in(3) => self.drop_task(),
            9 => self.receive(),
            18 if bench.config.is_closed && bench.once_in(40) => {
                let close = bench.tasks.close();
                self.begin("the cache is closed", Box::pin(close));
            }
            _ => self.poll_any(),
        }
    }

    fn begin_operation(&mut self) {
        if !self.bench.config.is_for_threads && self.begun.len() < TASKS {
            let (name, operation) = by_tasks::operation(self.bench);
            self.begin(name, operation);
        }
    }

    fn begin(&mut self, name: impl Display, operation: Boxed<'a, ()>) {
        let number = self.tasks;
        self.tasks += 1;
        self.bench.note(format_args!("task {number}: {name}"));
        self.begun.push(Begun { task: Task::new(operation), is_polled: false, number });
    }

    /// The index of any task that has not ended.
    fn any(&self) -> Option<usize> {
        let tasks = self.begun.len() as u64;
        (tasks > 0).then(|| self.bench.below(tasks) as usize)
    }

    fn drop_task(&mut self) {
        if let Some(index) = self.any() {
            let begun = self.begun.remove(index);
            self.bench.note(format_args!("task {} is dropped", begun.number));
            planned(|| drop(begun));
        }
    }

    /// Polls a task that was woken. One that was not is polled less often.
    fn poll_any(&mut self) {
        if let Some(index) = self.any()
            && (self.begun[index].is_woken() || self.bench.once_in(5))
        {
            self.poll(index);
        }
    }

    /// Polls a task, and drops it if it has ended. One that is not ready goes to the end of the
    /// list.
    fn poll(&mut self, index: usize) {
        let mut begun = self.begun.remove(index);
        self.bench.note(format_args!("task {} is polled", begun.number));
        begun.is_polled = true;
        match planned(|| begun.task.poll()) {
            Some(false) => self.begun.push(begun),
            // The panic may be one of a destructor. What is left has destructors, too.
            _ => _ = planned(|| drop(begun)),
        }
    }

    /// Receives what waits, if the program does.
    pub fn receive(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        while let Some(removed) = receiver.try_recv() {
            self.bench.announce(removed.value());
            planned(|| drop(removed));
        }
    }

    /// Every task ends if it is polled when it was woken, and if jobs run.
    fn end_tasks(&mut self) {
        self.bench.note("every task ends");
        let mut has_received = false;
        while !self.begun.is_empty() {
            let woken = self.begun.iter().position(Begun::is_woken);
            let has_run = self.bench.run_next_job();
            match woken {
                Some(index) => {
                    self.poll(index);
                    has_received = false;
                }
                None if has_run => {}
                None => {
                    assert!(!has_received, "{} tasks wait for ever", self.begun.len());
                    self.receive();
                    has_received = true;
                }
            }
        }
    }
}
