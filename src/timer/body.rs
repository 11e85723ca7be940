//! The user's code of a job.

use super::run::Run;
use crate::primitives::catch_user_panic;
use std::future::Future;
use std::pin::Pin;

/// The future of an async job.
pub type JobFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the closure of a job returns: nothing, or a future. The trait is sealed.
///
/// `Kind` tells the implementations apart, and is inferred.
#[diagnostic::on_unimplemented(
    message = "a job returns `()` or a future of `()`, and not `{Self}`",
    note = "a job that blocks ends with `;`; a future must be `Send` and own what it needs"
)]
pub trait IntoJob<Kind>: Sealed<Kind> {
    #[doc(hidden)]
    const IS_ASYNC: bool;

    #[doc(hidden)]
    fn into_future(self) -> Option<JobFuture>;
}

mod kinds {
    pub trait Sealed<Kind> {}

    /// Of jobs that block.
    pub struct Blocking;
    /// Of jobs that return futures.
    pub struct Async;
    /// Of jobs that return never.
    pub struct Diverging;

    /// A name for the type of what never returns.
    pub trait Returns {
        type Type;
    }

    impl<T> Returns for fn() -> T {
        type Type = T;
    }

    pub type Never = <fn() -> ! as Returns>::Type;
}
use kinds::{Async, Blocking, Diverging, Never, Sealed};

impl Sealed<Blocking> for () {}

impl IntoJob<Blocking> for () {
    const IS_ASYNC: bool = false;

    fn into_future(self) -> Option<JobFuture> {
        None
    }
}

impl Sealed<Diverging> for Never {}

impl IntoJob<Diverging> for Never {
    const IS_ASYNC: bool = false;

    fn into_future(self) -> Option<JobFuture> {
        self
    }
}

impl<F: Future<Output = ()> + Send + 'static> Sealed<Async> for F {}

impl<F: Future<Output = ()> + Send + 'static> IntoJob<Async> for F {
    const IS_ASYNC: bool = true;

    fn into_future(self) -> Option<JobFuture> {
        Some(Box::pin(self))
    }
}

/// A closure that runs once.
type Once = Box<dyn FnOnce(Run) -> Option<JobFuture> + Send>;
/// A closure that runs again and again.
type Repeat = Box<dyn FnMut(Run) -> Option<JobFuture> + Send>;

pub enum Body {
    Once {
        job: Once,
        is_async: bool,
    },
    Repeat {
        job: Repeat,
        is_async: bool,
    },
    /// Something that the timer has to do for itself.
    Errand(Box<dyn FnOnce() + Send>),
}

impl Body {
    pub fn once<R: IntoJob<M>, M>(job: impl FnOnce(Run) -> R + Send + 'static) -> Self {
        let job = Box::new(move |run| job(run).into_future());
        Self::Once { job, is_async: R::IS_ASYNC }
    }

    pub fn repeat<R: IntoJob<M>, M>(mut job: impl FnMut(Run) -> R + Send + 'static) -> Self {
        let job = Box::new(move |run| job(run).into_future());
        Self::Repeat { job, is_async: R::IS_ASYNC }
    }

    /// Whether it can run more than once.
    pub fn repeats(&self) -> bool {
        matches!(self, Self::Repeat { .. })
    }

    /// Whether it makes a future.
    pub fn is_async(&self) -> bool {
        matches!(self, Self::Once { is_async: true, .. } | Self::Repeat { is_async: true, .. })
    }

    /// Runs the job, and leaves in `body` what can run again, also if the job panics. Returns the
    /// future of an async one.
    pub fn run(body: &mut Option<Self>, run: &Run) -> Option<JobFuture> {
        if let Some(Self::Repeat { job, .. }) = body {
            return job(run.clone());
        }
        match body.take()? {
            Self::Once { job, .. } => job(run.clone()),
            Self::Errand(errand) => {
                errand();
                None
            }
            Self::Repeat { .. } => unreachable!("it stays in its place"),
        }
    }
}

/// Drops a value whose destructor may be the user's, and catches its panic. The caller holds no
/// lock.
pub fn drop_user_code<T>(value: T) {
    let _: Option<()> = catch_user_panic(|| drop(value));
}
