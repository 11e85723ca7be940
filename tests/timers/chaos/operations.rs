//! Delayed operations whose conditions, callbacks, destructors and wakers panic, and call the
//! operations: they check and cancel keys, end each other, meddle with timeouts.

use super::Planned;
use crate::common::crowd::draw;
use cortado::Job;
use cortado::timer::{Attempt, DelayedOp, DelayedOps, OpRef, Outcome, Timer, WatchFuture};
use std::fmt::Display;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::panicking;
use std::time::Duration;

/// What became of an operation.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    pub told: Vec<&'static str>,
    /// How it has ended, as an answer says.
    pub ended: Option<Outcome>,
    pub is_dropped: bool,
    pub is_tried: bool,
    pub refused: bool,
}

/// A future that waits for an operation, and its waker.
type Awaited = (Pin<Box<WatchFuture<u64>>>, Arc<Woken>);

#[derive(Default)]
pub struct Notes {
    pub fates: Vec<Fate>,
    pub handles: Vec<(usize, OpRef<u64>)>,
    pub watched: Vec<Awaited>,
    pub queue: Vec<Job>,
    pub panics: u64,
    pub depth: u32,
    pub in_callback: bool,
    pub faults: Vec<String>,
}

pub struct World {
    pub random: Mutex<u64>,
    pub notes: Mutex<Notes>,
    pub ops: Mutex<Option<DelayedOps<u64>>>,
    pub timer: Mutex<Option<Timer>>,
    pub runs_inline: bool,
    pub is_traced: bool,
}

pub struct Woken(AtomicBool, Arc<World>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
        if self.1.once_in(6) {
            self.1.notes().panics += 1;
            resume_unwind(Box::new(Planned(false)));
        }
    }
}

pub struct Op {
    pub number: usize,
    pub world: Arc<World>,
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

    /// Notes a fault. A panic would be caught.
    pub fn ensure(&self, is_right: bool, what: impl Display) {
        if !is_right {
            self.note(format_args!("FAULT {what}"));
            self.notes().faults.push(what.to_string());
        }
    }

    pub fn may_panic(&self, times: u64) {
        if self.once_in(times) {
            self.note("a planned panic");
            self.notes().panics += 1;
            resume_unwind(Box::new(Planned(false)));
        }
    }

    pub fn ops(&self) -> Option<DelayedOps<u64>> {
        self.ops.lock().unwrap().clone()
    }

    pub fn keys(&self) -> Vec<u64> {
        (0..1 + self.below(3)).map(|_| self.below(4)).collect()
    }

    pub fn timeout(&self) -> Duration {
        if self.once_in(5) { Duration::MAX } else { Duration::from_micros(self.below(9_000)) }
    }

    pub fn act(self: &Arc<Self>) {
        let Some(ops) = self.ops() else { return };
        match self.below(14) {
            0..=3 => self.add(&ops),
            4..=6 => {
                let key = self.below(4);
                self.note(format_args!("check {key}"));
                ops.check(&key);
            }
            7 if self.once_in(3) => {
                let key = self.below(4);
                self.note(format_args!("cancel key {key}"));
                let cancelled = ops.cancel_key(&key);
                let is_right = cancelled.iter().all(|op| op.outcome() == Some(Outcome::Cancelled));
                self.ensure(is_right, "cancelled by key");
            }
            8..=10 => self.use_handle(),
            11 => {
                let (keys, timeout) = (self.keys(), self.timeout());
                if let Ok(watched) = ops.watch(keys, timeout) {
                    let woken = Arc::new(Woken(AtomicBool::new(true), Arc::clone(self)));
                    self.notes().watched.push((Box::pin(watched), woken));
                }
            }
            12 => drop(self.any_watched()),
            _ => self.poll_watched(),
        }
    }

    pub fn add(self: &Arc<Self>, ops: &DelayedOps<u64>) {
        let mut notes = self.notes();
        let number = notes.fates.len();
        notes.fates.push(Fate::default());
        drop(notes);
        let (keys, timeout) = (self.keys(), self.timeout());
        self.note(format_args!("{number} watches {keys:?} for {timeout:?}"));
        let op = Arc::new(Op { number, world: Arc::clone(self) });
        let watch = ops.try_complete_else_watch(op, timeout, keys);
        match watch {
            Ok(Attempt::Watching(handle)) => self.notes().handles.push((number, handle)),
            Ok(Attempt::Completed) => self.notes().fates[number].ended = Some(Outcome::Completed),
            Err(_) => self.notes().fates[number].refused = true,
        }
    }

    pub fn use_handle(self: &Arc<Self>) {
        let handles = self.notes().handles.len() as u64;
        if handles == 0 {
            return;
        }
        let at = self.below(handles) as usize;
        let (number, handle) = self.notes().handles.swap_remove(at);
        let before = handle.outcome();
        let outcome = match self.below(3) {
            0 => return self.note(format_args!("the handle of {number} is dropped")),
            1 => Outcome::Completed,
            _ => Outcome::Cancelled,
        };
        self.note(format_args!("{number} is {outcome:?} by its handle"));
        let ended = match outcome {
            Outcome::Completed => handle.complete(),
            _ => handle.cancel(),
        };
        let is_there = self.ops.lock().unwrap().is_some();
        self.ensure(
            ended == (before.is_none() && is_there) || !is_there,
            format_args!("{number} ended: {ended}"),
        );
        if ended {
            self.ensure(handle.outcome() == Some(outcome), "the outcome by a handle");
            let before = self.notes().fates[number].ended.replace(outcome);
            self.ensure(before.is_none(), format_args!("{number} ended twice"));
        }
    }

    pub fn any_watched(&self) -> Option<Awaited> {
        let watched = self.notes().watched.len() as u64;
        (watched > 0)
            .then(|| self.below(watched) as usize)
            .map(|at| self.notes().watched.swap_remove(at))
    }

    pub fn poll_watched(&self) {
        let Some((mut future, woken)) = self.any_watched() else { return };
        if !woken.0.swap(false, SeqCst) && !self.once_in(5) {
            return self.notes().watched.push((future, woken));
        }
        let waker = Waker::from(Arc::clone(&woken));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.notes().watched.push((future, woken));
        }
    }

    /// A callback or a condition of this operation runs.
    pub fn called(self: &Arc<Self>, number: usize, what: &'static str) {
        self.note(format_args!("{number} {what}"));
        let was_in_callback = std::mem::replace(&mut self.notes().in_callback, true);
        self.ensure(!was_in_callback, format_args!("{number} {what} inside of a callback"));
        self.notes().fates[number].told.push(what);
        self.notes().depth += 1;
        let acted = catch_unwind(AssertUnwindSafe(|| (0..self.below(3)).for_each(|_| self.act())));
        self.notes().depth -= 1;
        self.notes().in_callback = false;
        if let Err(panic) = acted {
            self.ensure(panic.is::<Planned>(), "a panic reaches a callback");
        }
        self.may_panic(6);
    }
}

impl DelayedOp for Op {
    fn try_complete(&self) -> bool {
        let was_tried =
            std::mem::replace(&mut self.world.notes().fates[self.number].is_tried, true);
        self.world.ensure(!was_tried, format_args!("{} is tried twice at a time", self.number));
        let is_over = !self.world.notes().fates[self.number].told.is_empty();
        self.world.ensure(!is_over, format_args!("{} is tried after its end", self.number));
        if self.world.once_in(8) {
            self.world.use_handle();
        }
        self.world.notes().fates[self.number].is_tried = false;
        self.world.may_panic(8);
        self.world.once_in(3)
    }

    fn on_complete(&self) {
        self.world.called(self.number, "completed");
    }

    fn on_expire(&self) {
        self.world.called(self.number, "expired");
    }

    fn on_cancel(&self) {
        self.world.called(self.number, "cancelled");
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        self.world.note(format_args!("{} is dropped", self.number));
        let was = std::mem::replace(&mut self.world.notes().fates[self.number].is_dropped, true);
        self.world.ensure(!was, "dropped twice");
        if !panicking() && self.world.once_in(4) {
            self.world.act();
        }
        if !panicking() && self.world.once_in(8) {
            resume_unwind(Box::new(Planned(false)));
        }
    }
}
