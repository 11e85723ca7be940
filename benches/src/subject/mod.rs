//! The caches behind one trait.
//!
//! Adapters do what the cache's own documentation tells its users to do, and nothing else. Where a
//! cache has per-entry lifetimes, each entry gets its value's; where its reads go through a guard,
//! a thread holds one over [`READS_PER_GUARD`] reads.

mod bounded;
mod cortado;
mod eight;
mod floors;
mod moka;
mod tasks;
mod timed;

pub use bounded::{Foyer, QuickCache, Scc};
pub use cortado::{Cortado, CortadoBy, CortadoPin};
pub use eight::CortadoEight;
pub use floors::{Papaya, Shards};
pub use moka::{MiniMoka, Moka, MokaExpiry};
pub use tasks::{CortadoFuture, CortadoFutureIf, MokaFuture};
pub use timed::{LightCache, Pingora, Stretto};

use crate::key::Key;
use crate::value::Value;
use clap::ValueEnum;
use std::time::Duration;

/// How many reads a held guard serves before it is renewed, so that memory can be released.
pub const READS_PER_GUARD: u32 = 64;

/// What a workload wants of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many entries it may hold.
    pub capacity: u64,
    /// A time to idle, in place of lifetimes entry by entry.
    pub idle: Option<Duration>,
}

impl Plan {
    /// So many entries with lifetimes of their own.
    pub fn entries(capacity: u64) -> Self {
        Self { capacity, idle: None }
    }
}

/// A cache.
pub trait Subject<K: Key, V: Value>: Send + Sync + Sized {
    /// How one thread reads.
    type Reader<'a>: Reader<K>
    where
        Self: 'a;

    /// An empty cache.
    fn new(plan: Plan) -> Self;

    /// For the thread that calls it.
    fn reader(&self) -> Self::Reader<'_>;

    /// Puts a value in, for as long as it says if the cache can do that.
    fn insert(&self, key: K, value: V);

    /// Waits for, or does, the work that inserts left behind.
    fn settle(&self) {}
}

/// One thread's reads of a cache.
pub trait Reader<K> {
    /// Looks at the key's value; false if there is none.
    fn read(&mut self, key: &K) -> bool;
}

/// A cache whose reads need nothing that is kept from one to the next.
pub trait Lookup<K> {
    /// As [`Reader::read`].
    fn look_up(&self, key: &K) -> bool;
}

impl<K, C: Lookup<K>> Reader<K> for &C {
    #[inline]
    fn read(&mut self, key: &K) -> bool {
        self.look_up(key)
    }
}

/// What is done with each cache in turn, compiled for each.
pub trait Driver<K: Key, V: Value> {
    type Output;

    fn drive<S: Subject<K, V>>(self) -> Self::Output;
}

/// The caches, by the names of the command line and the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Rival {
    Cortado,
    CortadoPin,
    CortadoScheduler,
    CortadoOnWrite,
    CortadoInsertTtl,
    CortadoTimeToLive,
    CortadoReadHook,
    CortadoRefresh,
    CortadoStats,
    CortadoLoad,
    CortadoHandle,
    CortadoIf,
    CortadoEight,
    CortadoFuture,
    CortadoFutureIf,
    MokaExpiry,
    MokaFuture,
    Moka,
    MiniMoka,
    QuickCache,
    Stretto,
    Foyer,
    Scc,
    LightCache,
    Pingora,
    Papaya,
    RwlockShards,
}

/// What a rival is.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Its package, as in `Cargo.lock`.
    pub package: &'static str,
    /// Whether it stays within its capacity.
    pub bounded: bool,
    /// Whether each entry has a lifetime of its own.
    pub lifetimes: bool,
    /// Whether it has a time to idle.
    pub idle: bool,
    /// What sets its adapter apart.
    pub note: &'static str,
}

impl Rival {
    /// All of them, cortado first.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Those that take part unless others are named.
    pub fn usual() -> Vec<Self> {
        Self::all().iter().copied().filter(|rival| !rival.varies()).collect()
    }

    /// Whether it is another way to use a cache that takes part anyway: cortado with lifetimes
    /// given in another way than by the documented policy, with statistics, or read otherwise than
    /// by `get`; a cache for tasks.
    pub fn varies(self) -> bool {
        matches!(
            self,
            Self::CortadoOnWrite
                | Self::CortadoInsertTtl
                | Self::CortadoTimeToLive
                | Self::CortadoReadHook
                | Self::CortadoRefresh
                | Self::CortadoStats
                | Self::CortadoLoad
                | Self::CortadoHandle
                | Self::CortadoIf
                | Self::CortadoEight
                | Self::CortadoFuture
                | Self::CortadoFutureIf
                | Self::MokaFuture
        )
    }

    /// What it is called.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no variant is skipped").get_name().to_owned()
    }

    /// What it is.
    pub fn card(self) -> Card {
        let card =
            |package, note| Card { package, bounded: true, lifetimes: false, idle: false, note };
        let timed = |package, note| Card { lifetimes: true, ..card(package, note) };
        let unbounded = |package, note| Card { bounded: false, ..card(package, note) };
        match self {
            Self::Cortado => Card {
                idle: true,
                ..timed("cortado", "expiry policy as documented; `get`, which returns a clone")
            },
            Self::CortadoPin => Card {
                idle: true,
                ..timed("cortado", "expiry policy; `pin().get`, one guard over 64 reads")
            },
            Self::CortadoScheduler => Card {
                idle: true,
                ..timed("cortado", "expiry policy; `get`; with the scheduler's thread")
            },
            Self::CortadoOnWrite => timed("cortado", "ready-made policy, `expire::on_write`"),
            Self::CortadoInsertTtl => timed("cortado", "no policy; `insert_with_ttl`"),
            Self::CortadoTimeToLive => card("cortado", "no policy; `time_to_live` of an hour"),
            Self::CortadoReadHook => {
                timed("cortado", "expiry policy with a read hook that changes nothing")
            }
            Self::CortadoRefresh => {
                timed("cortado", "expiry policy, and a soft deadline that does not come")
            }
            Self::CortadoStats => {
                Card { idle: true, ..timed("cortado", "expiry policy; with statistics") }
            }
            Self::CortadoLoad => Card {
                idle: true,
                ..timed("cortado", "expiry policy; loads by `optionally_get_with_by_ref`")
            },
            Self::CortadoHandle => {
                Card { idle: true, ..timed("cortado", "expiry policy; `get_entry`") }
            }
            Self::CortadoIf => Card {
                idle: true,
                ..timed(
                    "cortado",
                    "expiry policy; `get_if` with a condition on the time of writing",
                )
            },
            Self::CortadoEight => {
                timed("cortado", "expiry policy; eight caches side by side, chosen by hash")
            }
            Self::CortadoFuture => Card {
                idle: true,
                ..timed("cortado", "the cache for tasks; expiry policy; futures polled in place")
            },
            Self::CortadoFutureIf => Card {
                idle: true,
                ..timed("cortado", "the cache for tasks; expiry policy; `get_if`, as above")
            },
            Self::MokaExpiry => timed("moka", "sync, expiry policy"),
            Self::MokaFuture => Card {
                idle: true,
                ..timed("moka", "the cache for tasks; expiry policy; futures polled in place")
            },
            Self::Moka => Card { idle: true, ..card("moka", "sync, no lifetimes") },
            Self::MiniMoka => Card { idle: true, ..card("mini-moka", "sync, no lifetimes") },
            Self::QuickCache => card("quick_cache", "no lifetimes"),
            Self::Stretto => timed(
                "stretto",
                "a lifetime per insert; keeps two hashes of a key in its place; a thread of its own",
            ),
            Self::Foyer => card("foyer-memory", "no lifetimes; LRU, its default; 8 shards"),
            Self::Scc => card("scc", "HashCache; no lifetimes; LRU within a bucket"),
            Self::LightCache => unbounded(
                "light-cache",
                "one lifetime for all entries, looked at by every call; unbounded; `Copy` keys only",
            ),
            Self::Pingora => timed(
                "pingora-memory-cache",
                "a lifetime per insert, checked by reads; keeps a hash of a key in its place",
            ),
            Self::Papaya => unbounded("papaya", "a map; one guard over 64 reads"),
            Self::RwlockShards => {
                unbounded("hashbrown", "a map: 64 shards, each under an RwLock of std")
            }
        }
    }

    /// Whether it is the same cache as another one, read or tended differently.
    pub fn doubles(self) -> bool {
        matches!(self, Self::CortadoPin | Self::CortadoScheduler)
    }

    /// Hands `driver` this cache; `None` if it cannot have these keys.
    pub fn drive<K: Key, V: Value, D: Driver<K, V>>(self, driver: D) -> Option<D::Output> {
        Some(match self {
            Self::Cortado => driver.drive::<Cortado<K, V>>(),
            Self::CortadoPin => driver.drive::<CortadoPin<K, V>>(),
            Self::CortadoScheduler => driver.drive::<Cortado<K, V, cortado::Scheduled>>(),
            Self::CortadoOnWrite => driver.drive::<Cortado<K, V, cortado::OnWrite>>(),
            Self::CortadoInsertTtl => driver.drive::<Cortado<K, V, cortado::InsertTtl>>(),
            Self::CortadoTimeToLive => driver.drive::<Cortado<K, V, cortado::TimeToLive>>(),
            Self::CortadoReadHook => driver.drive::<Cortado<K, V, cortado::ReadHook>>(),
            Self::CortadoRefresh => driver.drive::<Cortado<K, V, cortado::Refresh>>(),
            Self::CortadoStats => driver.drive::<Cortado<K, V, cortado::Counted>>(),
            Self::CortadoLoad => driver.drive::<CortadoBy<K, V, cortado::Load>>(),
            Self::CortadoHandle => driver.drive::<CortadoBy<K, V, cortado::Handle>>(),
            Self::CortadoIf => driver.drive::<CortadoBy<K, V, cortado::If>>(),
            Self::CortadoEight => driver.drive::<CortadoEight<K, V>>(),
            Self::CortadoFuture => driver.drive::<CortadoFuture<K, V>>(),
            Self::CortadoFutureIf => driver.drive::<CortadoFutureIf<K, V>>(),
            Self::MokaExpiry => driver.drive::<MokaExpiry<K, V>>(),
            Self::MokaFuture => driver.drive::<MokaFuture<K, V>>(),
            Self::Moka => driver.drive::<Moka<K, V>>(),
            Self::MiniMoka => driver.drive::<MiniMoka<K, V>>(),
            Self::QuickCache => driver.drive::<QuickCache<K, V>>(),
            Self::Stretto => driver.drive::<Stretto<K, V>>(),
            Self::Foyer => driver.drive::<Foyer<K, V>>(),
            Self::Scc => driver.drive::<Scc<K, V>>(),
            Self::LightCache => return K::drive_light(driver),
            Self::Pingora => driver.drive::<Pingora<K, V>>(),
            Self::Papaya => driver.drive::<Papaya<K, V>>(),
            Self::RwlockShards => driver.drive::<Shards<K, V>>(),
        })
    }
}

#[cfg(test)]
mod tests;
