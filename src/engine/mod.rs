//! The engine: everything behind the one `Arc` of a [`Cache`](crate::Cache).
//!
//! [`Core`] knows no `K` and no `V`; [`Engine`] adds what does: keys to compare, hooks to ask, a
//! listener to tell. An operation of the face is, in order: the user's code that it needs (hash,
//! weigher, clock, hooks, equality, each with no lock held), one short section under one bucket's lock
//! (`commit`), an event into the write buffer, and then, outside of everything, its share of the
//! maintenance (`tend`).
//!
//! # User code
//!
//! | callback | locks held | thread | how often | a panic |
//! |---|---|---|---|---|
//! | `Hash`, `Eq` of keys | none | the caller's | hash once per operation, equality per candidate, again when the bucket changed meanwhile or another key has the same hash | reaches the caller; the operation has not happened |
//! | weigher | none | the caller's | once per value | the same |
//! | clock | none | the caller's, or whoever runs maintenance | a few times per operation | the same; from maintenance: before the pass began |
//! | expiry hooks | none | the caller's | once per operation, again when the key changed meanwhile | the same |
//! | loader (`get_with`, `or_insert_with`) | none; other loads and computations of the key wait | one of the callers' | once per load | reaches that caller; one of those who waited loads in its place |
//! | computation | none; every other write to the key waits | the caller's | once | reaches the caller; the entry is as before |
//! | `remove_if`, `retain` conditions | none | the caller's | once per entry, again when it changed meanwhile | reaches the caller; earlier removals stand |
//! | listener | none | whoever ran maintenance or removed something, or the scheduler's; one at a time | once per value | caught and counted; the next removal is delivered |
//! | `Drop` of keys and values | none | whoever drops the last handle, or runs maintenance, or the scheduler's | once | from a handle: reaches its dropper; from maintenance: caught and counted |
//! | `Clone` of values | none | the caller's | once per returned clone | reaches the caller; the cache is as after the operation |
//!
//! Each may call anything on the cache, with one exception: a loader or a computation that waits for
//! the key it is itself working on can never end, and panics instead.
//!
//! # Locks
//! maintenance → one shard of the flights → one bucket, each but the first for a few instructions.
//! What each protects is said where it is.

mod apply;
mod ask;
#[cfg(any(feature = "internals", cortado_loom))]
mod audit;
mod budget;
mod bulk;
mod commit;
mod compute;
mod core;
mod deliver;
mod event;
mod flights;
mod glance;
mod life;
mod load;
mod lookup;
mod maintenance;
mod read;
mod read_mode;
mod reclaim;
mod reentry;
mod run;
mod write;

pub use self::core::Core;
pub use deliver::Pending;
pub use glance::Moment;
#[cfg(all(test, feature = "internals", not(cortado_loom)))]
pub use maintenance::Maintenance;

use self::read_mode::{Facts, ReadMode};
use self::reentry::Deliver;
use crate::clock::Ticker;
use crate::config::Config;
use crate::entry::Removed;
use crate::expiry::Expiry;
use crate::pool::Pool;
#[cfg(not(cortado_loom))]
use crate::scheduler::{Scheduled, Scheduler};
use crate::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

/// Tells the weight of an entry.
pub type Weigher<K, V> = Box<dyn Fn(&K, &V) -> u32 + Send + Sync>;
/// Hears of removals.
pub type Listener<K, V> = Box<dyn Fn(Removed<K, V>) + Send + Sync>;

/// What the user plugs in.
pub struct Hooks<K, V> {
    pub expiry: Option<Box<dyn Expiry<K, V>>>,
    pub weigher: Option<Weigher<K, V>>,
    pub listener: Option<Listener<K, V>>,
}

/// See the [module](self).
pub struct Engine<K, V, S> {
    pub core: Arc<Core>,
    pool: Pool<K, V>,
    hasher: S,
    hooks: Hooks<K, V>,
    /// What reads have to do beside finding the entry.
    mode: ReadMode,
    /// Whether the policy's update hook is known to be the trait's own, which asks the create hook.
    updates_create: AtomicBool,
    name: Option<String>,
}

impl<K, V, S> Engine<K, V, S>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// # Errors
    /// If the scheduler's thread cannot be started.
    pub fn new(config: Config, hooks: Hooks<K, V>, hasher: S) -> std::io::Result<Arc<Self>> {
        let idle = config.lifetimes.idle;
        let ticker = Ticker::new(config.clock.clone());
        let pool = Pool::new(idle.is_some());
        let facts = Facts {
            margin: ticker.margin(),
            idle,
            idles_coarsely: idle.is_some_and(|idle| ticker.may_begin_coarsely(idle)),
            counts: config.record_stats,
        };
        let mode = ReadMode::new(facts, hooks.expiry.is_some());
        let core = Arc::new(Core::new(&config, ticker, pool.raw().clone(), mode.renews()));
        let engine = Arc::new(Self {
            core,
            pool,
            hasher,
            mode,
            updates_create: AtomicBool::new(false),
            hooks,
            name: config.name,
        });
        // A model has no process, and so no scheduler of one.
        #[cfg(not(cortado_loom))]
        if config.scheduled {
            // The core: the scheduler's thread must not be the one that drops keys and values.
            let client = Arc::downgrade(&engine.core) as Weak<dyn Scheduled>;
            let registration = Scheduler::global().register(client)?;
            let _ = engine.core.registration.set(registration);
        }
        let client = Arc::downgrade(&engine) as Weak<dyn Deliver>;
        let _ = engine.core.client.set(client);
        Ok(engine)
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Whether reads ask the expiry policy: for tests.
    pub fn asks_after_reads(&self) -> bool {
        self.mode.asks()
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}
