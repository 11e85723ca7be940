//! Runs: a ticket goes to the executor, the job runs, a future is polled until it ends.

use super::body::{Body, JobFuture};
use super::series::Due;
use super::settings::{Executor, TaskPanic};
use super::shared::{Begun, Shared, drop_user_code};
use super::stats::Counters;
use crate::executor::{Handoff, Ticket as PollTicket};
use crate::primitives::plain::Arc;
use crate::primitives::{Mutex, catch_user_panic, thread_cells};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A poll that an executor has dropped is made on the driver's thread after this time.
const POLL_AGAIN: Duration = Duration::from_millis(10);
/// If an executor runs each poll inside of the one that submits it, other jobs have their turn
/// after so many.
const POLLS: u32 = 64;

thread_cells! {
    /// The timers whose jobs run on this thread, innermost last. While the thread ends, nothing is
    /// noted any more.
    static INSIDE: RefCell<Vec<usize>> = RefCell::new(Vec::new());
    /// The task whose poll hands the next poll to the executor just now.
    static SUBMITTING: Cell<usize> = Cell::new(0);
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

/// Runs code of a job.
fn user_code<T>(run: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(run))
}

fn report(shared: &Shared, begun: &Begun, payload: Box<dyn Any + Send>) {
    Counters::add(&shared.counters.panicked, 1);
    match &shared.settings.panic_hook {
        Some(hook) => {
            let panic = TaskPanic { id: begun.run.id(), payload };
            let _: Option<()> = catch_user_panic(|| hook(panic));
        }
        None => drop_user_code(payload),
    }
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
            Ok(None) => self.shared.finish_run(begun, false),
            Ok(Some(future)) => Task::start(Arc::clone(&self.shared), begun, future),
            Err(payload) => {
                report(&self.shared, &begun, payload);
                self.shared.finish_run(begun, true);
            }
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

/// An async job that runs. A [`Handoff`] keeps at most one poll outstanding and loses no wake-up.
struct Task {
    shared: Arc<Shared>,
    handoff: Handoff,
    work: Mutex<Option<(Begun, JobFuture)>>,
    /// A poll that an executor has run inside of the one that submitted it.
    again: Mutex<Option<PollTicket>>,
}

impl Task {
    fn start(shared: Arc<Shared>, begun: Begun, future: JobFuture) {
        let work = Mutex::new(Some((begun, future)));
        let (handoff, again) = (Handoff::new(), Mutex::new(None));
        let task = Arc::new(Self { shared, handoff, work, again });
        if let Some(ticket) = task.handoff.request() {
            Self::poll(task, ticket);
        }
    }

    fn poll(task: Arc<Self>, ticket: PollTicket) {
        let _inside = Inside::enter(&task.shared);
        let mut next = Some(ticket);
        let mut polls = 0;
        while let Some(ticket) = next {
            if polls == POLLS {
                return Self::poll_on_the_driver(task, ticket, Duration::ZERO);
            }
            polls += 1;
            next = Self::poll_once(&task, ticket);
        }
    }

    /// Returns the next poll, if the executor has begun it on this stack.
    fn poll_once(task: &Arc<Self>, ticket: PollTicket) -> Option<PollTicket> {
        let running = ticket.begin();
        let (begun, mut future) = task.work.lock().take()?;
        let waker = Waker::from(Arc::clone(task));
        let mut context = Context::from_waker(&waker);
        match user_code(|| future.as_mut().poll(&mut context)) {
            Ok(Poll::Pending) => {
                *task.work.lock() = Some((begun, future));
                return Self::submit_from_a_poll(task, running.finish()?);
            }
            Ok(Poll::Ready(())) => {
                drop_user_code(future);
                task.shared.finish_run(begun, false);
            }
            Err(payload) => {
                drop_user_code(future);
                report(&task.shared, &begun, payload);
                task.shared.finish_run(begun, true);
            }
        }
        None
    }

    /// An executor that runs inline would make a stack of polls. So its poll is given back here.
    fn submit_from_a_poll(task: &Arc<Self>, ticket: PollTicket) -> Option<PollTicket> {
        let own = Arc::as_ptr(task).addr();
        let outer = SUBMITTING.try_with(|task| task.replace(own)).ok();
        Self::submit(Arc::clone(task), ticket);
        if let Some(outer) = outer {
            let _ = SUBMITTING.try_with(|task| task.set(outer));
        }
        task.again.lock().take()
    }

    fn submit(task: Arc<Self>, ticket: PollTicket) {
        let shared = Arc::clone(&task.shared);
        match &shared.executor {
            Executor::Elsewhere(executor) => {
                let job = PollJob { task, ticket: Some(ticket) };
                let executor = executor.of(true);
                let _: Option<()> = catch_user_panic(|| executor.execute(Box::new(|| job.run())));
            }
            // Not here: this may be the thread of whoever wakes, with locks held.
            Executor::Here => Self::poll_on_the_driver(task, ticket, Duration::ZERO),
        }
    }

    fn poll_on_the_driver(task: Arc<Self>, ticket: PollTicket, delay: Duration) {
        let job = PollJob { task: Arc::clone(&task), ticket: Some(ticket) };
        if let Err(mut job) = task.shared.errand(delay, job, PollJob::run) {
            // The timer has no driver any more: the run ends here.
            job.ticket = None;
            drop(task.unfinished());
        }
    }

    fn unfinished(&self) -> Option<Unfinished> {
        let work = self.work.lock().take()?;
        Some(Unfinished { shared: Arc::clone(&self.shared), work: Some(work) })
    }
}

/// The future has kept no waker, or its wakers are gone: nobody will ever wake it. So its run ends.
/// Not here: this may be the thread of whoever dropped the last waker, with locks held.
impl Drop for Task {
    fn drop(&mut self) {
        let Some(unfinished) = self.unfinished() else { return };
        match &self.shared.executor {
            Executor::Elsewhere(executor) => {
                let job = Box::new(|| drop(unfinished));
                let _: Option<()> = catch_user_panic(|| executor.of(true).execute(job));
            }
            Executor::Here => drop(self.shared.errand(Duration::ZERO, unfinished, drop)),
        }
    }
}

/// A run whose future ends before it is ready: wherever this is dropped.
struct Unfinished {
    shared: Arc<Shared>,
    work: Option<(Begun, JobFuture)>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _inside = Inside::enter(&self.shared);
        if let Some((begun, future)) = self.work.take() {
            drop_user_code(future);
            self.shared.finish_run(begun, false);
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if let Some(ticket) = self.handoff.request() {
            Self::submit(self, ticket);
        }
    }
}

/// A poll that waits in an executor.
struct PollJob {
    task: Arc<Task>,
    ticket: Option<PollTicket>,
}

impl PollJob {
    fn run(mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let own = Arc::as_ptr(&self.task).addr();
        if SUBMITTING.try_with(|task| task.get() == own).unwrap_or(false) {
            *self.task.again.lock() = Some(ticket);
        } else {
            Task::poll(Arc::clone(&self.task), ticket);
        }
    }
}

/// The executor has dropped the poll.
impl Drop for PollJob {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            Task::poll_on_the_driver(Arc::clone(&self.task), ticket, POLL_AGAIN);
        }
    }
}
