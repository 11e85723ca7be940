//! The settings of a timer.

use super::id::TimerId;
use crate::executor::Execute;
use crate::macros::debug_fields;
use std::any::Any;
use std::time::Duration;

/// What becomes of a series whose job has panicked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The next run comes as planned.
    #[default]
    Continue,
    /// The series ends.
    Stop,
}

/// What to do with a run that the executor has dropped: a full queue, a pool that has shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Submit it again after this time, but not before the next tick. The default, with 10 ms.
    Retry(Duration),
    /// Run it on the timer's own thread, where it delays all others. In manual mode, in the next
    /// [`poll`](super::Timer::poll).
    RunHere,
    /// Leave this run out. A job of one run is dropped, a series goes on with its next run. The
    /// timeout of an operation of [`DelayedOps`](super::DelayedOps) is a job of one run: if it is
    /// dropped, the operation is cancelled and does not expire.
    Discard,
}

impl Default for Rejection {
    fn default() -> Self {
        Self::Retry(Duration::from_millis(10))
    }
}

/// A panic of a job, as a hook gets it.
pub struct TaskPanic {
    /// The id of the job.
    pub id: TimerId,
    /// What the job panicked with.
    pub payload: Box<dyn Any + Send>,
}

impl TaskPanic {
    /// The message, if the panic has one.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        let text = self.payload.downcast_ref::<&str>().copied();
        text.or_else(|| self.payload.downcast_ref::<String>().map(String::as_str))
    }
}

debug_fields!(impl TaskPanic, |it| id: it.id, message: it.message());

pub type PanicHook = Box<dyn Fn(TaskPanic) + Send + Sync>;

pub enum Executor {
    /// The driver's thread.
    Here,
    Elsewhere(Elsewhere),
}

/// Where jobs run, if not on the driver's thread.
pub struct Elsewhere {
    pub jobs: Box<dyn Execute>,
    /// For async jobs, if those run elsewhere than jobs that may block.
    pub futures: Option<Box<dyn Execute>>,
}

impl Elsewhere {
    pub fn all(executor: impl Execute) -> Executor {
        Executor::Elsewhere(Self { jobs: Box::new(executor), futures: None })
    }

    pub fn of(&self, is_async: bool) -> &dyn Execute {
        self.futures.as_ref().filter(|_| is_async).unwrap_or(&self.jobs).as_ref()
    }
}

pub struct Settings {
    pub max_pending: usize,
    /// So many due jobs are taken under one hold of the lock.
    pub max_batch: u32,
    pub on_panic: OnPanic,
    pub panic_hook: Option<PanicHook>,
    pub rejection: Rejection,
}
