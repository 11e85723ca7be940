//! The user's code of a job.

use super::run::Run;
use crate::primitives::catch_user_panic;
use std::future::Future;
use std::pin::Pin;

/// The future of an async job.
pub type JobFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pub enum Body {
    Once(Box<dyn FnOnce(&Run) + Send>),
    Repeat(Box<dyn FnMut(&Run) + Send>),
    OnceTask(Box<dyn FnOnce(Run) -> JobFuture + Send>),
    RepeatTask(Box<dyn FnMut(Run) -> JobFuture + Send>),
    /// Something that the timer has to do for itself.
    Errand(Box<dyn FnOnce() + Send>),
}

impl Body {
    pub fn once_task<F: Future<Output = ()> + Send + 'static>(
        job: impl FnOnce(Run) -> F + Send + 'static,
    ) -> Self {
        Self::OnceTask(Box::new(move |run| Box::pin(job(run))))
    }

    pub fn repeat_task<F: Future<Output = ()> + Send + 'static>(
        mut job: impl FnMut(Run) -> F + Send + 'static,
    ) -> Self {
        Self::RepeatTask(Box::new(move |run| Box::pin(job(run))))
    }

    /// Whether it can run more than once.
    pub fn repeats(&self) -> bool {
        matches!(self, Self::Repeat(_) | Self::RepeatTask(_))
    }

    /// Whether it makes a future.
    pub fn is_async(&self) -> bool {
        matches!(self, Self::OnceTask(_) | Self::RepeatTask(_))
    }

    /// Runs the job, and leaves in `body` what can run again, also if the job panics. Returns the
    /// future of an async one.
    pub fn run(body: &mut Option<Self>, run: &Run) -> Option<JobFuture> {
        match body {
            Some(Self::Repeat(job)) => job(run),
            Some(Self::RepeatTask(job)) => return Some(job(run.clone())),
            _ => match body.take() {
                Some(Self::Once(job)) => job(run),
                Some(Self::OnceTask(job)) => return Some(job(run.clone())),
                Some(Self::Errand(errand)) => errand(),
                _ => {}
            },
        }
        None
    }
}

/// Drops a value whose destructor may be the user's, and catches its panic. The caller holds no
/// lock.
pub fn drop_user_code<T>(value: T) {
    let _: Option<()> = catch_user_panic(|| drop(value));
}
