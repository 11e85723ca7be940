//! Futures that an executor of jobs runs: a job polls the future, up to [`POLLS`](Host::POLLS)
//! times if it wakes itself.
//!
//! ```text
//!            spawn, wake              job begins               poll: pending
//! IDLE ─────────────────► QUEUED ──────────────► RUNNING ─────────────────► IDLE
//!                            ▲                     │  ▲ │
//!                            │                wake │  │ └── poll: ready ───► DONE
//!                            │                     ▼  │ poll: pending
//!                            └────────────────── WOKEN
//!                              after `POLLS` polls
//! QUEUED ──── the executor drops the job ────► DONE
//! ```
//!
//! # Rules
//! 1. One job of a task exists at a time: only the thread that moves the state to `QUEUED` submits
//!    one.
//! 2. The job owns the future while it polls, and no lock is held meanwhile.
//! 3. A wake during a poll is followed by another poll in the same job, up to
//!    [`POLLS`](Host::POLLS) of them. Then another job follows, so that others of the executor have
//!    their turn. If the executor runs that job at once, inside this one, it gives the turn back:
//!    the jobs of one task do not nest. (Those of several tasks may, in an executor that drains a
//!    queue inside of each submission.) After [`TURNS`](Host::TURNS) such turns the next job runs
//!    elsewhere.
//! 4. A future whose job was dropped, or whose poll has panicked, is dropped.
//! 5. A future that nobody can wake any more is dropped by a job.
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `state` | the job, wakers | the same | AcqRel | what a waker's thread did before the wake, to the poll that follows it |

use super::Job;
use crate::primitives::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Acquire};
use crate::primitives::plain::Arc;
#[cfg(feature = "timer")]
use crate::primitives::plain::Weak;
use crate::primitives::{Mutex, catch_user_panic, ordering_unless_seeded, seeded, thread_cells};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const WOKEN: u8 = 3;
const DONE: u8 = 4;

/// What runs the jobs of a task.
pub trait Host: Send + Sync + 'static {
    /// A future that wakes itself is polled so many times by one job.
    const POLLS: u32;
    /// So many jobs of a task may run in turn, each inside of the one that submits it.
    const TURNS: u32 = u32::MAX;

    /// Runs a job, or drops it. If this panics, it has dropped the job, unless it has begun it.
    fn execute(&self, job: Job);

    /// Runs the job that follows so many. It may not begin inside of this call.
    fn execute_elsewhere(&self, job: Job) {
        self.execute(job);
    }
}

/// The executor of a cache.
impl Host for Box<dyn Fn(Job) + Send + Sync> {
    const POLLS: u32 = 64;

    fn execute(&self, job: Job) {
        self(job);
    }
}

thread_cells! {
    /// The task whose job hands the next one to the executor just now, and whether the executor has
    /// begun that one inside of it.
    static SUBMITTING: Cell<(usize, bool)> = Cell::new((0, false));
}

/// A future of a task.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the [module](self).
struct Task<H: Host> {
    state: AtomicU8,
    work: Mutex<Option<Work>>,
    host: H,
}

/// The future has kept no waker, or its wakers are gone: nobody will wake it. A job drops it, since
/// this may be the thread of whoever has dropped the last waker, with locks held.
impl<H: Host> Drop for Task<H> {
    fn drop(&mut self) {
        let Some(work) = self.work.lock().take() else { return };
        let end = move || {
            catch_user_panic(|| drop(work));
        };
        catch_user_panic(|| self.host.execute(Box::new(end)));
    }
}

/// Runs a future by jobs that `execute` is given.
pub fn spawn(work: Work, execute: Box<dyn Fn(Job) + Send + Sync>) {
    let (state, work) = (AtomicU8::new(QUEUED), Mutex::new(Some(work)));
    let task = Arc::new(Task { state, work, host: execute });
    task.host.execute(job(&task));
}

/// Runs a future, which `work` makes, by jobs of `host`. The caller is one, and polls the future at
/// once.
#[cfg(feature = "timer")]
pub fn start<H: Host>(work: impl FnOnce(WeakTask<H>) -> Work, host: H) {
    let task = Arc::new_cyclic(|task| Task {
        state: AtomicU8::new(QUEUED),
        work: Mutex::new(Some(work(WeakTask(Weak::clone(task))))),
        host,
    });
    Ticket(Some(task)).run();
}

/// Wakes a future as its waker does, but does not keep it from being dropped when its wakers are
/// gone.
#[cfg(feature = "timer")]
pub struct WeakTask<H: Host>(Weak<Task<H>>);

#[cfg(feature = "timer")]
impl<H: Host> WeakTask<H> {
    pub fn wake(&self) {
        self.0.upgrade().into_iter().for_each(Wake::wake);
    }
}

/// The job of a task whose state the caller has moved to `QUEUED`.
fn job<H: Host>(task: &Arc<Task<H>>) -> Job {
    let ticket = Ticket(Some(Arc::clone(task)));
    Box::new(move || ticket.run())
}

/// The right to run the one job of a task.
struct Ticket<H: Host>(Option<Arc<Task<H>>>);

impl<H: Host> Ticket<H> {
    fn run(mut self) {
        let Some(task) = self.0.take() else { return };
        if gives_turn_back(&task) {
            return;
        }
        for _turn in 0..H::TURNS {
            let Some(work) = task.work.lock().take() else { return };
            if !poll(&task, work) || !submit_from_a_job(&task) {
                return;
            }
        }
        task.host.execute_elsewhere(job(&task));
    }
}

/// Polls the future, until it ends or waits. Returns whether it still goes on after
/// [`POLLS`](Host::POLLS) polls: then the state is `QUEUED`.
fn poll<H: Host>(task: &Arc<Task<H>>, mut work: Work) -> bool {
    let waker = Waker::from(Arc::clone(task));
    let mut context = Context::from_waker(&waker);
    let mut polls = 0;
    loop {
        polls += 1;
        task.state.swap(RUNNING, AcqRel);
        let poll = catch_user_panic(|| work.as_mut().poll(&mut context));
        if poll != Some(Poll::Pending) {
            task.state.swap(DONE, AcqRel);
            // A destructor is the user's, as the poll is.
            catch_user_panic(|| drop(work));
            return false;
        }
        // Before the state says so: from then on another job may run.
        let mut place = task.work.lock();
        let waits = task.state.compare_exchange(RUNNING, IDLE, AcqRel, Acquire).is_ok();
        if waits || (polls >= H::POLLS && !seeded("jobs-poll-for-ever")) {
            *place = Some(work);
            if !waits {
                task.state.swap(QUEUED, AcqRel);
            }
            return !waits;
        }
    }
}

/// Submits the next job of a task from its present one. Returns whether the executor has begun it
/// inside of this call: then the caller goes on.
fn submit_from_a_job<H: Host>(task: &Arc<Task<H>>) -> bool {
    let own = (Arc::as_ptr(task).addr(), false);
    let Ok(outer) = SUBMITTING.try_with(|submitting| submitting.replace(own)) else {
        return true;
    };
    // If the executor panics, it has dropped the job, unless it has begun it.
    catch_user_panic(|| task.host.execute(job(task)));
    SUBMITTING.try_with(|submitting| submitting.replace(outer).1).unwrap_or(false)
}

/// Whether this job was begun inside of the call that has submitted it. Notes that.
fn gives_turn_back<H: Host>(task: &Arc<Task<H>>) -> bool {
    let note = |submitting: &Cell<(usize, bool)>| {
        let is_own = submitting.get().0 == Arc::as_ptr(task).addr();
        if is_own {
            submitting.set((submitting.get().0, true));
        }
        is_own
    };
    SUBMITTING.try_with(note).unwrap_or(false)
}

impl<H: Host> Drop for Ticket<H> {
    /// The executor has dropped the job.
    fn drop(&mut self) {
        let Some(task) = self.0.take() else { return };
        task.state.swap(DONE, AcqRel);
        let work = task.work.lock().take();
        catch_user_panic(|| drop(work));
    }
}

impl<H: Host> Wake for Task<H> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let next = |state| match state {
            IDLE => Some(QUEUED),
            RUNNING if seeded("task-forgets-wakes") => Some(RUNNING),
            RUNNING => Some(WOKEN),
            DONE => None,
            // The poll that follows sees what came before this wake, too.
            queued_or_woken => Some(queued_or_woken),
        };
        let ordering = ordering_unless_seeded("task-wake-is-relaxed", AcqRel);
        if self.state.fetch_update(ordering, Acquire, next) == Ok(IDLE) {
            // Who wakes has no part in what the executor does. If it panics, it has dropped the
            // job, unless it has begun it.
            catch_user_panic(|| self.host.execute(job(self)));
        }
    }
}
