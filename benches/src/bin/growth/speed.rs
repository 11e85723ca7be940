//! Nanoseconds per insert into a growing cache, and per read of evenly distributed keys.

use cortado_benches::key::Stream;
use cortado_benches::subject::{Driver, Plan, Reader, Rival, Subject};
use cortado_benches::value::Value;
use std::time::Instant;

/// How many keys are read.
const READS: usize = 500_000;

struct Grow<'a> {
    size: u64,
    keys: &'a [u64],
}

impl Driver<u64, u64> for Grow<'_> {
    /// Nanoseconds per insert and per read.
    type Output = (f64, f64);

    fn drive<S: Subject<u64, u64>>(self) -> (f64, f64) {
        let cache = S::new(Plan::entries(2 * self.size));
        let start = Instant::now();
        (1..=self.size).for_each(|key| cache.insert(key, u64::lasting(key)));
        let insert = start.elapsed().as_nanos() as f64 / self.size as f64;
        cache.settle();
        let mut reader = cache.reader();
        let (warm_up, timed) = self.keys.split_at(self.keys.len() / 10);
        warm_up.iter().for_each(|key| _ = reader.read(key));
        let start = Instant::now();
        timed.iter().for_each(|key| _ = reader.read(key));
        (insert, start.elapsed().as_nanos() as f64 / timed.len() as f64)
    }
}

/// The readings of each rival, a round at a time; another one goes first in each.
pub fn measure(rivals: &[Rival], size: u64, rounds: usize) -> Vec<Vec<(f64, f64)>> {
    let mut readings = vec![Vec::new(); rivals.len()];
    for round in 0..rounds {
        let keys: Vec<u64> = Stream::Even.keys(size, READS, 0, round);
        for turn in 0..rivals.len() {
            let subject = (turn + round) % rivals.len();
            readings[subject].extend(rivals[subject].drive(Grow { size, keys: &keys }));
        }
    }
    readings
}
