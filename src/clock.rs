//! Time: where a cache reads it, and how the cache represents it.
//!
//! Inside the crate an instant is a [`Timestamp`] of nanoseconds with its top bit set. 2^63 is the
//! origin of a user's clock. [`NEVER`] is the instant that never comes, and sums saturate to it. A
//! value without the top bit is before every instant. A length of time is a number of [`Nanos`].
//!
//! Nodes rely on the top bit (see [`node`](crate::node)): a deadline whose top bit was cleared has
//! passed for every thread, and zero marks a retired node. Readings of a user's clock are raised by
//! one here, so that a deadline that lost its top bit is never zero.
//!
//! # The coarse reading
//! A lookup compares a deadline with the present. `CLOCK_MONOTONIC_COARSE` (Linux) costs an eighth
//! of `Instant::now`. It lags behind by 5 ms on average and by 53 ms at worst, in 6·10⁷ samples
//! with more busy threads than cores. The worst lag is preemption between the two readings
//! (`docs/performance.md` has the command). The coarse clock never runs ahead. Hence:
//!
//! * A deadline at or before the coarse reading has passed.
//! * A deadline more than [`COARSE_MARGIN`] after the coarse reading has not passed.
//! * For a deadline in between, the precise clock decides.
//!
//! On other systems, and with a user's clock, every reading is precise.

mod manual;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod monotonic;
mod read_times;
mod time;
#[cfg(feature = "tokio")]
mod tokio;

pub use manual::ManualClock;
pub use read_times::{ClockTime, ReadTimes};
pub use time::{Nanos, Timestamp, nanos};
#[cfg(feature = "tokio")]
pub use tokio::RuntimeTime;

use crate::primitives::Arc;
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::primitives::time::{Duration, Instant};
use std::fmt;
use std::sync::Arc as Shared;

/// This instant never comes.
pub const NEVER: Timestamp = Timestamp::from_raw(u64::MAX);

/// This is the last instant that comes.
pub const LAST: Timestamp = Timestamp::from_raw(u64::MAX - 1);

/// All instants have this bit.
pub const INSTANT: u64 = 1 << 63;

/// This is the first instant, at which a user's clock begins.
const FIRST: Timestamp = Timestamp::from_raw(INSTANT + 1);

/// The coarse clock is trusted to lag by no more than this: 134 ms, two and a half times the worst
/// lag that was seen.
const COARSE_MARGIN: Nanos = Nanos::from_raw(1 << 27);

/// Lifetimes from this length on may begin at a coarse reading: 2^32 ns, which is 4.294967296 s.
/// (The documentation rounds it to 4.3 s, and says so.) The lag is a timer tick of the kernel, 1 to
/// 10 ms, so such a lifetime is short by less than 0.25 %. That is not worth a precise reading.
const LONG: Nanos = Nanos::from_raw(1 << 32);

/// System clocks start at this reading, 36 years after the origin. So a reading from before the
/// cache was built is still an instant. So is a reading of a clock that was set back since (of a
/// process that continues on another machine).
const SYSTEM_START: Timestamp = Timestamp::from_raw(INSTANT + (1 << 60));

/// A user-defined source of time.
///
/// # Contract
/// Readings count from an origin that does not move. They need not be equal on different threads.
/// They may stand still, jump forward or go back: the cache then expires entries late, never early
/// by its own reading.
///
/// A source that blocks holds up whoever asks it: the scheduler's thread, too, and thereby the
/// maintenance of all caches with a [`scheduler`](crate::Builder::scheduler).
///
/// A panic reaches the caller of the operation that asked for the time, before any effect; but a
/// read that returns a handle may have been counted and have prolonged an idle time. During
/// maintenance it reaches the caller that runs the maintenance.
///
/// # Instants
/// Where the cache's API has an [`Instant`], as in [`insert_until`](crate::Cache::insert_until), in
/// [`expires_at`](crate::Cache::expires_at), or in what a hook or a listener is given, it stands
/// for a reading of this clock: for the one that the clock would have at that instant if it had run
/// as real time does since the cache was built. After the clock has jumped by an hour, an instant a
/// minute from now has passed. So use lengths with such a clock
/// ([`insert_with_ttl`](crate::Cache::insert_with_ttl)).
///
/// ```
/// use cortado::{Cache, Clock, TimeSource};
/// use std::time::{Duration, SystemTime};
///
/// /// The time since 1970. Where it is set back, entries end late.
/// struct WallClock;
///
/// impl TimeSource for WallClock {
///     fn now(&self) -> Duration {
///         SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
///     }
/// }
///
/// let cache = Cache::builder().clock(Clock::custom(WallClock)).build();
/// cache.insert_with_ttl("k", 1, Duration::from_secs(60));
/// assert_eq!(cache.get("k"), Some(1));
/// ```
pub trait TimeSource: Send + Sync + 'static {
    /// The time since the origin. Times beyond 292 years count as 292 years.
    fn now(&self) -> Duration;
}

impl<F: Fn() -> Duration + Send + Sync + 'static> TimeSource for F {
    fn now(&self) -> Duration {
        self()
    }
}

/// The clock that a cache reads: the system's monotonic clock, a [`ManualClock`], or your own
/// [`TimeSource`].
///
/// ```
/// use cortado::{Cache, Clock};
/// use std::time::Duration;
///
/// let (clock, hand) = Clock::manual();
/// let cache: Cache<&str, u32> =
///     Cache::builder().time_to_live(Duration::from_secs(60)).clock(clock).build();
/// cache.insert("k", 1);
/// hand.advance(Duration::from_secs(59));
/// assert_eq!(cache.get("k"), Some(1));
/// hand.advance(Duration::from_secs(1));
/// assert_eq!(cache.get("k"), None); // exactly at the deadline: expired
/// ```
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicU64>),
    Custom(Shared<dyn TimeSource>),
    #[cfg(feature = "tokio")]
    Tokio(RuntimeTime),
}

impl Clock {
    /// The system's monotonic clock, the one behind [`Instant`]. This is the default.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    ///
    /// let cache: Cache<u32, u32> = Cache::builder().clock(Clock::system()).build();
    /// # drop(cache);
    /// ```
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until its [`ManualClock`] moves it, for tests and simulation. It
    /// starts at zero. Any number of caches may share it. (What an `Instant` means by it,
    /// [`TimeSource`] says.)
    #[must_use]
    pub fn manual() -> (Self, ManualClock) {
        let time = Arc::new(AtomicU64::new(0));
        (Self(Source::Manual(Arc::clone(&time))), ManualClock::of(time))
    }

    /// A clock that reads the time from `source`.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Instant;
    ///
    /// let start = Instant::now();
    /// let cache: Cache<u32, u32> =
    ///     Cache::builder().clock(Clock::custom(move || start.elapsed())).build();
    /// # drop(cache);
    /// ```
    #[must_use]
    pub fn custom(source: impl TimeSource) -> Self {
        Self(Source::Custom(Shared::new(source)))
    }

    /// The clock of the current tokio runtime: the one that `tokio::time` uses. With the feature
    /// `tokio`.
    ///
    /// In a test with paused time, `tokio::time::advance` moves the cache's clock, and entries
    /// expire when timers of the same length fire. No second clock is needed. Any thread may use
    /// the cache: each reading enters the runtime, since tokio gives other threads the real time.
    /// That costs some ten nanoseconds; there is no coarse reading. So a service that never pauses
    /// its time is better off with [`Clock::system`].
    ///
    /// Instants that the cache takes and gives (`insert_until`, `expires_at`) are those of
    /// `tokio::time::Instant::into_std`.
    ///
    /// *Scheduler*: with [`scheduler`](crate::Builder::scheduler), a task on that runtime takes the
    /// place of the background thread. It sleeps until the next expiration by the runtime's clock.
    /// It runs bounded passes, and yields between them. It hands notifications and removed values
    /// to `spawn_blocking`, one job of a cache at a time, or to your
    /// [`executor`](crate::Builder::executor). So expired entries of an idle cache are told off the
    /// runtime's worker threads. An operation still tells what it finds waiting, as a rule what it
    /// has replaced or removed itself, on the thread that calls or polls it, unless you set an
    /// executor.
    ///
    /// The task ends with the cache or with the runtime. Then, and while nobody drives a
    /// `current_thread` runtime, the cache works as one without a scheduler. The end of the runtime
    /// waits for a job that runs: for 4,096 calls of the listener at most.
    ///
    /// *Paused time* advances to the next deadline whenever all tasks of the runtime wait. With a
    /// scheduler, the next expiration is such a deadline.
    ///
    /// * A test that awaits a plain thread thereby leaps to the end of a lifetime. Await
    ///   `spawn_blocking` in place of the thread: time does not advance by itself while it runs.
    /// * Nor does it while the listener runs in `spawn_blocking`. Of a job on your own executor the
    ///   runtime knows nothing, so time may advance meanwhile.
    /// * A write may let some milliseconds pass: a pass follows it. Waits for other threads (for a
    ///   view, a computation, an executor) are by real time: the thread of the other schedulers
    ///   wakes the task. While a computation keeps an entry that has ended, time goes on no faster
    ///   than real time.
    ///
    /// *Thread-locals*: a destructor of a thread-local may use the cache. When tokio's own
    /// thread-local is gone by then, the clock gives an earlier reading: the latest one of any
    /// thread, or one up to a millisecond before it.
    ///
    /// # Panics
    /// Outside of a runtime, and in a runtime whose time is not enabled.
    ///
    /// ```
    /// use cortado::{Clock, future::Cache};
    /// use std::time::Duration;
    ///
    /// #[tokio::main(flavor = "current_thread", start_paused = true)] // or `tokio::test`
    /// async fn main() {
    ///     let minute = Duration::from_secs(60);
    ///     let cache: Cache<&str, u32> =
    ///         Cache::builder().time_to_live(minute).clock(Clock::tokio()).build();
    ///     cache.insert("k", 1).await;
    ///     tokio::time::advance(minute - Duration::from_millis(1)).await;
    ///     assert_eq!(cache.get("k").await, Some(1));
    ///     tokio::time::advance(Duration::from_millis(1)).await;
    ///     assert_eq!(cache.get("k").await, None);
    /// }
    /// ```
    #[cfg(feature = "tokio")]
    #[must_use]
    #[track_caller]
    pub fn tokio() -> Self {
        Self(Source::Tokio(RuntimeTime::of_current()))
    }

    /// Whether it goes on while nobody moves it.
    #[cfg(feature = "timer")]
    pub(crate) fn moves_by_itself(&self) -> bool {
        matches!(self.0, Source::System | Source::Custom(_))
    }

    /// The runtime whose clock this is.
    #[cfg(feature = "tokio")]
    pub(crate) fn runtime(&self) -> Option<&RuntimeTime> {
        match &self.0 {
            Source::Tokio(time) => Some(time),
            _ => None,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Source::System => "Clock::system",
            Source::Manual(_) => "Clock::manual",
            Source::Custom(_) => "Clock::custom",
            #[cfg(feature = "tokio")]
            Source::Tokio(_) => "Clock::tokio",
        })
    }
}

/// A [`Clock`] as one cache reads it, with an anchor that relates its readings to [`Instant`].
pub struct Ticker {
    source: Source,
    anchor: Instant,
    /// The anchor on the scale of the readings.
    anchor_reading: Timestamp,
    /// Added to a reading of the system's clock, coarse or precise, this gives ours. `None` if
    /// there is no coarse clock.
    offset: Option<Nanos>,
    /// How far a coarse reading may lag.
    margin: Nanos,
}

impl Ticker {
    pub fn new(clock: Clock) -> Self {
        let (anchor, reading) = monotonic::anchor();
        let is_system = matches!(clock.0, Source::System);
        let is_coarse = is_system && monotonic::coarse().is_some();
        #[cfg(feature = "tokio")]
        let anchor = clock.runtime().map_or(anchor, RuntimeTime::instant);
        let mut ticker = Self {
            source: clock.0,
            anchor,
            anchor_reading: SYSTEM_START,
            offset: is_coarse.then(|| SYSTEM_START.wrapping_since(reading)),
            margin: if is_coarse { COARSE_MARGIN } else { Nanos::ZERO },
        };
        if !is_system {
            ticker.anchor_reading = ticker.now();
        }
        ticker
    }

    /// A precise reading.
    #[inline(never)]
    pub fn now(&self) -> Timestamp {
        if let Some(offset) = self.offset
            && let Some(reading) = monotonic::precise()
        {
            return reading.wrapping_add(offset);
        }
        self.now_by_source()
    }

    #[inline(never)]
    fn now_by_source(&self) -> Timestamp {
        let reading = match &self.source {
            Source::System => self.time_of(Instant::now()),
            // Readings are shifted, not clamped, at the lower end: a lifetime that begins there has
            // its full length.
            Source::Manual(time) => {
                FIRST.saturating_add(Nanos::from_raw(time.load(Ordering::Acquire)))
            }
            Source::Custom(source) => FIRST.saturating_add(nanos(source.now())),
            #[cfg(feature = "tokio")]
            Source::Tokio(time) => FIRST.saturating_add(nanos(time.reading())),
        };
        reading.min(LAST)
    }

    /// A cheap reading that may lag by up to the coarse margin, but never runs ahead.
    #[inline]
    pub fn coarse(&self) -> Timestamp {
        if let Some(offset) = self.offset
            && let Some(reading) = monotonic::coarse()
        {
            return reading.wrapping_add(offset);
        }
        self.now()
    }

    /// How far a coarse reading may lag; zero if all readings are precise.
    pub fn margin(&self) -> Nanos {
        self.margin
    }

    /// A reading that decides whether `deadline` has passed: the coarse one, or a precise one if
    /// the coarse one does not decide.
    #[inline]
    pub fn reading_for(&self, deadline: Timestamp, coarse: Timestamp) -> Timestamp {
        let near = deadline > coarse && deadline - coarse <= self.margin;
        if near { self.now() } else { coarse }
    }

    /// Whether `lifetime` is too short to begin at a coarse reading, because it would end
    /// noticeably early. False if all readings are precise.
    #[inline]
    pub fn is_short(&self, lifetime: Nanos) -> bool {
        lifetime < LONG && self.margin > Nanos::ZERO
    }

    /// Whether `lifetime` may begin at a coarse reading. False if all readings are precise.
    #[inline]
    pub fn may_begin_coarsely(&self, lifetime: Nanos) -> bool {
        lifetime >= LONG && self.margin > Nanos::ZERO
    }

    /// Whether `deadline` has passed, exactly. Reads the precise clock only if `coarse` (a value of
    /// [`coarse`](Self::coarse)) does not decide.
    #[inline]
    pub fn has_passed(&self, deadline: Timestamp, coarse: Timestamp) -> bool {
        deadline <= coarse || (deadline - coarse <= self.margin && deadline <= self.now())
    }

    /// Whether it reads the system's clock.
    pub fn reads_system(&self) -> bool {
        matches!(self.source, Source::System)
    }

    /// The start of this cache.
    #[inline]
    pub fn start(&self) -> Instant {
        self.anchor
    }

    /// The `Instant` at `time`. A time that `Instant` cannot represent becomes the start of this
    /// cache.
    #[inline]
    pub fn instant_of(&self, time: Timestamp) -> Instant {
        let shifted = if time >= self.anchor_reading {
            self.anchor.checked_add((time - self.anchor_reading).to_duration())
        } else {
            self.anchor.checked_sub((self.anchor_reading - time).to_duration())
        };
        shifted.unwrap_or(self.anchor)
    }

    /// The time at `instant`, saturating at both ends.
    pub fn time_of(&self, instant: Instant) -> Timestamp {
        match instant.checked_duration_since(self.anchor) {
            Some(after) => self.anchor_reading.saturating_add(nanos(after)),
            None => {
                let before = nanos(self.anchor.duration_since(instant));
                self.anchor_reading.saturating_sub(before).max(FIRST)
            }
        }
    }

    /// How long the scheduler has to sleep until `time`. `None` if its time does not drive the
    /// clock.
    pub fn real_delay(&self, time: Timestamp) -> Option<Duration> {
        // On a runtime's clock, the scheduler is a task that sleeps by the same clock.
        let drives = !matches!(self.source, Source::Manual(_) | Source::Custom(_));
        drives.then(|| time.saturating_since(self.now()).to_duration())
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod monotonic {
    use super::Timestamp;
    use crate::primitives::time::Instant;

    #[inline]
    pub fn coarse() -> Option<Timestamp> {
        None
    }

    pub fn precise() -> Option<Timestamp> {
        None
    }

    pub fn anchor() -> (Instant, Timestamp) {
        (Instant::now(), Timestamp::from_raw(0))
    }
}

#[cfg(test)]
#[cfg(not(cortado_loom))]
mod tests {
    use super::*;

    #[test]
    fn coarse_never_runs_ahead_and_settles_like_the_precise_clock() {
        let ticker = Ticker::new(Clock::system());
        for step in 0..200_000u64 {
            let coarse = ticker.coarse();
            let precise = ticker.now();
            assert!(coarse <= precise, "coarse {coarse} ahead of {precise}");
            // Deadlines on both sides of the present, none so near that it lies between the
            // readings.
            for distance in [1u64 << 25, 1 << 27, 1 << 28] {
                let distance = distance + step % 1000;
                let (past, ahead) = (distance, (1 << 35) + distance);
                assert!(ticker.has_passed(precise.saturating_sub(Nanos::from_raw(past)), coarse));
                assert!(!ticker.has_passed(precise + Nanos::from_raw(ahead), coarse));
            }
        }
    }

    #[test]
    fn instants_and_readings_convert_both_ways() {
        let (clock, hand) = Clock::manual();
        hand.set(Duration::from_secs(1000));
        let ticker = Ticker::new(clock);
        for time in [1, 5_000_000_000, 999_999_999_999, 1_000_000_000_000, 1 << 50] {
            let time = Timestamp::from_raw(INSTANT + time);
            assert_eq!(ticker.time_of(ticker.instant_of(time)), time);
        }
    }

    #[test]
    fn readings_keep_clear_of_the_marks() {
        let (clock, hand) = Clock::manual();
        let ticker = Ticker::new(clock);
        assert_eq!(ticker.now(), FIRST);
        hand.set(Duration::MAX);
        assert_eq!(ticker.now(), LAST);
        hand.advance(Duration::MAX);
        assert_eq!(ticker.now(), LAST);
    }
}
