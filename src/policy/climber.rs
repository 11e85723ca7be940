//! The hill climber: finds the window's share of the capacity by trying.
//!
//! After each sample of requests it compares the hit ratio with that of the sample before. No worse:
//! go on the same way; worse: turn round. A sample without a hit, a scan or a loop, always turns to the
//! smaller window, as a larger one could only cost residents. Steps shrink from sample to sample, down to
//! a minimum; a sudden change of the hit ratio, which means another load, makes them large again.
//!
//! The numbers are tuned on twelve public traces (see the policy's docs). Starting at 1 % and downwards,
//! as Caffeine does, loses some short runs that a larger window would have saved; at 10 % and upwards
//! none was lost.

/// The first share of the window.
pub const FIRST_SHARE: f64 = 0.1;
/// Less is next to no window where entries differ in weight; for the hit ratio it is all the same.
pub const MIN_SHARE: f64 = 0.01;
/// The main region keeps at least a twentieth.
pub const MAX_SHARE: f64 = 0.95;

/// Requests per entry in a sample.
const SAMPLE: u64 = 10;
/// Samples are no smaller than those of a cache of so many entries.
const MIN_ENTRIES: usize = 16;
/// The first step, and the one after a sudden change, as a share of the capacity.
const STEP: f64 = 0.0625;
/// What is left of a step in the next sample.
const DECAY: f64 = 0.9;
/// Steps do not get smaller, so that the search never rests and what a step changes stands out from
/// the noise.
const MIN_STEP: f64 = 0.03;
/// A loss of hit ratio too small to turn round for. Where all windows near are equally bad, this is
/// what carries the search across.
const NOISE: f64 = 0.001;
/// A change of the hit ratio that restarts the search.
const SUDDEN: f64 = 0.1;

#[derive(Debug)]
pub struct Climber {
    hits: u64,
    misses: u64,
    previous_ratio: f64,
    /// The next step as a share of the capacity; its sign is the direction.
    step: f64,
}

impl Climber {
    pub fn new() -> Self {
        Self { hits: 0, misses: 0, previous_ratio: 0.0, step: STEP }
    }

    #[inline]
    pub fn hit(&mut self, requests: u32) {
        self.hits += u64::from(requests);
    }

    #[inline]
    pub fn miss(&mut self) {
        self.misses += 1;
    }

    /// Forgets the sample: until the cache is full no window is better than another.
    pub fn restart_sample(&mut self) {
        (self.hits, self.misses) = (0, 0);
    }

    /// By which share of the capacity the window is to change, when a sample is complete.
    #[inline]
    pub fn adjustment(&mut self, entries: usize) -> Option<f64> {
        let requests = self.hits + self.misses;
        (requests >= SAMPLE * entries.max(MIN_ENTRIES) as u64).then(|| self.climb())
    }

    #[cold]
    fn climb(&mut self) -> f64 {
        let ratio = self.hits as f64 / (self.hits + self.misses) as f64;
        let change = ratio - self.previous_ratio;
        let amount = match change {
            _ if self.hits == 0 => -self.step.abs(),
            _ if change >= -NOISE => self.step,
            _ => -self.step,
        };
        let next = if change.abs() >= SUDDEN { STEP } else { (DECAY * amount.abs()).max(MIN_STEP) };
        self.step = next.copysign(amount);
        self.previous_ratio = ratio;
        self.restart_sample();
        amount
    }
}
