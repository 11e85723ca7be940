//! Keys, and figures of many measurements.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A generator of numbers (splitmix64): the same ones in each run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Measurements, in order of their size.
pub struct Sorted(Vec<f64>);

impl Sorted {
    pub fn new(mut figures: Vec<f64>) -> Self {
        assert!(!figures.is_empty(), "nothing was measured");
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }

    pub fn least(&self) -> f64 {
        self.0[0]
    }

    pub fn most(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// The figure that this share of all does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let place = (self.0.len() as f64 * share).ceil() as usize;
        self.0[place.clamp(1, self.0.len()) - 1]
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Nanoseconds since 1970, by the clock that all processes of a machine share.
pub fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    u64::try_from(time.as_nanos()).expect("for 500 years")
}

pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
