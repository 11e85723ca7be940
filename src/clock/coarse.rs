//! The coarse clock of Linux.
#![expect(unsafe_code, reason = "the coarse clock is read through libc")]

use super::time::{Nanos, Timestamp};
use std::time::Instant;

/// The place of an `Instant` on the scale of the clock may be wrong by this much.
/// Only a preemption between two consecutive readings makes the error larger.
const PRECISION: Nanos = Nanos::from_raw(1_000_000);
/// The anchor is read at most this many times, until it has that precision.
const TRIES: u32 = 16;

/// A reading, on the scale of the system's clock.
#[inline]
pub fn now() -> Option<Timestamp> {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// The present, also on the scale of [`now`]. The reading is no earlier than the `Instant`. A
/// coarse reading that is converted to the scale of the `Instant`s is therefore never ahead of
/// them.
pub fn anchor() -> (Instant, Timestamp) {
    let precise = || read(libc::CLOCK_MONOTONIC).unwrap_or(Timestamp::from_raw(0));
    let bracket = || {
        let before = precise();
        let instant = Instant::now();
        let reading = precise();
        (reading - before, (instant, reading))
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
