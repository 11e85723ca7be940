//! When jobs run again.

use super::error::TimerError;
use crate::clock::{Ticker, Timestamp, nanos};
use crate::primitives::catch_user_panic;
use crate::primitives::time::{Duration, Instant};

/// What a fixed-rate job does about runs whose time has passed: while it ran itself, while the
/// executor was busy, while the clock jumped.
///
/// The first of them comes in any case, late. `Missed` is about the others: if five runs have
/// passed, one comes by `Skip`, two by `Once` and five by `Burst`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// Leaves the others out. The next run is at the next multiple of the period.
    #[default]
    Skip,
    /// Makes up for all others by a second run, right after the first. Then the job keeps to the
    /// multiples of the period.
    Once,
    /// Makes up for each of the others, one after the other, as `java.util.Timer` does.
    Burst,
}

/// How often a list of intervals is gone through.
///
/// ```
/// use cortado::timer::{Repeat, Timer, TimerError};
/// use std::time::Duration;
///
/// let timer = Timer::builder().manual();
/// let green_and_red = [20, 10].map(Duration::from_secs);
/// let all_day = timer.intervals(green_and_red, Repeat::Forever, |_| println!("switch"))?;
/// let three_times = timer.intervals(green_and_red, Repeat::Times(3), |run| {
///     println!("{:?} are left", run.remaining); // 5, 4, 3, 2, 1, 0
/// })?;
/// let never = timer.intervals(green_and_red, Repeat::Times(0), |_| ());
/// assert_eq!(never.unwrap_err(), TimerError::Empty);
/// # drop((all_day, three_times));
/// # Ok::<(), TimerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Once: the job runs as often as there are intervals.
    Once,
    /// So many times.
    Times(u64),
    /// For ever.
    Forever,
}

/// What a [`Schedule`] is asked with: the last run, or the start.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// How many runs have begun so far; zero at the start.
    pub runs: u64,
    /// When the last run was planned for; at the start, the present.
    pub planned: Instant,
    /// The present, at the end of the last run.
    pub now: Instant,
}

/// The next run, by a [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this instant; at once if it has passed.
    At(Instant),
    /// After this time, counted from when the schedule returns it.
    After(Duration),
}

/// When a job runs: a calendar, a back-off, anything.
///
/// # Contract
///
/// [`next`](Self::next) is called once before the job is accepted, on the thread of the caller, and
/// after each run, on the thread of that run. No lock is held. `None` ends the series. If it panics
/// after a run, the panic is counted as one of the job, and the series ends.
///
/// A run that [`Run::reschedule`](super::Run::reschedule) has set is one for which the schedule is
/// not asked. [`Turn::runs`] counts it all the same.
///
/// ```
/// use cortado::Clock;
/// use cortado::timer::{Next, Schedule, Timer, Turn};
/// use std::time::Duration;
///
/// /// 1 s, 2 s, 4 s, … up to a minute.
/// struct Doubling(Duration);
///
/// impl Schedule for Doubling {
///     fn next(&mut self, turn: &Turn) -> Option<Next> {
///         let delay = self.0 * 2u32.saturating_pow(turn.runs as u32);
///         Some(Next::After(delay.min(Duration::from_secs(60))))
///     }
/// }
///
/// let (clock, hand) = Clock::manual();
/// let timer = Timer::builder().clock(clock).manual();
/// timer.schedule(Doubling(Duration::from_secs(1)), |run| println!("try {}", run.number))?.detach();
/// for (delay, runs) in [(1, 1), (1, 0), (1, 1), (4, 1)] {
///     hand.advance(Duration::from_secs(delay));
///     assert_eq!(timer.poll(&mut 1024), runs);
/// }
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
pub trait Schedule: Send + 'static {
    /// The next run after this turn.
    fn next(&mut self, turn: &Turn) -> Option<Next>;

    /// How many runs are left after the one that [`next`](Self::next) has set; `None` if there is
    /// no end, or it is not known. This is called after `next`, and
    /// [`Run::remaining`](super::Run::remaining) returns it.
    ///
    /// `Some(0)` is binding: no [`reschedule`](super::Run::reschedule) adds a run then.
    fn remaining(&self) -> Option<u64> {
        None
    }
}

/// The scale of a timer: nanoseconds since its start.
pub struct Scale {
    ticker: Ticker,
    start: Timestamp,
}

impl Scale {
    pub fn new(ticker: Ticker) -> Self {
        let start = ticker.now();
        Self { ticker, start }
    }

    /// The present. This may call the user's source of time.
    pub fn now(&self) -> u64 {
        self.ticker.now().saturating_since(self.start).raw()
    }

    pub fn of_instant(&self, instant: Instant) -> u64 {
        self.ticker.time_of(instant).saturating_since(self.start).raw()
    }

    pub fn instant(&self, at: u64) -> Instant {
        self.ticker.instant_of(self.start.saturating_add(crate::clock::Nanos::from_raw(at)))
    }
}

/// The instant `delay` after `now`, at most the last one.
pub fn after(now: u64, delay: Duration) -> u64 {
    now.saturating_add(nanos(delay).raw())
}

/// When the job of a series runs. The ready-made ones count in nanoseconds.
pub enum Plan {
    Once,
    Rate { period: u64, missed: Missed },
    Gap { gap: Duration },
    List { intervals: Box<[u64]>, rounds: Option<u64> },
    User(Box<dyn Schedule>),
}

/// A turn on the timer's own scale.
#[derive(Clone, Copy)]
pub struct Ran {
    pub runs: u64,
    pub planned: u64,
    pub now: u64,
}

impl Plan {
    pub fn rate(period: Duration, missed: Missed, tick: u64) -> Result<Self, TimerError> {
        let period = nanos(period).raw();
        if period < tick { Err(TimerError::TooShort) } else { Ok(Self::Rate { period, missed }) }
    }

    pub fn gap(gap: Duration, tick: u64) -> Result<Self, TimerError> {
        if nanos(gap).raw() < tick { Err(TimerError::TooShort) } else { Ok(Self::Gap { gap }) }
    }

    pub fn list(
        intervals: impl IntoIterator<Item = Duration>,
        repeat: Repeat,
        tick: u64,
    ) -> Result<Self, TimerError> {
        let intervals: Box<[u64]> =
            intervals.into_iter().map(|interval| nanos(interval).raw()).collect();
        let rounds = match repeat {
            Repeat::Once => Some(1),
            Repeat::Times(times) => Some(times),
            Repeat::Forever => None,
        };
        if intervals.is_empty() || rounds == Some(0) {
            return Err(TimerError::Empty);
        }
        if intervals.iter().any(|&interval| interval < tick) {
            return Err(TimerError::TooShort);
        }
        Ok(Self::List { intervals, rounds })
    }

    /// The instant of the next run; `None` after the last. A user's schedule is called here.
    pub fn next(&mut self, ran: Ran, scale: &Scale) -> Option<u64> {
        let Ran { runs, planned, now } = ran;
        match self {
            Self::Once => None,
            Self::Rate { period, missed } => Some(next_multiple(planned, *period, now, *missed)),
            Self::Gap { gap } => Some(after(now, *gap)),
            Self::List { intervals, rounds } => {
                let length = intervals.len() as u64;
                let is_over = rounds.is_some_and(|rounds| runs >= length.saturating_mul(rounds));
                let interval = intervals[(runs % length) as usize];
                // A list does not burst: what is late is made up for once.
                (!is_over).then(|| planned.saturating_add(interval).max(now))
            }
            Self::User(schedule) => {
                let (planned, present) = (scale.instant(planned), scale.instant(now));
                let next = schedule.next(&Turn { runs, planned, now: present })?;
                Some(match next {
                    Next::At(instant) => scale.of_instant(instant),
                    // The schedule may have looked at a clock of its own, later than `now`.
                    Next::After(delay) => after(scale.now().max(now), delay),
                })
            }
        }
    }

    /// How many runs are left after the run of this number. A user's schedule is called here, and
    /// its panic is caught.
    pub fn remaining(&self, number: u64) -> Option<u64> {
        match self {
            Self::Once => Some(0),
            Self::Rate { .. } | Self::Gap { .. } => None,
            Self::List { intervals, rounds } => {
                let all = (intervals.len() as u64).saturating_mul((*rounds)?);
                Some(all.saturating_sub(number))
            }
            Self::User(schedule) => catch_user_panic(|| schedule.remaining()).flatten(),
        }
    }
}

fn next_multiple(planned: u64, period: u64, now: u64, missed: Missed) -> u64 {
    let next = planned.saturating_add(period);
    if next >= now {
        return next;
    }
    let late = now - planned;
    match missed {
        Missed::Burst => next,
        Missed::Once => planned + late / period * period,
        Missed::Skip => planned.saturating_add(late.div_ceil(period).saturating_mul(period)),
    }
}
