//! Keys, and the sequences of them that the workloads ask for.

use crate::subject::Driver;
use crate::value::Value;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use std::fmt::Debug;
use std::hash::Hash;

/// A type of keys that is made from numbers.
pub trait Key: Hash + Eq + Clone + Debug + Send + Sync + 'static {
    /// What reports call it.
    const NAME: &'static str;

    /// The bytes of a key, in place and on the heap.
    const BYTES: usize;

    /// The key with this number.
    fn of(number: u64) -> Self;

    /// Hands `driver` light-cache, whose keys must be `Copy`; `None` if these are not.
    fn drive_light<V: Value, D: Driver<Self, V>>(driver: D) -> Option<D::Output> {
        drop(driver);
        None
    }
}

impl Key for u64 {
    const NAME: &'static str = "u64";
    const BYTES: usize = 8;

    fn of(number: u64) -> Self {
        number
    }

    fn drive_light<V: Value, D: Driver<Self, V>>(driver: D) -> Option<D::Output> {
        Some(driver.drive::<crate::subject::LightCache<Self, V>>())
    }
}

/// Strings of 16, 32, 48 and 64 bytes on the heap, in turn: `user:00000123456` and longer ones.
impl Key for String {
    const NAME: &'static str = "String";
    /// The mean.
    const BYTES: usize = size_of::<Self>() + 40;

    fn of(number: u64) -> Self {
        let longer = (number % 4) as usize * 16;
        format!("user:{number:011}{:/<longer$}", "")
    }
}

/// Which keys a workload asks for, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The same one all the time.
    One,
    /// Numbers from 1 to the size of the key space, Zipf-distributed with exponent 0.99.
    Zipf,
    /// The same numbers, evenly distributed.
    Even,
    /// Each one once, and none of the key space.
    Unique,
}

impl Stream {
    /// `count` keys for one thread of one round.
    pub fn keys<K: Key>(self, space: u64, count: usize, thread: usize, round: usize) -> Vec<K> {
        let mut rng = SmallRng::seed_from_u64((round * 64 + thread) as u64);
        match self {
            Self::One => vec![K::of(7); count],
            Self::Unique => {
                let first = space + 1 + (thread * count) as u64;
                (first..).take(count).map(K::of).collect()
            }
            Self::Even => (0..count).map(|_| K::of(rng.random_range(1..=space))).collect(),
            Self::Zipf => {
                let zipf = Zipf::new(space as f64, 0.99).expect("a valid exponent and size");
                (0..count).map(|_| K::of(zipf.sample(&mut rng) as u64)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn unique_keys_are_unique_over_the_threads_and_outside_the_space() {
        let keys: Vec<u64> =
            (0..3).flat_map(|thread| Stream::Unique.keys(100, 50, thread, 1)).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 150);
        assert!(keys.iter().all(|&key| key > 100));
    }

    #[test]
    fn zipf_keys_are_skewed_and_within_the_space() {
        let keys: Vec<u64> = Stream::Zipf.keys(1000, 10_000, 0, 0);
        assert!(keys.iter().all(|key| (1..=1000).contains(key)));
        let hottest = keys.iter().filter(|&&key| key == 1).count();
        assert!((1000..2000).contains(&hottest), "{hottest} of 10,000 for the first of 1,000");
        assert_ne!(keys, Stream::Zipf.keys::<u64>(1000, 10_000, 1, 0), "threads differ");
        assert_ne!(keys, Stream::Zipf.keys::<u64>(1000, 10_000, 0, 1), "rounds differ");
    }

    #[test]
    fn both_types_of_keys_ask_for_the_same() {
        let numbers: Vec<u64> = Stream::Zipf.keys(1000, 100, 0, 0);
        let strings: Vec<String> = Stream::Zipf.keys(1000, 100, 0, 0);
        assert_eq!(strings, numbers.into_iter().map(String::of).collect::<Vec<_>>());
        assert_eq!(String::of(123_456), "user:00000123456");
        let lengths: usize = (0..4).map(|number| String::of(number).len()).sum();
        assert_eq!(size_of::<String>() + lengths / 4, String::BYTES);
    }
}
