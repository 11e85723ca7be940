//! The caches behind one trait. Values are the entries' weights.
//!
//! moka and mini-moka apply inserts when it suits them, and until then a small cache holds many
//! times its capacity. They are made to settle after as many inserts as cortado applies at a time
//! (a 32nd of the capacity on this many threads); the others, cortado too, are as users have them.

use crate::options::Mode;
use crate::traces::{Access, FOREVER};
use anyhow::{Result, bail};
use cortado::{Clock, ManualClock, expire};
use mini_moka::sync::ConcurrentCacheExt as _;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a replay needs of a cache.
pub trait Subject: Send + Sync {
    /// Whether the key is there.
    fn get(&self, access: &Access) -> bool;
    fn insert(&self, access: &Access);
    /// Moves the time on.
    fn reach(&self, at: u64) {
        let _ = at;
    }
}

/// The names of those that run in a mode, cortado first.
pub fn names(mode: Mode) -> Vec<&'static str> {
    match mode {
        Mode::Entries => {
            vec![
                "cortado",
                "moka",
                "mini-moka",
                "quick_cache",
                "stretto",
                "foyer-lfu",
                "foyer-s3fifo",
                "tinyufo",
            ]
        }
        Mode::Bytes => {
            vec!["cortado", "moka", "mini-moka", "quick_cache", "foyer-lfu", "foyer-s3fifo"]
        }
        // The others' clocks cannot be set.
        Mode::Ttl => vec!["cortado", "lru", "unbounded"],
    }
}

/// The cache with this name, for so much weight; about so many entries are that.
pub fn make(name: &str, capacity: u64, entries: u64, mode: Mode) -> Result<Box<dyn Subject>> {
    let size = usize::try_from(capacity)?;
    let weighed = mode == Mode::Bytes;
    Ok(match name {
        "cortado" => Box::new(Cortado::new(Some(capacity), mode)),
        "unbounded" => Box::new(Cortado::new(None, mode)),
        "moka" => {
            let builder = Moka::builder().max_capacity(capacity);
            let builder = if weighed { builder.weigher(|_, weight| *weight) } else { builder };
            Box::new(Settled::new(builder.build_with_hasher(RandomState::new()), capacity))
        }
        "mini-moka" => {
            let builder = MiniMoka::builder().max_capacity(capacity);
            let builder = if weighed { builder.weigher(|_, weight| *weight) } else { builder };
            Box::new(Settled::new(builder.build_with_hasher(RandomState::new()), capacity))
        }
        "quick_cache" => {
            Box::new(Quick::with_weighter(usize::try_from(entries)?, capacity, ByValue))
        }
        "stretto" => Box::new(
            stretto::Cache::builder(10 * size, i64::try_from(capacity)?)
                .set_ignore_internal_cost(true)
                .finalize()?,
        ),
        "foyer-lfu" => Box::new(foyer(size, foyer_memory::LfuConfig::default().into())),
        "foyer-s3fifo" => Box::new(foyer(size, foyer_memory::S3FifoConfig::default().into())),
        "tinyufo" => Box::new(tinyufo::TinyUfo::<u64, u32>::new(size, size)),
        other => bail!("no cache is called {other:?}"),
    })
}

/// cortado, with the hand of its clock where lifetimes are obeyed.
struct Cortado {
    cache: cortado::Cache<u64, (u32, u32)>,
    hand: Option<ManualClock>,
}

impl Cortado {
    fn new(capacity: Option<u64>, mode: Mode) -> Self {
        let mut builder = cortado::Cache::builder();
        if let Some(capacity) = capacity {
            builder = builder.max_capacity(capacity);
        }
        if mode == Mode::Bytes {
            builder = builder.weigher(|_: &u64, (weight, _): &(u32, u32)| *weight);
        }
        let mut hand = None;
        if mode == Mode::Ttl {
            let (clock, own) = Clock::manual();
            let lifetime = |_: &u64, (_, ttl): &(u32, u32)| {
                (*ttl != FOREVER).then(|| Duration::from_millis(u64::from(*ttl)))
            };
            builder = builder.clock(clock).expire_after(expire::on_write(lifetime));
            hand = Some(own);
        }
        Self { cache: builder.build(), hand }
    }
}

impl Subject for Cortado {
    fn get(&self, access: &Access) -> bool {
        self.cache.get(&access.key).is_some()
    }

    fn insert(&self, access: &Access) {
        self.cache.insert(access.key, (access.weight, access.ttl));
    }

    fn reach(&self, at: u64) {
        if let Some(hand) = &self.hand {
            hand.set(Duration::from_millis(at));
        }
    }
}

type Moka = moka::sync::Cache<u64, u32, RandomState>;
type MiniMoka = mini_moka::sync::Cache<u64, u32, RandomState>;
type Quick = quick_cache::sync::Cache<u64, u32, ByValue>;

#[derive(Clone)]
struct ByValue;

impl quick_cache::Weighter<u64, u32> for ByValue {
    fn weight(&self, _: &u64, weight: &u32) -> u64 {
        u64::from(*weight)
    }
}

type Foyer = foyer_memory::Cache<u64, u32>;

fn foyer(capacity: usize, eviction: foyer_memory::EvictionConfig) -> Foyer {
    foyer_memory::CacheBuilder::new(capacity)
        .with_eviction_config(eviction)
        .with_weighter(|_: &u64, weight: &u32| *weight as usize)
        .build()
}

/// A cache that settles after every so many inserts.
struct Settled<C> {
    cache: C,
    inserts: AtomicU64,
    batch: u64,
}

impl<C> Settled<C> {
    fn new(cache: C, capacity: u64) -> Self {
        Self { cache, inserts: AtomicU64::new(0), batch: (capacity / 32).clamp(1, 64) }
    }

    /// Whether it is time, after one more insert.
    fn is_due(&self) -> bool {
        (self.inserts.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.batch)
    }
}

impl Subject for Settled<Moka> {
    fn get(&self, access: &Access) -> bool {
        self.cache.get(&access.key).is_some()
    }

    fn insert(&self, access: &Access) {
        self.cache.insert(access.key, access.weight);
        if self.is_due() {
            self.cache.run_pending_tasks();
        }
    }
}

impl Subject for Settled<MiniMoka> {
    fn get(&self, access: &Access) -> bool {
        self.cache.get(&access.key).is_some()
    }

    fn insert(&self, access: &Access) {
        self.cache.insert(access.key, access.weight);
        if self.is_due() {
            self.cache.sync();
        }
    }
}

impl Subject for Quick {
    fn get(&self, access: &Access) -> bool {
        self.get(&access.key).is_some()
    }

    fn insert(&self, access: &Access) {
        self.insert(access.key, access.weight);
    }
}

impl Subject for stretto::Cache<u64, u32> {
    fn get(&self, access: &Access) -> bool {
        self.get(&access.key).is_some()
    }

    /// Waits until the entry is seen: inserts are applied by a thread of the cache's own.
    fn insert(&self, access: &Access) {
        self.insert(access.key, access.weight, 1);
        let _ = self.wait();
    }
}

impl Subject for Foyer {
    fn get(&self, access: &Access) -> bool {
        self.get(&access.key).is_some()
    }

    fn insert(&self, access: &Access) {
        self.insert(access.key, access.weight);
    }
}

impl Subject for tinyufo::TinyUfo<u64, u32> {
    fn get(&self, access: &Access) -> bool {
        self.get(&access.key).is_some()
    }

    fn insert(&self, access: &Access) {
        self.put(access.key, access.weight, 1);
    }
}
