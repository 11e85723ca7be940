//! What a program knows of its timer, and the random numbers of its code.

use super::{MS, Planned};
use crate::common::crowd::draw;
use cortado::Job;
use cortado::timer::{CancelOutcome, Handle, OnPanic, Rejection, Stop, Timer, TimerId, Unfired};
use std::collections::HashMap;
use std::fmt::Display;
use std::ops::AddAssign;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not accepted so far.
    New,
    Waiting,
    Running,
    /// Its last run is over, or it has left the timer and is about to be dropped.
    Ending,
    /// It did not fire, and was given back.
    Unfired,
    Gone,
}

/// What a program knows of a job.
pub struct Known {
    pub state: State,
    pub id: Option<TimerId>,
    pub is_series: bool,
    /// When its next run is planned for, if that is known.
    pub planned: Option<Duration>,
    pub runs: u64,
    /// No run follows the present one.
    pub is_last: bool,
    /// In its present run it was cancelled, or moved.
    pub is_cancelled: bool,
    /// Its present run, or one before.
    pub is_aborted: bool,
    pub next: Option<Duration>,
}

#[derive(Default)]
pub struct Notes {
    pub jobs: Vec<Known>,
    pub numbers: HashMap<TimerId, usize>,
    pub handles: Vec<Handle>,
    pub queue: Vec<Job>,
    pub wakers: Vec<Waker>,
    pub unfired: Vec<Unfired>,
    pub now: Duration,
    /// The latest time that the clock has shown.
    pub latest: Duration,
    pub is_broken: bool,
    pub was_broken: bool,
    pub stopping: bool,
    pub fires_all: bool,
    /// Futures do not wait any more.
    pub is_free: bool,
    /// The executor is dropping a job.
    pub drops: bool,
    pub depth: u32,
    pub counts: Counts,
}

/// What a timer counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub added: u64,
    pub fired: u64,
    pub cancelled: u64,
    pub panicked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    Here,
    Inline,
    Queued,
    Anyhow,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub runs: Runs,
    pub rejection: Rejection,
    pub on_panic: OnPanic,
    pub explosive: u64,
    pub has_hook: bool,
    pub batch: u32,
}

pub struct World {
    pub random: Mutex<u64>,
    pub notes: Mutex<Notes>,
    pub timer: Mutex<Option<Timer>>,
    pub origin: Mutex<Option<Instant>>,
    pub config: Config,
    pub is_traced: bool,
}

impl World {
    pub fn below(&self, limit: u64) -> u64 {
        draw(&mut self.random.lock().unwrap()) % limit
    }

    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, what: impl Display) {
        if self.is_traced {
            let depth = self.notes().depth as usize;
            eprintln!("{}{what}", "  ".repeat(depth));
        }
    }

    pub fn timer(&self) -> Option<Timer> {
        self.timer.lock().unwrap().clone()
    }

    pub fn may_panic(&self, times: u64) {
        if self.once_in(times) {
            self.note("a planned panic");
            let explodes = self.once_in(4);
            resume_unwind(Box::new(Planned(explodes)));
        }
    }

    pub fn read_clock(&self) -> Duration {
        let mut notes = self.notes();
        if notes.is_broken {
            drop(notes);
            resume_unwind(Box::new(Planned(false)));
        }
        notes.latest = notes.latest.max(notes.now);
        notes.now
    }

    pub fn count(&self, state: State) -> usize {
        self.notes().jobs.iter().filter(|job| job.state == state).count()
    }

    pub fn delay(&self) -> Duration {
        match self.below(12) {
            0 | 1 => Duration::ZERO,
            2 => Duration::from_secs(self.below(10_000_000)),
            3 => [Duration::MAX, Duration::from_secs(400 * 365 * 86_400)][self.below(2) as usize],
            _ => Duration::from_micros(self.below(20_000)),
        }
    }

    pub fn any_handle(&self) -> Option<Handle> {
        let handles = self.notes().handles.len() as u64;
        (handles > 0)
            .then(|| self.below(handles) as usize)
            .map(|at| self.notes().handles.swap_remove(at))
    }

    pub fn any_job(&self) -> Option<(usize, TimerId)> {
        let jobs = self.notes().jobs.len() as u64;
        if jobs == 0 {
            return None;
        }
        // Mostly one of the latest.
        let back = if self.once_in(3) { self.below(jobs) } else { self.below(jobs.min(8)) };
        let number = (jobs - 1 - back) as usize;
        self.notes().jobs[number].id.map(|id| (number, id))
    }

    /// What cancelling this job may answer.
    pub fn expects(&self, number: usize) -> &'static [CancelOutcome] {
        let mut notes = self.notes();
        let stopping = notes.stopping;
        let job = &mut notes.jobs[number];
        match job.state {
            // The end may have taken it out just now. It notes its own end.
            State::Waiting if stopping => &[CancelOutcome::Cancelled, CancelOutcome::Finished],
            State::Waiting => {
                job.state = State::Ending;
                notes.counts.cancelled += 1;
                &[CancelOutcome::Cancelled]
            }
            State::Running if !std::mem::replace(&mut job.is_cancelled, true) && !stopping => {
                &[CancelOutcome::Running]
            }
            // Its run may not be over for the timer, or the end of the timer has forgotten it.
            State::Running if stopping => &[CancelOutcome::Running, CancelOutcome::Finished],
            State::Ending | State::Gone => &[CancelOutcome::Running, CancelOutcome::Finished],
            _ => &[CancelOutcome::Finished],
        }
    }

    pub fn number(&self, handle: &Handle) -> usize {
        self.notes().numbers[&handle.id()]
    }

    pub fn drop_handle(&self, handle: Handle) {
        let number = self.number(&handle);
        self.note(format_args!("the handle of {number} is dropped"));
        // An end that comes while one unwinds is not noted otherwise.
        let _ = self.expects(number);
        drop(handle);
    }

    /// Notes that nothing is accepted any more. Returns how many jobs were taken out.
    pub fn stop(&self, stop: Stop) {
        self.note(format_args!("{stop:?}"));
        let mut notes = self.notes();
        notes.stopping |= !(notes.is_broken && matches!(stop, Stop::Drain(_) | Stop::Settle));
        notes.fires_all |= stop == Stop::FireAll;
        if stop == Stop::Cancel {
            let waiting = notes.jobs.iter_mut().filter(|job| job.state == State::Waiting);
            let cancelled = waiting.map(|job| job.state = State::Unfired).count();
            notes.counts.cancelled += cancelled as u64;
        }
    }

    /// Takes what an end has returned.
    pub fn take(&self, unfired: Vec<Unfired>) {
        let mut notes = self.notes();
        for job in unfired {
            let number = notes.numbers[&job.id];
            let state = std::mem::replace(&mut notes.jobs[number].state, State::Unfired);
            match state {
                State::Unfired => {}
                State::Waiting => notes.counts.cancelled += 1,
                state => panic!("a job that was {state:?} did not fire"),
            }
            notes.unfired.push(job);
        }
    }

    pub fn any_stop(&self) -> Stop {
        let limits = [Duration::ZERO, MS / 2, MS];
        match self.below(4) {
            0 => Stop::Cancel,
            1 => Stop::FireAll,
            2 => Stop::Settle,
            _ => Stop::Drain(limits[self.below(3) as usize]),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.fired += other.fired;
        self.cancelled += other.cancelled;
        self.panicked += other.panicked;
    }
}
