//! The longest single call, in processor time: what a caller may have to do for all the others.

use crate::expiry::due;
use cortado_benches::cpu::Longest;
use cortado_benches::subject::{Driver, Plan, Reader, Subject};
use cortado_benches::value::{Payload, Tracked, Value};
use std::time::{Duration, Instant};

/// Inserts from empty to full, and as many again.
pub struct Fill {
    pub size: u64,
}

/// The longest calls, in microseconds.
pub struct Filled {
    pub filling: f64,
    pub evicting: f64,
}

impl Driver<u64, u64> for Fill {
    type Output = Filled;

    fn drive<S: Subject<u64, u64>>(self) -> Filled {
        let cache = S::new(Plan::entries(self.size));
        let inserts = |keys: std::ops::Range<u64>| {
            let mut longest = Longest::default();
            keys.for_each(|key| longest.call(|| cache.insert(key, u64::lasting(key))));
            longest.micros()
        };
        Filled { filling: inserts(0..self.size), evicting: inserts(self.size..2 * self.size) }
    }
}

/// Reads and inserts in turn while all of so many entries are due, until they are gone or three
/// seconds have passed.
pub struct Expiring {
    pub size: u64,
}

impl Driver<u64, Tracked> for Expiring {
    /// The longest call, in microseconds.
    type Output = f64;

    fn drive<S: Subject<u64, Tracked>>(self) -> f64 {
        let before = Payload::fleeting();
        let cache = due::<S>(self.size);
        let mut reader = cache.reader();
        let mut longest = Longest::default();
        let start = Instant::now();
        for step in 0.. {
            longest.call(|| reader.read(&(step % self.size)));
            let value = Tracked::lasting(step);
            longest.call(|| cache.insert(self.size + step % 1000, value));
            let over = Payload::fleeting() <= before || start.elapsed() > Duration::from_secs(3);
            if over {
                break;
            }
        }
        longest.micros()
    }
}
