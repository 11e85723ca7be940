//! What it costs to expire an entry, when all of them are due: the processor time of the calls that
//! are asked to do all the work there is.

use cortado_benches::cpu;
use cortado_benches::subject::{Driver, Plan, Subject};
use cortado_benches::value::{Payload, Tracked, Value};
use std::time::{Duration, Instant};

/// The ticks of timer wheels are of a second: what came due is found that much later.
pub const TICKS: Duration = Duration::from_millis(2300);

/// A cache in which all of so many entries have come due, and the wheel's tick has passed.
pub fn due<S: Subject<u64, Tracked>>(size: u64) -> S {
    // A guess, which is doubled until it suffices.
    let mut span = Duration::from_micros(2 * size).max(Duration::from_millis(200));
    loop {
        let cache = S::new(Plan::entries(2 * size));
        let instant = Instant::now() + span;
        for number in 0..size {
            let lifetime = instant.saturating_duration_since(Instant::now());
            cache.insert(number, Tracked::fleeting(number, lifetime));
        }
        cache.settle();
        if Instant::now() < instant {
            std::thread::sleep(instant + TICKS - Instant::now());
            return cache;
        }
        span *= 2;
    }
}

/// So many entries.
pub struct AtOnce {
    pub size: u64,
}

impl Driver<u64, Tracked> for AtOnce {
    /// Nanoseconds per entry; `None` if the cache does not do it when asked.
    type Output = Option<f64>;

    fn drive<S: Subject<u64, Tracked>>(self) -> Option<f64> {
        let before = Payload::fleeting();
        let cache = due::<S>(self.size);
        let held = Payload::fleeting() - before;
        let start = cpu::time();
        // Deferred destruction may take some calls more.
        for _ in 0..1000 {
            cache.settle();
            if Payload::fleeting() <= before {
                break;
            }
        }
        let time = cpu::time() - start;
        (Payload::fleeting() <= before && held > 0).then(|| time as f64 / held as f64)
    }
}
