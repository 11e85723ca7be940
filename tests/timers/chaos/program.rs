//! The steps of a program, and its executor.

use super::world::{Config, Counts, Runs, State, World};
use super::{Planned, planned};
use crate::common::unplanned;
use cortado::timer::{Next, Rejection, Schedule, Stop, Timer, Turn, Unfired};
use cortado::{Clock, Job};
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The executor of a program.
fn execute(world: &Arc<World>, job: Job) {
    let how = match world.config.runs {
        Runs::Here | Runs::Inline => 2,
        Runs::Queued => 4,
        Runs::Anyhow => world.below(6),
    };
    world.note(format_args!("the executor does {how}"));
    match how {
        0 => drop_job(world, job),
        1 => {
            drop_job(world, job);
            resume_unwind(Box::new(Planned(false)));
        }
        2 => job(),
        3 => {
            job();
            resume_unwind(Box::new(Planned(true)));
        }
        _ => world.notes().queue.push(job),
    }
}

fn drop_job(world: &World, job: Job) {
    let before = std::mem::replace(&mut world.notes().drops, true);
    drop(job);
    let mut notes = world.notes();
    notes.drops = before;
    if world.config.rejection == Rejection::Discard {
        // The next run of a series is another one.
        let series = notes.jobs.iter_mut().filter(|job| job.is_series);
        series.for_each(|job| job.planned = None);
    }
}

/// A task that awaits the end of the timer. Waking it may panic.
pub struct Woken(AtomicBool, Arc<World>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
        if self.1.once_in(4) {
            let drops = std::mem::take(&mut self.1.notes().drops);
            self.1.act();
            self.1.notes().drops = drops;
        }
        self.1.may_panic(8);
    }
}

pub struct End {
    stop: Stop,
    is_begun: bool,
    future: Pin<Box<dyn Future<Output = Vec<Unfired>>>>,
    woken: Arc<Woken>,
}

pub struct Program {
    pub world: Arc<World>,
    ends: Vec<End>,
}

impl Program {
    pub fn new(config: Config, random: u64, is_traced: bool) -> Self {
        let world = Arc::new(World {
            random: Mutex::new(random),
            notes: Mutex::default(),
            timer: Mutex::default(),
            origin: Mutex::default(),
            config,
            is_traced,
        });
        let clock = Arc::clone(&world);
        let builder = Timer::builder()
            .clock(Clock::custom(move || clock.read_clock()))
            .rejection(config.rejection)
            .on_panic(config.on_panic)
            .max_batch(config.batch);
        let builder = if config.has_hook {
            let hook = Arc::clone(&world);
            builder.panic_hook(move |_| hook.may_panic(3))
        } else {
            builder
        };
        let executor = Arc::clone(&world);
        let timer = match config.runs {
            Runs::Here => builder.manual(),
            _ => builder.executor(move |job| execute(&executor, job)).manual(),
        };
        let told = Arc::clone(&world);
        let probe = timer.schedule(Origin(told), |_| ());
        assert!(probe.is_err());
        *world.timer.lock().unwrap() = Some(timer);
        Self { world, ends: Vec::new() }
    }

    pub fn step(&mut self) {
        let world = Arc::clone(&self.world);
        match world.below(24) {
            0..=2 => world.set_clock(),
            3..=7 => self.poll([1, 3, 200, 200][world.below(4) as usize]),
            8..=10 => self.use_queue(4),
            11..=16 => world.act(),
            17 if world.once_in(30) => self.begin_end(),
            18 | 19 => self.poll_end(),
            20 if world.once_in(8) => self.drop_end(),
            21 if world.once_in(40) => self.shutdown(),
            22 if world.once_in(40) && self.ends.is_empty() => self.drop_timer(),
            23 => self.use_unfired(),
            _ => {
                let mut notes = world.notes();
                notes.is_broken &= world.once_in(3);
            }
        }
        self.check();
    }

    pub fn poll(&self, mut budget: u32) {
        let world = &self.world;
        let Some(timer) = world.timer() else { return };
        world.note(format_args!("a poll of {budget}"));
        let polled = planned(|| timer.poll(&mut budget));
        let is_clear = matches!(world.config.runs, Runs::Here | Runs::Inline) && budget > 0;
        let origin = world.origin.lock().unwrap().expect("it is known");
        let notes = world.notes();
        if polled.is_some() && is_clear && !notes.was_broken && !notes.stopping {
            let next = timer.next_deadline();
            assert!(
                next.is_none_or(|next| next > origin + notes.latest.min(notes.now)),
                "{next:?} is left"
            );
        }
    }

    pub fn use_queue(&self, drops_of: u64) {
        let jobs = self.world.notes().queue.len() as u64;
        if jobs == 0 {
            return;
        }
        let at = self.world.below(jobs) as usize;
        let job = self.world.notes().queue.swap_remove(at);
        if self.world.once_in(drops_of) {
            self.world.note("a job is dropped");
            return drop_job(&self.world, job);
        }
        self.world.note("a job runs");
        job();
    }

    pub fn begin_end(&mut self) {
        let (Some(timer), stop) = (self.world.timer(), self.world.any_stop()) else { return };
        let future = Box::pin(async move { timer.shutdown_async(stop).await });
        let woken = Arc::new(Woken(AtomicBool::new(true), Arc::clone(&self.world)));
        self.ends.push(End { stop, is_begun: false, future, woken });
        self.poll_end();
    }

    pub fn poll_end(&mut self) {
        let Some(mut end) = self.ends.pop() else { return };
        let (world, waker) = (&self.world, Waker::from(Arc::clone(&end.woken)));
        if !end.woken.0.swap(false, SeqCst) && !world.once_in(5) {
            return self.ends.insert(0, end);
        }
        if !std::mem::replace(&mut end.is_begun, true) {
            world.stop(end.stop);
        }
        world.note(format_args!("the end by {:?} is polled", end.stop));
        match planned(|| end.future.as_mut().poll(&mut Context::from_waker(&waker))) {
            Some(Poll::Ready(unfired)) => world.take(unfired),
            Some(Poll::Pending) => self.ends.insert(0, end),
            None => {}
        }
    }

    pub fn drop_end(&mut self) {
        self.world.note("an end is dropped");
        drop(self.ends.pop());
    }

    pub fn shutdown(&self) {
        let (world, stop) = (&self.world, self.world.any_stop());
        let Some(timer) = world.timer() else { return };
        let inline = matches!(world.config.runs, Runs::Here | Runs::Inline);
        let never_waits = world.count(State::Running) == 0 && self.ends.is_empty();
        if never_waits && (inline || stop == Stop::Cancel) {
            world.notes().is_free = true;
            world.stop(stop);
            if let Some(unfired) = planned(|| timer.shutdown(stop)) {
                world.take(unfired);
            }
        }
    }

    pub fn drop_timer(&self) {
        self.world.note("the timer is dropped");
        self.world.notes().stopping = true;
        let timer = self.world.timer.lock().unwrap().take();
        drop(timer);
    }

    pub fn use_unfired(&self) {
        let Some(job) = self.world.notes().unfired.pop() else { return };
        if self.world.once_in(2) {
            self.world.note("what did not fire is dropped");
            planned(|| drop(job));
        } else {
            self.world.note("what did not fire runs");
            planned(|| drop(job.run()));
        }
    }

    /// What holds whenever nothing runs.
    pub fn check(&self) {
        assert_eq!(unplanned::count(), 0, "unplanned panics, which the timer has caught");
        let world = &self.world;
        let Some(timer) = world.timer() else { return };
        let (waiting, running) = (world.count(State::Waiting), world.count(State::Running));
        assert_eq!((timer.pending(), timer.running()), (waiting, running), "waiting, running");
        let stats = timer.stats();
        let counts = Counts {
            added: stats.added,
            fired: stats.fired,
            cancelled: stats.cancelled,
            panicked: stats.panicked,
        };
        let mut notes = world.notes();
        if notes.was_broken && world.config.rejection == Rejection::Discard {
            // A run that was left out may have read a broken clock.
            notes.counts.panicked = stats.panicked;
        }
        assert_eq!((counts, stats.lateness.count()), (notes.counts, notes.counts.fired));
        if let Some(job) = notes.jobs.iter().rev().nth(notes.jobs.len() % 7)
            && let Some(id) = job.id
        {
            let is_there = matches!(job.state, State::Waiting | State::Running);
            // The end of a timer forgets the jobs that run.
            let is_right = timer.contains(id) == is_there || (is_there && notes.stopping);
            assert!(is_right, "{id}, which is {:?}", job.state);
        }
    }

    /// All runs and ends come to their ends.
    pub fn end(mut self) -> Counts {
        self.world.note("the end");
        self.world.notes().is_free = true;
        let mut rounds = 0;
        while self.world.count(State::Running) > 0 || !self.ends.is_empty() {
            rounds += 1;
            assert!(rounds < 100, "{} ends wait for ever", self.ends.len());
            let mut notes = self.world.notes();
            notes.is_broken = false;
            notes.now = notes.latest + Duration::from_secs(1);
            let wakers = std::mem::take(&mut notes.wakers);
            drop(notes);
            wakers.into_iter().for_each(Waker::wake);
            for _ in 0..20 {
                self.use_queue(1_000_000);
            }
            self.poll(2000);
            for _ in 0..self.ends.len() {
                if self.ends.last().is_some_and(|end| end.woken.0.load(SeqCst)) {
                    self.poll_end();
                } else {
                    self.ends.rotate_right(1);
                }
            }
            self.check();
        }
        let counts = self.world.notes().counts;
        self.drop_timer();
        for _ in 0..4 {
            let mut notes = self.world.notes();
            let (jobs, wakers) =
                (std::mem::take(&mut notes.queue), std::mem::take(&mut notes.wakers));
            let (handles, unfired) =
                (std::mem::take(&mut notes.handles), std::mem::take(&mut notes.unfired));
            drop(notes);
            jobs.into_iter().for_each(|job| drop_job(&self.world, job));
            wakers.into_iter().for_each(drop);
            handles.into_iter().for_each(|handle| self.world.drop_handle(handle));
            unfired.into_iter().for_each(|job| _ = planned(|| drop(job)));
        }
        assert_eq!(unplanned::count(), 0, "unplanned panics, which the timer has caught");
        for (number, job) in self.world.notes().jobs.iter().enumerate() {
            assert_eq!(job.state, State::Gone, "{number} is left");
        }
        assert_eq!(Arc::strong_count(&self.world), 1, "something is left");
        counts
    }
}

/// Tells the instant at which the timer's time begins.
pub struct Origin(Arc<World>);

impl Schedule for Origin {
    fn next(&mut self, turn: &Turn) -> Option<Next> {
        *self.0.origin.lock().unwrap() = Some(turn.now);
        None
    }
}
