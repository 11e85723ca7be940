//! The caches behind one trait: one hour to live for every entry where there is such a thing.

use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);

/// What the workloads need of a cache.
pub trait Subject: Send + Sync {
    fn get(&self, key: u64) -> Option<u64>;
    fn insert(&self, key: u64, value: u64);
    /// An entry that is due after `ttl`; false if the cache has no lifetimes.
    fn insert_for(&self, key: u64, value: u64, ttl: Duration) -> bool {
        let _ = (key, value, ttl);
        false
    }
    fn settle(&self) {}
}

/// The value is the lifetime's number of seconds where it is below this, else an hour.
struct Lifetimes;

fn lifetime(value: u64) -> Duration {
    if value < 1000 { Duration::from_secs(value) } else { HOUR }
}

/// Makes a value that stands for "an hour".
pub fn long_lived(value: u64) -> u64 {
    value + 1000
}

impl cortado::Expiry<u64, u64> for Lifetimes {
    fn expire_after_create(&self, _: &u64, value: &u64, _: Instant) -> Option<Duration> {
        Some(lifetime(*value))
    }

    fn observes_reads(&self) -> bool {
        false
    }
}

impl moka::Expiry<u64, u64> for Lifetimes {
    fn expire_after_create(&self, _: &u64, value: &u64, _: Instant) -> Option<Duration> {
        Some(lifetime(*value))
    }
}

type Cortado = cortado::Cache<u64, u64>;
type Moka = moka::sync::Cache<u64, u64, ahash::RandomState>;
type Quick = quick_cache::sync::Cache<u64, u64, quick_cache::UnitWeighter, ahash::RandomState>;

impl Subject for Cortado {
    fn get(&self, key: u64) -> Option<u64> {
        Cortado::get(self, &key)
    }

    fn insert(&self, key: u64, value: u64) {
        Cortado::insert(self, key, long_lived(value));
    }

    fn insert_for(&self, key: u64, _: u64, ttl: Duration) -> bool {
        Cortado::insert(self, key, ttl.as_secs());
        true
    }

    fn settle(&self) {
        self.run_pending_tasks();
    }
}

/// cortado, read by reference.
struct Pinned(Cortado);

impl Subject for Pinned {
    fn get(&self, key: u64) -> Option<u64> {
        self.0.pin().get(&key).copied()
    }

    fn insert(&self, key: u64, value: u64) {
        Subject::insert(&self.0, key, value);
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

impl Subject for Moka {
    fn get(&self, key: u64) -> Option<u64> {
        Moka::get(self, &key)
    }

    fn insert(&self, key: u64, value: u64) {
        Moka::insert(self, key, long_lived(value));
    }

    fn insert_for(&self, key: u64, _: u64, ttl: Duration) -> bool {
        Moka::insert(self, key, ttl.as_secs());
        true
    }

    fn settle(&self) {
        self.run_pending_tasks();
    }
}

impl Subject for Quick {
    fn get(&self, key: u64) -> Option<u64> {
        Quick::get(self, &key)
    }

    fn insert(&self, key: u64, value: u64) {
        Quick::insert(self, key, long_lived(value));
    }
}

/// The caches' names, cortado first.
pub const NAMES: [&str; 4] = ["cortado", "cortado pin()", "moka", "quick_cache"];

/// The cache with this name, for so many entries.
pub fn make(name: &str, capacity: u64) -> Box<dyn Subject> {
    match name {
        "cortado" => Box::new(cortado(capacity)),
        "cortado pin()" => Box::new(Pinned(cortado(capacity))),
        "moka" => Box::new(
            moka::sync::Cache::builder()
                .max_capacity(capacity)
                .expire_after(Lifetimes)
                .build_with_hasher(ahash::RandomState::new()),
        ),
        "quick_cache" => Box::new(Quick::with(
            capacity as usize,
            capacity,
            quick_cache::UnitWeighter,
            ahash::RandomState::new(),
            Default::default(),
        )),
        other => unreachable!("no adapter for {other}"),
    }
}

fn cortado(capacity: u64) -> Cortado {
    Cortado::builder().max_capacity(capacity).expire_after(Lifetimes).build()
}
