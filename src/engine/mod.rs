//! The engine: everything behind the one `Arc` of a [`Cache`](crate::Cache).
//!
//! [`Core`] knows no `K` and no `V`; [`Engine`] adds what does: keys to compare, hooks to ask, a
//! listener to tell. An operation of the face is, in order: the user's code that it needs (hash,
//! weigher, clock, hooks, equality, each with no lock held), one short section under one bucket's
//! lock (`commit`), an event into the write buffer, and then, outside of everything, its share of
//! the maintenance (`run`) and of the deliveries (`deliver`).
//!
//! # User code
//!
//! | callback | held meanwhile | thread | how often | a panic |
//! |---|---|---|---|---|
//! | `Hash`, `Eq` of keys | a guard | the caller's | hash once per operation, equality per candidate, again when entries with the same hash changed meanwhile | reaches the caller; the operation has not happened (`retain`: earlier removals stand) |
//! | weigher | nothing; a write of its own key panics | the caller's | once per value | the same |
//! | clock | nothing, or a guard | the caller's, or whoever runs maintenance, or the scheduler's | a few times per operation | the same; from maintenance: before the pass began |
//! | expiry hooks of writes | nothing; a write of their own key panics | the caller's | once per operation; twice for a short lifetime by the system's clock; once more if the key's own entry changed meanwhile | the same |
//! | read hook | a guard; a write of its own key panics | the caller's | once per read; twice if it shortens a long life, or gives a short one, by the system's clock. Once in all if it is the trait's own | reaches the caller; the entry is as before |
//! | loader (`get_with`, `or_insert_with`) | nothing; other loads and computations of the key wait | one of the callers' | once per load | reaches that caller; one of those who waited loads in its place |
//! | computation | nothing; every other write to the key waits | the caller's | once | reaches the caller; the entry is as before |
//! | `remove_if`, `retain` conditions | nothing; a write of the key that they judge panics | the caller's | once per entry, once more if it changed meanwhile | reaches the caller; earlier removals stand |
//! | listener | nothing | see `docs/notifications.md`; one at a time | once per value | caught and counted; the next removal is delivered |
//! | `Drop` of keys and values | nothing | whoever drops the last handle, or delivers | once | from a handle: reaches its dropper; from a delivery: caught and counted |
//! | `Clone` of values | a guard | the caller's | once per returned clone | reaches the caller; the cache is as after the operation |
//!
//! No lock is ever held. A guard that is held keeps memory of removed entries from being released.
//! Each callback may call anything on the cache, with two exceptions, which panic: what waits for
//! the key that it is itself working on, and a hook, weigher or condition that writes the key that
//! it was asked about. `docs/flights.md` has the details.
//!
//! # Locks
//! maintenance → moving of the index → one shard of the flights → one bucket (a mover: one of the
//! old table, then one of the new). Each but the first is held for a few instructions. What each
//! protects is said where it is.

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
mod evict;
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
mod remove;
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
use std::sync::Arc;
use std::sync::Weak;

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
    /// Whether the policy's update hook is known to be the trait's own, which asks the create
    /// hook.
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
