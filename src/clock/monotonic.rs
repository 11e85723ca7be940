//! The monotonic clock of Linux, read coarsely or precisely through libc. A precise reading takes a
//! third of the instructions of `Instant::now` and its conversion.
#![expect(unsafe_code, reason = "the clock is read through libc")]

use super::time::{Nanos, Timestamp};
use crate::primitives::time::Instant;

/// The place of an `Instant` on the scale of the clock may be wrong by this much.
/// Only a preemption between two consecutive readings makes the error larger.
const PRECISION: Nanos = Nanos::from_raw(1 << 12);
/// The anchor is read at most this many times, until it has that precision.
const TRIES: u32 = 16;

/// A coarse reading, on the scale of the system's clock.
#[inline]
pub fn coarse() -> Option<Timestamp> {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// A precise reading, on the same scale.
#[inline]
pub fn precise() -> Option<Timestamp> {
    read(libc::CLOCK_MONOTONIC)
}

/// The present, also on the scale of [`coarse`]. The reading is no later than the `Instant`. So an
/// `Instant` that has passed is a reading that has passed.
pub fn anchor() -> (Instant, Timestamp) {
    let precise = || precise().unwrap_or(Timestamp::from_raw(0));
    let bracket = || {
        let before = precise();
        let instant = Instant::now();
        let reading = precise();
        (reading - before, (instant, before))
    };
    let mut best = bracket();
    for _ in 1..TRIES {
        if best.0 <= PRECISION {
            break;
        }
        best = std::cmp::min_by_key(best, bracket(), |(width, _)| *width);
    }
    best.1
}

#[inline]
fn read(clock: libc::clockid_t) -> Option<Timestamp> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively borrowed timespec for the call to fill.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    let nanos = || (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64;
    (status == 0).then(|| Timestamp::from_raw(nanos()))
}
