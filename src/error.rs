//! The errors of builders and caches.

use std::fmt;
use std::sync::Arc;

/// A setting of a [`Builder`](crate::Builder) that makes no sense, or that the system refused.
///
/// ```
/// use cortado::Cache;
/// use std::time::Duration;
///
/// let builder = Cache::<u32, u32>::builder().expiry_resolution(Duration::ZERO);
/// let error = builder.try_build().unwrap_err();
/// assert_eq!(error.setting(), "expiry_resolution");
/// assert!(error.to_string().starts_with("expiry_resolution: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    setting: &'static str,
    reason: String,
}

impl BuildError {
    pub(crate) fn new(setting: &'static str, reason: impl Into<String>) -> Self {
        Self { setting, reason: reason.into() }
    }

    /// Returns what was built, or panics with the error, in the name of the user's line. That takes
    /// functions throughout: a closure does not hand its caller's line on.
    #[track_caller]
    pub(crate) fn or_fail<T>(built: Result<T, Self>) -> T {
        match built {
            Ok(built) => built,
            Err(error) => error.fail(),
        }
    }

    #[cold]
    #[track_caller]
    fn fail(self) -> ! {
        panic!("{self}")
    }

    /// The name of the setting.
    #[must_use]
    pub fn setting(&self) -> &str {
        self.setting
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.reason)
    }
}

impl std::error::Error for BuildError {}

/// A time limit has ended; see [`Cache::within`](crate::Cache::within).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit has ended")
    }
}

impl std::error::Error for TimedOut {}

/// Why a [`LoadingCache`](crate::LoadingCache) has no value within a time limit; see
/// [`LoadingCache::get_within`](crate::LoadingCache::get_within).
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// The loader returned this error.
    Failed(Arc<E>),
    /// The hard limit has come. The load goes on.
    TimedOut,
}

impl<E> Clone for LoadError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(Arc::clone(error)),
            Self::TimedOut => Self::TimedOut,
        }
    }
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::TimedOut => TimedOut.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for LoadError<E> {}

/// The result of [`Cache::invalidate_entries_if`](crate::Cache::invalidate_entries_if), which
/// carries nothing: the entries are gone when the call returns.
pub type PredicateId = String;

/// The error of [`Cache::invalidate_entries_if`](crate::Cache::invalidate_entries_if), which does
/// not occur. For programs that come from moka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredicateError {
    /// The cache was built without support for this. No cache is.
    InvalidationClosuresDisabled,
}

impl fmt::Display for PredicateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("support for invalidation closures is disabled")
    }
}

impl std::error::Error for PredicateError {}
