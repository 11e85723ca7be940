//! Tasks that work for a call. While one runs a loader it goes on without its caller; otherwise it
//! ends with the call.

use crate::error::LoadError;
use crate::span;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::timeout;

const RUNS_LOADER: u8 = 1;
const IS_ALONE: u8 = 2;

/// What a task and its caller know of each other.
#[derive(Default)]
pub struct Course(AtomicU8);

impl Course {
    /// Before a loader runs. False if the caller is gone: then nobody wants the value.
    pub fn begin_loader(&self) -> bool {
        self.0.fetch_or(RUNS_LOADER, Ordering::AcqRel) & IS_ALONE == 0
    }

    /// After it has run and its values are stored.
    pub fn end_loader(&self) -> bool {
        self.0.fetch_and(!RUNS_LOADER, Ordering::AcqRel) & IS_ALONE == 0
    }
}

/// The caller's end.
struct Caller(Arc<Course>, AbortHandle);

impl Drop for Caller {
    fn drop(&mut self) {
        if self.0.0.fetch_or(IS_ALONE, Ordering::AcqRel) & RUNS_LOADER == 0 {
            self.1.abort();
        }
    }
}

/// How long a call waits, and how long afterwards its task may begin its loader.
#[derive(Clone, Copy)]
pub struct Limits {
    pub wait: Duration,
    pub linger: Duration,
}

/// Runs the task, and waits for it as long as the limits say.
pub async fn run<T, E, F>(
    limits: Limits,
    task: impl FnOnce(Arc<Course>) -> F,
) -> Result<T, LoadError<E>>
where
    T: Send + 'static,
    E: Send + Sync + 'static,
    F: Future<Output = Result<T, LoadError<E>>> + Send + 'static,
{
    let course = Arc::<Course>::default();
    let mut task = tokio::spawn(span::of_caller(task(Arc::clone(&course))));
    let caller = Caller(course, task.abort_handle());
    if let Ok(ended) = timeout(limits.wait, &mut task).await {
        return ended.unwrap_or(Err(LoadError::Aborted));
    }
    if !limits.linger.is_zero() {
        tokio::spawn(async move {
            let _caller = caller;
            let _ = timeout(limits.linger, task).await;
        });
    }
    Err(LoadError::TimedOut)
}
