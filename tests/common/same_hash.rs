//! A hasher by which all keys collide.

use std::hash::{BuildHasher, Hasher};

/// Every key has the same hash.
#[derive(Clone, Copy, Default)]
pub struct Same;

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
