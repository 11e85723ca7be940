//! Work on several threads at once.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work(thread)` on so many threads at once; the time of the slowest.
pub fn together(threads: u32, work: impl Fn(u32) + Sync) -> Duration {
    let barrier = Barrier::new(threads as usize);
    let timed = |thread| {
        barrier.wait();
        let start = Instant::now();
        work(thread);
        start.elapsed()
    };
    thread::scope(|scope| {
        let timed = &timed;
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
        let times = threads.into_iter().map(|thread| thread.join().expect("no panics"));
        times.max().unwrap_or_default()
    })
}
