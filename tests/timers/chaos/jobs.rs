//! The jobs of a program: what they have captured, their runs, futures and schedules.

use super::Planned;
use super::world::{State, World};
use cortado::timer::{Handle, Next, OnPanic, Run, Schedule, Turn};
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::panicking;

/// What a job has captured. It acts, or panics, when it is dropped.
pub struct Token {
    pub number: usize,
    pub explodes: bool,
    pub world: Arc<World>,
    pub handle: Option<Handle>,
}

/// A run in progress.
pub struct Guard {
    pub number: usize,
    pub is_timers: bool,
    pub has_panicked: bool,
    pub world: Arc<World>,
}

impl World {
    /// A run begins.
    pub fn begin(self: &Arc<Self>, number: usize, run: &Run) -> Guard {
        self.note(format_args!("{number} begins, run {}", run.number));
        let (waiting, running) = (self.count(State::Waiting), self.count(State::Running));
        let timer = self.timer();
        let origin = self.origin.lock().unwrap().expect("it is known");
        let mut notes = self.notes();
        let (latest, fires_all) = (notes.latest, notes.fires_all);
        let job = &mut notes.jobs[number];
        let is_timers = job.state == State::Waiting;
        assert!(is_timers || job.state == State::Unfired, "{number} was {:?}", job.state);
        let planned = run.planned.saturating_duration_since(origin);
        if let Some(expected) = job.planned.filter(|at| at.as_secs() < 6_000_000_000) {
            assert_eq!(planned, expected, "{number} was planned for another time");
        }
        assert_eq!(job.id, Some(run.id));
        let is_early = latest.as_nanos() < planned.as_nanos().div_ceil(1_000_000) * 1_000_000;
        assert!(!is_timers || fires_all || !is_early, "{number} of {planned:?} at {latest:?}");
        assert!(run.number > job.runs, "{number}: run {} twice", run.number);
        (job.state, job.runs) = (State::Running, run.number);
        (job.is_cancelled, job.next) = (false, None);
        job.is_last = run.remaining == Some(0);
        notes.counts.fired += u64::from(is_timers);
        drop(notes);
        if let Some(timer) = timer.filter(|_| is_timers) {
            assert_eq!((timer.pending(), timer.running()), (waiting - 1, running + 1));
        }
        Guard { number, is_timers, has_panicked: false, world: Arc::clone(self) }
    }
}

impl Guard {
    pub fn may_panic(&mut self) {
        if self.world.once_in(8) {
            self.has_panicked = true;
            self.world.note(format_args!("{} panics", self.number));
            self.world.notes().counts.panicked += u64::from(self.is_timers);
            let explodes = self.world.once_in(4);
            resume_unwind(Box::new(Planned(explodes)));
        }
    }
}

/// The run is over, and the job waits for the next one, if any.
impl Drop for Guard {
    fn drop(&mut self) {
        let ends = self.has_panicked && self.world.config.on_panic == OnPanic::Stop;
        let mut notes = self.world.notes();
        let (stopping, broken) = (notes.stopping, notes.is_broken);
        let job = &mut notes.jobs[self.number];
        if job.state == State::Gone {
            return; // The future of a job that was run by hand.
        }
        job.planned = job.next;
        let goes_on = self.is_timers && job.is_series && !job.is_cancelled && !stopping && !ends;
        let fails = goes_on && broken && job.next.is_none();
        let is_last = fails || job.is_last;
        job.state = if goes_on && !is_last { State::Waiting } else { State::Ending };
        let state = job.state;
        notes.counts.panicked += u64::from(fails);
        drop(notes);
        self.world.note(format_args!("{} is {state:?}", self.number));
    }
}

/// While code of a job runs.
pub struct Depth<'a>(&'a World);

impl<'a> Depth<'a> {
    pub fn enter(world: &'a World) -> Self {
        world.notes().depth += 1;
        Self(world)
    }
}

impl Drop for Depth<'_> {
    fn drop(&mut self) {
        self.0.notes().depth -= 1;
    }
}

impl Token {
    pub fn run(&self, run: &Run) {
        let mut guard = self.world.begin(self.number, run);
        let _depth = Depth::enter(&self.world);
        (0..self.world.below(3)).for_each(|_| self.world.act());
        if guard.is_timers && self.world.once_in(12) {
            self.world.notes().jobs[self.number].is_cancelled = true;
            run.cancel();
        }
        guard.may_panic();
    }

    pub fn run_once(self, run: &Run) {
        let is_timers = self.world.notes().jobs[self.number].state == State::Waiting;
        self.run(run);
        self.finish(is_timers);
    }

    /// It is dropped at the end of its job, whose panic a panic of the destructor is then.
    pub fn finish(self, is_timers: bool) {
        self.world.notes().counts.panicked += u64::from(is_timers && self.explodes);
    }

    pub fn run_async(self, run: Run) -> RunFuture {
        let mut future = self.future(run, None);
        future.token = Some(self);
        future
    }

    pub fn future(&self, run: Run, token: Option<Token>) -> RunFuture {
        let mut guard = self.world.begin(self.number, &run);
        guard.may_panic();
        let (world, polls) = (Arc::clone(&self.world), self.world.below(4));
        RunFuture { guard: Some(guard), token, polls, is_woken: true, world }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut notes = self.world.notes();
        let was = std::mem::replace(&mut notes.jobs[self.number].state, State::Gone);
        let drops = std::mem::take(&mut notes.drops);
        // What nobody has cancelled was taken out by the end of the timer.
        notes.counts.cancelled += u64::from(was == State::Waiting && !drops);
        let is_ended = notes.stopping || drops || was != State::Waiting;
        drop(notes);
        self.world.note(format_args!("{} is dropped, {was:?}", self.number));
        assert!(is_ended || panicking(), "{} was lost", self.number);
        if let Some(handle) = self.handle.take() {
            self.world.drop_handle(handle);
        }
        if !panicking() && self.world.once_in(3) {
            self.world.act();
        }
        self.world.notes().drops = drops;
        if self.explodes && !panicking() {
            resume_unwind(Box::new(Planned(false)));
        }
    }
}

/// A future that waits some times.
pub struct RunFuture {
    pub guard: Option<Guard>,
    pub token: Option<Token>,
    pub polls: u64,
    /// It has woken itself.
    pub is_woken: bool,
    pub world: Arc<World>,
}

/// A future that was woken is polled again, unless it is aborted or the timer ends.
impl Drop for RunFuture {
    fn drop(&mut self) {
        let guard = self.guard.as_ref();
        let guard = guard.filter(|guard| guard.is_timers && !guard.has_panicked);
        let notes = self.world.notes();
        let goes_on = |guard: &Guard| !notes.stopping && !notes.jobs[guard.number].is_aborted;
        let is_lost = self.is_woken && guard.is_some_and(goes_on);
        drop(notes);
        assert!(!is_lost || panicking(), "a future that was woken is dropped");
    }
}

impl Future for RunFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let world = Arc::clone(&self.world);
        let _depth = Depth::enter(&world);
        (0..world.below(2)).for_each(|_| world.act());
        let guard = self.guard.as_mut().expect("it is not polled after its end");
        guard.may_panic();
        let is_timers = guard.is_timers;
        if self.polls == 0 || world.notes().is_free {
            self.guard = None;
            self.token.take().into_iter().for_each(|token| token.finish(is_timers));
            return Poll::Ready(());
        }
        self.polls -= 1;
        let how = world.below(6);
        self.is_woken = how == 1;
        match how {
            0 => {} // Nobody can wake it.
            1 => context.waker().wake_by_ref(),
            _ => world.notes().wakers.push(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// The schedule of the job of this number.
pub struct Plan(pub Arc<World>, pub usize);

impl Schedule for Plan {
    fn next(&mut self, turn: &Turn) -> Option<Next> {
        let Self(world, number) = self;
        if world.once_in(6) {
            let mut notes = world.notes();
            if turn.runs > 0 {
                notes.jobs[*number].state = State::Ending;
            }
            drop(notes);
            if world.once_in(2) {
                world.notes().counts.panicked += u64::from(turn.runs > 0);
                resume_unwind(Box::new(Planned(true)));
            }
            return None;
        }
        let delay = world.delay();
        let at = turn.now.checked_add(delay).filter(|_| world.once_in(2));
        Some(at.map_or(Next::After(delay), Next::At))
    }

    fn remaining(&self) -> Option<u64> {
        self.0.may_panic(8);
        None
    }
}
