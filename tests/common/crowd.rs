//! Threads that can be brought to a stop anywhere in the user's code, and random numbers for them.
#![allow(dead_code, reason = "each test binary uses its part")]

use super::effort::setting;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

/// The next number of a SplitMix64 sequence.
pub fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Stripes of the write buffer: one for each hardware thread, up to 16, or as many as
/// `CORTADO_STRIPES` says.
pub fn stripes() -> u64 {
    let threads = std::thread::available_parallelism().map_or(4, |threads| threads.get());
    setting("CORTADO_STRIPES", threads as u64).clamp(1, 16).next_power_of_two()
}

/// Where the random numbers of a thread begin. `CORTADO_SEED` makes it another place, so that a
/// suite that runs again and again does not do the same each time (`.ci/deep/long`).
pub fn seed(number: u64) -> u64 {
    number ^ setting("CORTADO_SEED", 0) << 32
}

/// Says how much was done, for the script that adds it up.
pub fn counted(number: u64, what: &str) {
    eprintln!("counted {number} {what}");
}

std::thread_local! {
    static MEMBER: Cell<bool> = const { Cell::new(false) };
}

/// Threads that stop when an observer asks them to, between operations and in callbacks, so that it
/// sees one moment.
#[derive(Default)]
pub struct Crowd {
    stop: AtomicBool,
    over: AtomicBool,
    present: AtomicUsize,
    parked: AtomicUsize,
}

impl Crowd {
    /// Makes the calling thread one of those that are waited for, until what is returned is
    /// dropped.
    pub fn join(&self) -> Membership<'_> {
        MEMBER.set(true);
        self.present.fetch_add(1, SeqCst);
        Membership(self)
    }

    /// Where a member may stop; others pass.
    pub fn rest(&self) {
        if !MEMBER.get() || !self.stop.load(SeqCst) {
            return;
        }
        self.parked.fetch_add(1, SeqCst);
        while self.stop.load(SeqCst) {
            std::thread::yield_now();
        }
        self.parked.fetch_sub(1, SeqCst);
    }

    /// Looks while all members stand still.
    pub fn observe<T>(&self, look: impl FnOnce() -> T) -> T {
        self.stop.store(true, SeqCst);
        let begun = Instant::now();
        while self.parked.load(SeqCst) < self.present.load(SeqCst) {
            assert!(begun.elapsed() < super::HANG, "somebody does not come to rest");
            std::thread::yield_now();
        }
        let seen = look();
        self.stop.store(false, SeqCst);
        while self.parked.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
        seen
    }

    /// Tells the members to go home.
    pub fn end(&self) {
        self.over.store(true, SeqCst);
        self.stop.store(false, SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }
}

pub struct Membership<'a>(&'a Crowd);

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        MEMBER.set(false);
        self.0.present.fetch_sub(1, SeqCst);
    }
}

/// Ends the crowd when dropped: also if the observer panics.
pub struct Ending<'a>(pub &'a Crowd);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
