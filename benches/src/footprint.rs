//! Heap bytes of a full cache, counted by the allocator.

use crate::heap::Count;
use crate::key::Key;
use crate::subject::{Driver, Plan, Reader, Subject};
use crate::value::Value;

/// Fills a cache with as many different keys as it has room for.
#[derive(Clone, Copy, Debug)]
pub struct Full {
    entries: u64,
}

/// What a full cache came to.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pub bytes: i64,
    /// The entries that are there.
    pub found: u64,
}

impl Full {
    /// With so many entries.
    pub fn of(entries: u64) -> Self {
        Self { entries }
    }
}

impl Footprint {
    /// Bytes for each entry that is there, beyond its key and its value of type `u64`.
    pub fn overhead<K: Key>(&self) -> f64 {
        self.bytes as f64 / self.found as f64 - (K::BYTES + size_of::<u64>()) as f64
    }
}

impl<K: Key> Driver<K, u64> for Full {
    type Output = Footprint;

    fn drive<S: Subject<K, u64>>(self) -> Footprint {
        let count = Count::start();
        let cache = S::new(Plan::entries(self.entries));
        (0..self.entries).for_each(|number| cache.insert(K::of(number), u64::lasting(number)));
        cache.settle();
        let bytes = count.bytes();
        let mut reader = cache.reader();
        let found = (0..self.entries).filter(|&number| reader.read(&K::of(number))).count() as u64;
        drop(reader);
        drop(cache);
        count.settle(0);
        Footprint { bytes, found }
    }
}
