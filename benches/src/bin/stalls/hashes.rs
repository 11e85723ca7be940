//! Keys that share a hash: the time that inserting them takes, in all.

use crate::Row;
use cortado::Cache;
use cortado_benches::cpu;
use std::hash::{BuildHasher, Hasher};

pub const NAME: &str = "8,000 keys of one hash are inserted";
const KEYS: u64 = 8000;

#[derive(Clone, Copy, Default)]
struct Same;

impl BuildHasher for Same {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self
    }
}

impl Hasher for Same {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

pub fn measure(rounds: usize) -> Row {
    let once = |_| {
        let cache: Cache<u64, u64, Same> =
            Cache::builder().max_capacity(2 * KEYS).build_with_hasher(Same);
        let begun = cpu::time();
        (0..KEYS).for_each(|key| cache.insert(key, key));
        let time = (cpu::time() - begun) as f64 / 1e6;
        assert!((0..KEYS).all(|key| cache.contains_key(&key)));
        time
    };
    let readings = (0..rounds).map(once).collect();
    let calls = KEYS * rounds as u64;
    Row {
        name: NAME.to_owned(),
        calls,
        readings,
        unit: "ms of processor time, in all",
        bar: Some(150.0),
    }
}
