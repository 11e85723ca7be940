//! What timers refuse, and why.

use std::fmt;

/// Why a timer did not take a job.
///
/// ```
/// use cortado::timer::{Missed, Stop, Timer, TimerError};
/// use std::time::Duration;
///
/// let timer = Timer::builder().manual();
/// let too_short = timer.every(Duration::from_micros(10), Missed::Skip, |_| ());
/// assert_eq!(too_short.unwrap_err(), TimerError::TooShort);
/// let id = timer.after(Duration::from_secs(1), |_| ())?.detach();
/// timer.shutdown(Stop::Cancel);
/// assert_eq!(timer.after(Duration::from_secs(1), |_| ()).unwrap_err(), TimerError::Stopped);
/// assert!(!timer.reschedule(id, Duration::ZERO), "it has no next run");
/// # Ok::<(), TimerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerError {
    /// The timer was shut down.
    Stopped,
    /// As many jobs wait as the timer may hold.
    Full,
    /// A period or an interval is shorter than a tick.
    TooShort,
    /// There is nothing to wait for: a list without intervals, or one that is repeated zero times;
    /// a schedule without a run; or an operation without keys.
    Empty,
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "the timer was shut down",
            Self::Full => "as many jobs wait as the timer may hold",
            Self::TooShort => "an interval is shorter than a tick",
            Self::Empty => "there is nothing to wait for",
        })
    }
}

impl std::error::Error for TimerError {}
