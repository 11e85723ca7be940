//! The jobs of a timer, under one lock.
//!
//! # Rules
//!
//! 1. No user code runs under the lock: no job, no schedule, no source of time, no destructor of
//!    what a job captured. Bodies and plans are taken out first, and dropped after unlocking.
//! 2. A job changes its state only under the lock, and its count with it. So `len` is exact.
//! 3. When a job is handed to an executor, its body stays here. The *ticket* in the executor's
//!    queue only names the job. So a queued job can still be cancelled or rescheduled, which makes
//!    its ticket void, and an executor that drops a ticket loses no job (but for a
//!    [`Rejection::Discard`]).
//! 4. The driver reads the next deadline and publishes the instant until which it sleeps in one
//!    hold of the lock. A thread that inserts an earlier job under the lock sees that instant, and
//!    wakes the driver. No other insertion wakes it, unless the timer is ending.
//! 5. A run ends when the body and the plan are back under the lock, or dropped. So whoever waits
//!    until no job runs does not meet a value that a job has captured.
//!
//! An *errand* is a job of the timer's own. No user gets its id, and no count includes it.

use super::body::{Body, drop_user_code};
use super::core::TimerCore;
use super::error::TimerError;
use super::id::TimerId;
use super::run::Run;
use super::schedule::{Plan, Ran, Scale, after};
use super::series::{Abortable, Due, Entry, State};
use super::settings::{Executor, OnPanic, Rejection, Settings};
use super::stats::Counters;
use super::stopping::Stopping;
use crate::primitives::plain::{Arc, Weak};
use crate::primitives::{Condvar, Mutex, MutexGuard, catch_user_panic, seeded};
use crate::wakers::Wakers;
use std::collections::HashMap;
use std::time::Duration;

/// [`Jobs::parked_until`] while the driver is awake: it will read the next deadline by itself.
pub const AWAKE: u64 = 0;

/// Jobs that did not fire: the id, the deadline in the wheel, and the job.
pub type UnfiredJobs = Vec<(TimerId, u64, Entry)>;

/// The state under the lock.
pub struct Jobs {
    pub core: TimerCore<Entry>,
    /// How many jobs wait or are queued.
    pub waiting: usize,
    pub running: usize,
    /// Of the runs that were aborted, whose futures have been pending, or that the timer's end has
    /// left without an entry.
    pub aborts: HashMap<TimerId, Abortable>,
    /// The driver sleeps until this instant.
    pub parked_until: u64,
    pub stopping: Option<Stopping>,
    /// So many callers wait for the timer's end. One of them takes the jobs that did not fire.
    pub awaited_by: usize,
    /// Those of them that settle.
    pub settled_by: usize,
    /// Those of them that are tasks.
    pub tasks: Wakers,
    /// The driver wakes the tasks at this instant: the earliest of their limits.
    pub wake_tasks_at: u64,
    pub has_driver: bool,
}

impl Jobs {
    /// Whether nothing waits and nothing runs.
    pub fn is_done(&self) -> bool {
        self.waiting == 0 && self.running == 0
    }

    /// Whether running futures are still polled after a cancellation: only while a caller waits for
    /// the end. Otherwise the driver might never end.
    fn are_runs_polled(&self) -> bool {
        self.running > 0 && self.awaited_by > 0
    }

    /// Makes jobs that were due by `limit`, and that wait since an executor has rejected them, due
    /// at `limit`.
    pub fn hasten_rejected(&mut self, limit: u64) {
        let waits = |&(_, deadline, entry): &(TimerId, u64, &Entry)| {
            // A drain has put off what waits for ever.
            let is_put_back = entry.planned <= limit && limit < deadline && deadline < u64::MAX;
            is_put_back && entry.state == State::Waiting && !entry.is_errand
        };
        let ids: Vec<_> = self.core.slab().iter().filter(waits).map(|(id, ..)| id).collect();
        ids.into_iter().for_each(|id| self.core.schedule(id, limit));
    }

    /// Whether the driver's thread has nothing more to do.
    pub fn is_over(&self) -> bool {
        match self.stopping {
            None => false,
            // Errands may be left.
            Some(Stopping::Cancel) => !self.are_runs_polled() && self.core.waiting() == 0,
            Some(Stopping::Settle(_) | Stopping::Drain(_) | Stopping::FireAll) => self.is_done(),
        }
    }

    /// Whether the end has nothing more to wait for: no job runs or is queued, and none that waits
    /// is due within the limit. Nothing is accepted or moved any more, and no job of a later
    /// deadline begins, whatever the clock says from now on. So this needs no reading of the clock.
    pub fn is_drained(&self) -> bool {
        let Some(end) = self.stopping.and_then(Stopping::limit) else { return false };
        self.running == 0 && self.waiting == self.core.waiting() && !self.core.has_due_by(end)
    }

    /// Whether the time in which jobs may begin is over at `now`.
    pub fn has_stopped(&self, now: u64) -> bool {
        match self.stopping {
            Some(Stopping::Cancel) => true,
            Some(Stopping::Drain(end)) => end <= now,
            Some(Stopping::Settle(_) | Stopping::FireAll) | None => false,
        }
    }

    /// When the driver must look next: when the wheel has work, or a drain ends.
    pub fn next_look(&self) -> u64 {
        let next = || self.core.next_deadline().unwrap_or(u64::MAX);
        match self.stopping {
            None | Some(Stopping::Settle(_)) => next(),
            Some(Stopping::Drain(end)) => next().min(end),
            Some(Stopping::FireAll | Stopping::Cancel) if self.core.waiting() > 0 => 0,
            Some(Stopping::FireAll | Stopping::Cancel) => u64::MAX,
        }
    }

    /// Makes the errands with deadlines up to `by` due now. False if no such errand waits.
    pub fn hasten_errands(&mut self, now: u64, by: u64) -> bool {
        let now = now - now % self.core.slab().tick();
        let waits = |&(id, deadline): &(TimerId, u64)| {
            deadline > now && self.core.slab().get(id).is_some_and(|entry| entry.is_errand)
        };
        let due = self.core.soonest().take_while(|&(_, deadline)| deadline <= by);
        let errands: Vec<_> = due.filter(waits).collect();
        errands.iter().for_each(|&(id, _)| self.core.schedule(id, now));
        !errands.is_empty()
    }

    /// Takes all jobs out. A running job finishes its present run, which is its last.
    pub fn take_all(&mut self) -> impl Iterator<Item = (TimerId, u64, Entry)> + use<> {
        self.waiting = 0;
        if self.running > 0 {
            let runs = |(id, _, entry): (TimerId, u64, &Entry)| {
                (entry.state == State::Running && !entry.is_errand).then_some(id)
            };
            for id in self.core.slab().iter().filter_map(runs) {
                self.aborts.entry(id).or_insert(Abortable::Begun);
            }
        }
        self.core.take_all().filter(|(_, _, entry)| entry.state != State::Running)
    }

    pub fn entry(&mut self, id: TimerId) -> Option<&mut Entry> {
        self.core.slab_mut().get_mut(id)
    }

    /// The job with this id, unless it is an errand: an id of another timer may be that of an
    /// errand here.
    pub fn named(&mut self, id: TimerId) -> Option<&mut Entry> {
        self.entry(id).filter(|entry| !entry.is_errand)
    }

    /// Whether a job waits or runs under this id.
    pub fn contains(&self, id: TimerId) -> bool {
        self.core.slab().get(id).is_some_and(|entry| !entry.is_errand)
    }

    /// The job, unless this ticket is void.
    fn queued(&mut self, due: Due) -> Option<&mut Entry> {
        self.entry(due.id).filter(|it| it.state == State::Queued && it.ticket == due.ticket)
    }

    /// Whether the driver sleeps too long for a job with this deadline. If so, the caller must wake
    /// it, and it counts as awake from now on.
    #[must_use]
    fn oversleeps(&mut self, deadline: u64) -> bool {
        let oversleeps = self.core.tick_start(deadline) < self.parked_until;
        if oversleeps {
            self.parked_until = AWAKE;
        }
        oversleeps
    }
}

/// A run that has begun.
pub struct Begun {
    pub run: Run,
    pub body: Option<Body>,
    plan: Plan,
    planned: u64,
    /// How much it adds to [`Jobs::running`]; see [`Entry::weight`].
    weight: usize,
}

/// See the [module](self).
pub struct Shared {
    pub jobs: Mutex<Jobs>,
    /// The driver sleeps here.
    pub wake: Condvar,
    /// Threads that wait for the end of the timer sleep here.
    pub done: Condvar,
    pub scale: Scale,
    pub tick: u64,
    pub settings: Settings,
    pub executor: Executor,
    pub counters: Counters,
    /// A pointer to itself. A run gets an `Arc` made of it, to reach its own job.
    this: Weak<Shared>,
}

impl Shared {
    pub fn new(scale: Scale, tick: Duration, settings: Settings, executor: Executor) -> Arc<Self> {
        let core = TimerCore::new(tick, 0);
        let tick = core.slab().tick();
        Arc::new_cyclic(|this| Self {
            jobs: Mutex::new(Jobs {
                core,
                waiting: 0,
                running: 0,
                aborts: HashMap::new(),
                parked_until: AWAKE,
                stopping: None,
                awaited_by: 0,
                settled_by: 0,
                tasks: Wakers::default(),
                wake_tasks_at: u64::MAX,
                has_driver: false,
            }),
            wake: Condvar::new(),
            done: Condvar::new(),
            scale,
            tick,
            settings,
            executor,
            counters: Counters::default(),
            this: Weak::clone(this),
        })
    }

    /// Accepts a job, whose first run is due at `deadline`.
    pub fn insert(
        &self,
        deadline: impl FnOnce() -> u64,
        plan: Plan,
        body: Body,
    ) -> Result<TimerId, TimerError> {
        let mut entry = Entry::new(0, plan, body);
        // The clock may panic: the entry catches what the job's destructor does then.
        entry.planned = deadline();
        let deadline = entry.planned;
        let jobs = self.jobs.lock();
        let refused = if jobs.stopping.is_some() && !seeded("timer-accepts-after-the-end") {
            Some(TimerError::Stopped)
        } else {
            (jobs.waiting >= self.settings.max_pending).then_some(TimerError::Full)
        };
        if let Some(error) = refused {
            drop(jobs); // Destructors may use the timer.
            drop_user_code(entry);
            return Err(error);
        }
        let id = self.link(jobs, deadline, entry).ok_or(TimerError::Full)?;
        Counters::add(&self.counters.added, 1);
        Ok(id)
    }

    /// Calls `errand` with `value` on the driver's thread, `delay` from now.
    ///
    /// # Errors
    /// Returns the value if the timer was cancelled, and nobody polls the futures that still run.
    pub fn errand<T: Send + 'static>(
        &self,
        delay: Duration,
        value: T,
        errand: impl FnOnce(T) + Send + 'static,
    ) -> Result<(), T> {
        // Without a delay it is due at once, whatever this thread's clock says. Passing a panic of
        // the clock on would lose it.
        let later = || after(self.scale.now(), delay);
        let deadline = if delay.is_zero() { 0 } else { catch_user_panic(later).unwrap_or(0) };
        let jobs = self.jobs.lock();
        if jobs.stopping == Some(Stopping::Cancel) && !jobs.are_runs_polled() {
            return Err(value);
        }
        let body = Body::Errand(Box::new(move || errand(value)));
        let mut entry = Entry::new(deadline, Plan::Once, body);
        entry.runs_here = true;
        self.link(jobs, deadline, entry);
        Ok(())
    }

    /// Puts a job into the wheel, and unlocks. Drops it if ids cannot name so many.
    fn link(&self, mut jobs: MutexGuard<'_, Jobs>, deadline: u64, entry: Entry) -> Option<TimerId> {
        let weight = entry.weight();
        match jobs.core.insert(deadline, entry) {
            Ok(id) => {
                jobs.waiting += weight;
                self.unlock(jobs, Some(deadline));
                Some(id)
            }
            Err(entry) => {
                drop(jobs);
                drop_user_code(entry);
                None
            }
        }
    }

    /// Unlocks. Wakes the driver if it sleeps too long for a job with this deadline. While the
    /// timer ends, wakes every sleeper.
    pub fn unlock(&self, mut jobs: MutexGuard<'_, Jobs>, deadline: Option<u64>) {
        let oversleeps = deadline.is_some_and(|deadline| jobs.oversleeps(deadline));
        if jobs.stopping.is_some() {
            return self.wake_all(jobs);
        }
        drop(jobs);
        if oversleeps && !seeded("timer-inserts-in-silence") {
            self.wake.notify_one();
        }
    }

    /// Unlocks. Wakes the driver, and all threads and tasks that wait for the end.
    pub fn wake_all(&self, mut jobs: MutexGuard<'_, Jobs>) {
        jobs.wake_tasks_at = u64::MAX;
        let tasks = jobs.tasks.take_all();
        drop(jobs);
        self.wake.notify_all();
        self.done.notify_all();
        for task in tasks {
            let _: Option<()> = catch_user_panic(|| task.wake());
        }
    }

    /// The present, or `other` if the user's clock panics, which must lose no job.
    pub fn now_or(&self, other: u64) -> u64 {
        catch_user_panic(|| self.scale.now()).unwrap_or(other)
    }

    /// Begins the run for a ticket; `None` if the ticket is void.
    pub fn begin(&self, due: Due) -> Option<Begun> {
        let now = self.now_or(0);
        let mut jobs = self.jobs.lock();
        let is_late = matches!(jobs.stopping, Some(Stopping::Drain(end)) if end < now);
        if is_late && jobs.awaited_by > 0 && !due.is_errand {
            // No job begins after the limit. Whoever waits for the end of the drain takes it out.
            if let Some(entry) = jobs.queued(due) {
                entry.state = State::Waiting;
                // Never due again. The job keeps the instant for which it was planned.
                jobs.core.schedule(due.id, u64::MAX);
                self.wake_all(jobs);
            }
            return None;
        }
        let begun = self.take_run(jobs, due, now)?;
        if begun.weight > 0 {
            self.counters.fire(begun.run.late);
        }
        Some(begun)
    }

    /// Takes a queued job out for its next run, unless the ticket is void.
    fn take_run(&self, mut jobs: MutexGuard<'_, Jobs>, due: Due, now: u64) -> Option<Begun> {
        let entry = jobs.queued(due)?;
        let weight = entry.weight();
        entry.state = State::Running;
        entry.runs += 1;
        entry.runs_here = false;
        let (planned, number, remaining) = (entry.planned, entry.runs, entry.remaining);
        let (body, plan) = (entry.body.take(), entry.plan.take().unwrap_or(Plan::Once));
        jobs.waiting -= weight;
        jobs.running += weight;
        drop(jobs);
        let run = Run {
            series: self.this.upgrade()?,
            id: due.id,
            planned: self.scale.instant(planned),
            late: Duration::from_nanos(now.saturating_sub(planned)),
            number,
            remaining,
        };
        Some(Begun { run, body, plan, planned, weight })
    }

    /// Ends a run: puts the job back for its next run, or removes the job. A run counts as running
    /// until what its job captured is dropped (rule 5).
    pub fn finish_run(&self, begun: Begun, has_panicked: bool) {
        let Begun { run, body, mut plan, planned, weight } = begun;
        let repeats = body.as_ref().is_some_and(Body::repeats)
            && !(has_panicked && self.settings.on_panic == OnPanic::Stop);
        let next = if repeats { self.next_run(&run, &mut plan, planned) } else { None };
        let remaining = next.map_or(Some(0), |_| plan.remaining(run.number + 1));

        let mut jobs = self.jobs.lock();
        if !jobs.aborts.is_empty() {
            jobs.aborts.remove(&run.id);
        }
        let is_stopping = jobs.stopping.is_some();
        if let Some(entry) = jobs.entry(run.id) {
            let next = entry.next.take().or(next);
            let next = next.filter(|_| repeats && !entry.is_ending && !is_stopping);
            if let Some(next) = next {
                (entry.body, entry.plan) = (body, Some(plan));
                (entry.state, entry.planned) = (State::Waiting, next);
                entry.remaining = remaining;
                jobs.running -= weight;
                jobs.waiting += 1;
                jobs.core.schedule(run.id, next);
                return self.unlock(jobs, Some(next));
            }
            // No run follows, whoever asks for one while the captured values are dropped.
            entry.remaining = Some(0);
        }
        if body.is_some() && !seeded("timer-tells-before-it-drops") {
            drop(jobs);
            drop_user_code(body);
            drop_user_code(plan);
            jobs = self.jobs.lock();
        }
        jobs.running -= weight;
        jobs.core.remove(run.id);
        self.unlock(jobs, None);
    }

    /// The instant of the next run, as the run has set it, else as the schedule says.
    fn next_run(&self, run: &Run, plan: &mut Plan, planned: u64) -> Option<u64> {
        let mut jobs = self.jobs.lock();
        let is_stopping = jobs.stopping.is_some();
        let entry = jobs.entry(run.id).filter(|entry| !entry.is_ending && !is_stopping)?;
        let rescheduled = entry.next;
        drop(jobs);
        if rescheduled.is_some() {
            return rescheduled;
        }
        let next = || {
            let ran = Ran { runs: run.number, planned, now: self.scale.now() };
            plan.next(ran, &self.scale)
        };
        catch_user_panic(next).unwrap_or_else(|| {
            Counters::add(&self.counters.panicked, 1);
            None
        })
    }

    /// Deals with a ticket that the executor has dropped, by the timer's [`Rejection`].
    pub fn reject(&self, due: Due) {
        let now = self.now_or(0);
        let mut jobs = self.jobs.lock();
        let now = match jobs.stopping {
            // What was due when the timer began to settle is not late.
            Some(Stopping::Settle(limit)) => now.min(limit),
            _ => now,
        };
        let runs_here = match (self.settings.rejection, jobs.stopping) {
            (Rejection::RunHere, _) => true,
            (_, Some(Stopping::Settle(_) | Stopping::FireAll)) => true,
            (Rejection::Retry(_) | Rejection::Discard, _) => false,
        };
        let Some(entry) = jobs.queued(due) else { return };
        Counters::add(&self.counters.rejected, 1);
        if self.settings.rejection == Rejection::Discard && !runs_here {
            // Goes on to the next run, as if this one had ended.
            let skipped = self.take_run(jobs, due, now);
            return skipped.into_iter().for_each(|run| self.finish_run(run, false));
        }
        let deadline = match self.settings.rejection {
            // Not in this very tick: an executor that refuses at once would get the job again and
            // again.
            Rejection::Retry(delay) if !runs_here => {
                after(now, delay.max(Duration::from_nanos(self.tick)))
            }
            _ => now - now % self.tick,
        };
        (entry.state, entry.runs_here) = (State::Waiting, runs_here);
        jobs.core.schedule(due.id, deadline);
        self.unlock(jobs, Some(deadline));
    }
}
