//! Runs: a ticket goes to the executor, the job runs, a future is polled until it ends.

use super::body::{Body, JobFuture, drop_user_code};
use super::series::{Abort, Due};
use super::settings::{Executor, TaskPanic};
use super::shared::{Begun, Shared};
use super::stats::Counters;
use crate::executor::{Host, Job, WeakTask, start};
use crate::primitives::plain::Arc;
use crate::primitives::{catch_user_panic, thread_cells};
use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A poll that an executor has dropped is made on the driver's thread after this time.
const POLL_AGAIN: Duration = Duration::from_millis(10);

thread_cells! {
    /// The timers whose jobs run on this thread, innermost last. While the thread ends, nothing is
    /// noted any more.
    static INSIDE: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

fn address(shared: &Shared) -> usize {
    std::ptr::from_ref(shared).addr()
}

/// Whether the caller is a job of this timer, or other code that the timer has called.
pub fn is_inside(shared: &Shared) -> bool {
    let is_noted = |timers: &RefCell<Vec<usize>>| timers.borrow().contains(&address(shared));
    INSIDE.try_with(is_noted).unwrap_or(false)
}

/// While it exists, code of the user's that this thread runs belongs to the timer: jobs, and their
/// schedules, hooks and destructors. Nothing of it may wait for the timer's end.
pub struct Inside;

impl Inside {
    pub fn enter(shared: &Shared) -> Self {
        let _ = INSIDE.try_with(|timers| timers.borrow_mut().push(address(shared)));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|timers| timers.borrow_mut().pop());
    }
}

/// Runs code of the user's, and returns its panic.
pub fn user_code<T>(run: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(run))
}

/// Ends a run, which may have panicked.
fn end(shared: &Shared, begun: Begun, panic: Option<Box<dyn Any + Send>>) {
    let has_panicked = panic.is_some();
    if let Some(payload) = panic {
        Counters::add(&shared.counters.panicked, 1);
        match &shared.settings.panic_hook {
            Some(hook) => {
                let panic = TaskPanic { id: begun.run.id, payload };
                let _: Option<()> = catch_user_panic(|| hook(panic));
            }
            None => drop_user_code(payload),
        }
    }
    shared.finish_run(begun, has_panicked);
}

/// The right to run a job once. A ticket that is dropped means that the executor refused.
struct Ticket {
    shared: Arc<Shared>,
    due: Due,
    is_used: bool,
}

impl Ticket {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _inside = Inside::enter(&shared);
        self.is_used = true;
        let Some(mut begun) = self.shared.begin(self.due) else { return };
        let run = begun.run.clone();
        match user_code(|| Body::run(&mut begun.body, &run)) {
            Ok(Some(future)) => {
                let work = Some((begun, future));
                let run = |task| FutureRun { shared: Arc::clone(&shared), work, task, abort: None };
                start(|task| Box::pin(run(Arc::new(task))), Polls(Arc::clone(&shared)));
            }
            ended => end(&shared, begun, ended.err()),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_used {
            let _inside = Inside::enter(&self.shared);
            self.shared.reject(self.due);
        }
    }
}

/// Gives a due job to the executor.
pub fn dispatch(shared: &Arc<Shared>, due: Due) {
    let ticket = Ticket { shared: Arc::clone(shared), due, is_used: false };
    match &shared.executor {
        Executor::Elsewhere(executor) if !due.here => {
            // If the executor panics, it drops the ticket.
            let executor = executor.of(due.is_async);
            let _: Option<()> = catch_user_panic(|| executor.execute(Box::new(|| ticket.run())));
        }
        _ => ticket.run(),
    }
}

/// The run of an async job, which lasts until its future ends. A future that is dropped before it
/// is ready ends, too.
struct FutureRun {
    shared: Arc<Shared>,
    work: Option<(Begun, JobFuture)>,
    task: Arc<WeakTask<Polls>>,
    /// Once it has been pending.
    abort: Option<Arc<Abort>>,
}

impl FutureRun {
    /// Whether the run was aborted. From the first call on, an abort wakes the future.
    fn is_aborted(&mut self) -> bool {
        if let Some(abort) = &self.abort {
            return abort.is_asked();
        }
        let Some((begun, _)) = &self.work else { return false };
        let task = Arc::clone(&self.task);
        let abort = Arc::new(Abort::new(move || task.wake()));
        self.abort = Some(Arc::clone(&abort));
        self.shared.note_pending(begun, abort)
    }

    fn end(&mut self, panic: Option<Box<dyn Any + Send>>) {
        if let Some((begun, future)) = self.work.take() {
            drop_user_code(future);
            end(&self.shared, begun, panic);
        }
    }
}

impl Future for FutureRun {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let _inside = Inside::enter(&this.shared);
        let Some((_, future)) = &mut this.work else { return Poll::Ready(()) };
        let mut panic = None;
        if !this.abort.as_ref().is_some_and(|abort| abort.is_asked()) {
            let polled = user_code(|| future.as_mut().poll(context));
            if matches!(polled, Ok(Poll::Pending)) && !this.is_aborted() {
                return Poll::Pending;
            }
            panic = polled.err();
        }
        this.end(panic);
        Poll::Ready(())
    }
}

impl Drop for FutureRun {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let _inside = Inside::enter(&shared);
        self.end(None);
    }
}

/// Runs the polls of a future: jobs of one poll each.
struct Polls(Arc<Shared>);

impl Host for Polls {
    const POLLS: u32 = 1;
    /// Then other jobs have their turn.
    const TURNS: u32 = 64;

    fn execute(&self, job: Job) {
        let Self(shared) = self;
        match &shared.executor {
            Executor::Elsewhere(executor) => {
                let poll = PollJob::new(shared, job);
                executor.of(true).execute(Box::new(|| poll.run()));
            }
            // Not here: this may be the thread of whoever wakes, with locks held.
            Executor::Here => self.execute_elsewhere(job),
        }
    }

    fn execute_elsewhere(&self, job: Job) {
        poll_on_the_driver(&self.0, Duration::ZERO, job);
    }
}

fn poll_on_the_driver(shared: &Arc<Shared>, delay: Duration, job: Job) {
    let poll = PollJob::new(shared, job);
    if let Err(mut refused) = shared.errand(delay, poll, PollJob::run) {
        // The timer has no driver any more: the run ends here.
        drop(refused.job.take());
    }
}

/// A poll that waits in an executor, or for the driver.
struct PollJob {
    shared: Arc<Shared>,
    job: Option<Job>,
}

impl PollJob {
    fn new(shared: &Arc<Shared>, job: Job) -> Self {
        Self { shared: Arc::clone(shared), job: Some(job) }
    }

    fn run(mut self) {
        if let Some(job) = self.job.take() {
            job();
        }
    }
}

impl Drop for PollJob {
    /// The executor has dropped the poll, or the timer has ended.
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            poll_on_the_driver(&self.shared, POLL_AGAIN, job);
        }
    }
}
