//! The workloads: what is in the cache, which keys are asked for, and what is done with each.

use crate::key::{Key, Stream};
use crate::subject::{Card, Plan, Reader, Subject};
use crate::value::{HOUR, Value};
use std::time::Duration;

/// What a measurement does.
pub struct Workload {
    pub name: &'static str,
    /// Capacity and initial fill, as shares of the key space.
    pub capacity: f64,
    pub filled: f64,
    /// How many times the key space the keys are taken from.
    pub spread: u64,
    pub stream: Stream,
    pub action: Action,
    /// Whether entries have an idle time in place of lifetimes of their own.
    pub idle: bool,
    /// Which caches can take part.
    pub needs: fn(&Card) -> bool,
}

/// What is done with each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Read,
    /// One update in ten, or in two, of these operations.
    Mix10,
    Mix2,
    Write,
    /// A read, and after a miss an insert.
    ReadThrough,
    /// The same with lifetimes between 20 ms and 2 s, for a time and not for a number of
    /// operations.
    Fleeting,
}

fn any(_: &Card) -> bool {
    true
}

fn bounded(card: &Card) -> bool {
    card.bounded
}

/// Everything resident; every cache.
const RESIDENT: Workload = Workload {
    name: "",
    capacity: 2.0,
    filled: 1.0,
    spread: 1,
    stream: Stream::Zipf,
    action: Action::Read,
    idle: false,
    needs: any,
};

pub const WORKLOADS: &[Workload] = &[
    Workload { name: "one hot key", stream: Stream::One, ..RESIDENT },
    Workload { name: "zipf reads, all resident", ..RESIDENT },
    Workload {
        name: "zipf reads, idle time of an hour",
        idle: true,
        needs: |card| card.idle,
        ..RESIDENT
    },
    Workload { name: "90 % reads, 10 % updates", action: Action::Mix10, ..RESIDENT },
    Workload { name: "50 % reads, 50 % updates", action: Action::Mix2, ..RESIDENT },
    Workload { name: "updates", action: Action::Write, ..RESIDENT },
    Workload {
        name: "read-through at 10 % of the keys",
        capacity: 0.1,
        filled: 0.1,
        action: Action::ReadThrough,
        needs: bounded,
        ..RESIDENT
    },
    Workload {
        name: "unique inserts, full",
        capacity: 0.25,
        filled: 0.5,
        stream: Stream::Unique,
        action: Action::Write,
        needs: bounded,
        ..RESIDENT
    },
    Workload {
        name: "lifetimes of 20 ms to 2 s, read-through",
        // So that many reads find that their entry's life is over.
        capacity: 2.0,
        filled: 0.0,
        spread: 5,
        stream: Stream::Even,
        action: Action::Fleeting,
        needs: |card| card.lifetimes,
        ..RESIDENT
    },
];

impl Workload {
    /// What a cache is built with, for a key space of this size.
    pub fn plan(&self, space: u64) -> Plan {
        let capacity = (space as f64 * self.capacity) as u64;
        Plan { capacity, idle: self.idle.then_some(HOUR) }
    }

    /// A cache with the entries that it has to begin with. It has been updated and read once, as
    /// the cache of any service has: cortado learns by the first call of a hook whether it is
    /// the trait's default.
    pub fn cache<K: Key, V: Value, S: Subject<K, V>>(&self, space: u64) -> S {
        let cache = S::new(self.plan(space));
        let last = (space as f64 * self.filled) as u64;
        for number in (0..=last).chain([last]) {
            cache.insert(K::of(number), V::lasting(number));
        }
        let _ = cache.reader().read(&K::of(last));
        cache.settle();
        cache
    }
}

/// One operation, compiled for each cache; true unless it was a read that found nothing.
pub trait Step {
    fn step<K: Key, V: Value, S: Subject<K, V>>(
        cache: &S,
        reader: &mut S::Reader<'_>,
        key: &K,
        number: u64,
    ) -> bool;
}

pub struct Read;

impl Step for Read {
    #[inline]
    fn step<K: Key, V: Value, S: Subject<K, V>>(
        _: &S,
        reader: &mut S::Reader<'_>,
        key: &K,
        _: u64,
    ) -> bool {
        reader.read(key)
    }
}

pub struct Write;

impl Step for Write {
    #[inline]
    fn step<K: Key, V: Value, S: Subject<K, V>>(
        cache: &S,
        _: &mut S::Reader<'_>,
        key: &K,
        number: u64,
    ) -> bool {
        cache.insert(key.clone(), V::lasting(number));
        true
    }
}

/// An update in so many operations.
pub struct Mix<const OF: u64>;

impl<const OF: u64> Step for Mix<OF> {
    #[inline]
    fn step<K: Key, V: Value, S: Subject<K, V>>(
        cache: &S,
        reader: &mut S::Reader<'_>,
        key: &K,
        number: u64,
    ) -> bool {
        if number.is_multiple_of(OF) {
            Write::step(cache, reader, key, number)
        } else {
            Read::step(cache, reader, key, number)
        }
    }
}

pub struct ReadThrough;

impl Step for ReadThrough {
    #[inline]
    fn step<K: Key, V: Value, S: Subject<K, V>>(
        cache: &S,
        reader: &mut S::Reader<'_>,
        key: &K,
        number: u64,
    ) -> bool {
        reader.read(key) || !Write::step(cache, reader, key, number)
    }
}

pub struct Fleeting;

impl Step for Fleeting {
    #[inline]
    fn step<K: Key, V: Value, S: Subject<K, V>>(
        cache: &S,
        reader: &mut S::Reader<'_>,
        key: &K,
        number: u64,
    ) -> bool {
        let hit = reader.read(key);
        if !hit {
            cache.insert(key.clone(), V::fleeting(number, lifetime(number)));
        }
        hit
    }
}

/// Some lifetime between 20 ms and 2 s, evenly distributed.
fn lifetime(number: u64) -> Duration {
    let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    Duration::from_millis(20 + spread % 1981)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_spread_over_their_range() {
        let lifetimes: Vec<u128> = (0..10_000).map(|n| lifetime(n).as_millis()).collect();
        let mean = lifetimes.iter().sum::<u128>() / 10_000;
        assert!((990..=1030).contains(&mean), "a mean of {mean} ms");
        assert!(lifetimes.iter().all(|lifetime| (20..=2000).contains(lifetime)));
    }
}
