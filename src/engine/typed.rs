//! The part of a cache that knows its types.

use super::asked::{Insert, Waiting};
use super::delivery::{Client, Deliver, Listener, Listeners};
use super::maintenance::{Core, Parts};
use super::read_mode::{Facts, ReadMode};
use super::reloads::{AnyReloads, RefreshPolicy, TypedReloads};
use super::step::Step;
use crate::async_listener::{AsyncListener, Share};
use crate::clock::{Clock, Nanos, Ticker, Timestamp, nanos};
use crate::config::{Config, EvictionPolicy, Policy};
use crate::executor::Running;
use crate::expiration::Lifetime;
use crate::expiry::Expiry;
use crate::expiry::default_hook::{Sealed, SetsOn};
use crate::hash::{Hashed, hash32};
use crate::key_source::KeySource;
use crate::links::NodeId;
use crate::pool::{Column, Columns, Pool, RawPool};
use crate::primitives::atomic::AtomicBool;
use crate::primitives::{self, seeded};
#[cfg(all(feature = "tokio", not(cortado_loom)))]
use crate::scheduler::TaskRegistration;
#[cfg(not(cortado_loom))]
use crate::scheduler::{Scheduled, Scheduler};
use crate::stats::Stats;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Weak};

/// Says how long an entry lives.
pub type ExpiryPolicy<K, V> = Box<dyn Expiry<K, V> + Send + Sync>;
/// Tells the weight of an entry.
pub type Weigher<K, V> = Box<dyn Fn(&K, &V) -> u32 + Send + Sync>;

/// Tells an asynchronous listener what waits, at the end of a task's operation.
pub trait Tell: Send + Sync {
    /// Of a writer with a limit, it also waits until no more notices than that wait.
    fn tell(&self, share: Share) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Whether there is nothing to tell.
    fn is_idle(&self) -> bool;

    /// How many calls of the listener have panicked since the last time.
    fn take_panics(&self) -> u64;
}

impl<K, V> Tell for AsyncListener<K, V>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn tell(&self, share: Share) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.drive(share))
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn take_panics(&self) -> u64 {
        self.take_panics()
    }
}

/// Registers the core of a cache with the scheduler of this clock.
///
/// # Errors
/// If the scheduler's thread cannot be started.
pub type Schedule = fn(&Arc<Core>, &Clock) -> std::io::Result<()>;

/// Makes one listener of all.
pub type Listen<K, V> = fn(Listeners<K, V>) -> Arc<dyn Deliver>;

/// What an insert does in a cache whose hooks, weigher or refresh policy it asks. These are
/// pointers that the methods of the builder store, as are the others here: a program that does not
/// call such a method is without the code.
pub struct Asking<K, V> {
    pub insert: InsertAsking<K, V>,
    /// Asks again after a wait, if need be. Returns whether the insert is done.
    pub again: AskAgain<K, V>,
}

type InsertAsking<K, V> = fn(&Engine<K, V>, Hashed<K>, V, Lifetime) -> Waiting<K, V>;
type AskAgain<K, V> = fn(&Engine<K, V>, &mut Insert<K, V>) -> Step<bool>;

/// What a read has made of a life that it prolongs.
pub enum Renewed {
    /// The entry lives until then.
    Until(Timestamp),
    /// It had expired.
    Over,
    /// The key has to be looked up again.
    Changed,
}

/// Prolongs the life of a node that was found living, with this deadline. Sets the flag if a pass
/// is to follow.
pub type Renew<K, V> = fn(&Engine<K, V>, NodeId, Timestamp, Timestamp, &mut bool) -> Renewed;

/// What the user plugs in.
pub struct Hooks<K, V> {
    pub expiry: Option<ExpiryPolicy<K, V>>,
    pub weigher: Option<Weigher<K, V>>,
    pub listeners: Vec<Listener<K, V>>,
    pub async_listeners: Vec<Arc<dyn Tell>>,
    pub refresh: Option<RefreshPolicy<K, V>>,
    /// In a cache with a stored loader. They have the policy, then.
    pub reloads: Option<Box<dyn AnyReloads<K, V>>>,
    pub listen: Option<Listen<K, V>>,
    pub asking: Option<Asking<K, V>>,
    pub renew: Option<Renew<K, V>>,
    /// Registers the cache with the scheduler. (By a pointer, so that only a program that asks for
    /// a scheduler has its code.)
    pub schedule: Option<Schedule>,
}

/// What is behind the one `Arc` of a [`Cache`](crate::Cache). The engine takes keys with their
/// hashes, so that it does not depend on the type of the hasher.
pub struct WithHasher<K, V, S> {
    pub engine: Engine<K, V>,
    pub hasher: S,
}

impl<K, V, S> WithHasher<K, V, S> {
    #[inline]
    pub fn hashed<'q, Q: Hash + ?Sized>(&self, key: &'q Q) -> Hashed<&'q Q>
    where
        S: BuildHasher,
    {
        hash32(&self.hasher, key).with(key)
    }

    #[inline]
    pub fn source<Q: KeySource<K>>(&self, key: Q) -> Hashed<Q>
    where
        S: BuildHasher,
    {
        hash32(&self.hasher, key.borrowed()).with(key)
    }

    #[inline]
    pub fn owned(&self, key: K) -> Hashed<K>
    where
        K: Hash,
        S: BuildHasher,
    {
        hash32(&self.hasher, &key).with(key)
    }
}

/// Everything but the hasher.
pub struct Engine<K, V> {
    pub core: Arc<Core>,
    pub pool: Pool<K, V>,
    pub expiry: Option<ExpiryPolicy<K, V>>,
    pub weigher: Option<Weigher<K, V>>,
    pub async_listeners: Vec<Arc<dyn Tell>>,
    /// The listeners, of which the core knows. They end here.
    pub listener: Option<Arc<dyn Deliver>>,
    /// What reads have to do beside finding the entry.
    pub mode: ReadMode,
    /// Whether the policy's update hook is known to ask the create hook, as the trait's default
    /// does.
    pub updates_create: AtomicBool,
    /// Whether the policy's answer about a new value depends on key and value alone.
    pub answers_alone: bool,
    /// Whether an insert does more than to put key and value into a node: it asks the weigher, or
    /// sets a soft deadline.
    pub asks_about_values: bool,
    /// In a cache with refresh.
    pub reloads: Option<Box<dyn AnyReloads<K, V>>>,
    pub asking: Option<Asking<K, V>>,
    pub renew: Option<Renew<K, V>>,
    name: Option<String>,
    eviction: EvictionPolicy,
}

impl<K, V, S> Deref for WithHasher<K, V, S> {
    type Target = Engine<K, V>;

    #[inline]
    fn deref(&self) -> &Engine<K, V> {
        &self.engine
    }
}

impl<K, V, S> WithHasher<K, V, S>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// # Errors
    /// If the scheduler's thread cannot be started.
    pub fn new(config: &Config, hooks: Hooks<K, V>, hasher: S) -> std::io::Result<Arc<Self>> {
        let schedule = hooks.schedule.filter(|_| config.scheduled);
        let cache = Arc::new(Self { engine: Engine::new(config, hooks), hasher });
        if let Some(schedule) = schedule {
            schedule(&cache.core, &config.clock)?;
        }
        let client = Arc::downgrade(&cache) as Weak<dyn Client>;
        let _ = cache.core.notices.client.set(client);
        Ok(cache)
    }
}

impl<K, V, S> Client for WithHasher<K, V, S>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    fn run_job(&self, running: Running) {
        self.engine.run_job(running);
    }
}

impl<K, V> Engine<K, V> {
    fn new(config: &Config, hooks: Hooks<K, V>) -> Self
    where
        K: Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        let Hooks { expiry, weigher, async_listeners, asking, renew, reloads, .. } = hooks;
        let pool = Pool::new(columns(config));
        let sets_on = expiry.as_ref().and_then(|policy| policy.sets_on(Sealed));
        let leaves_reads_alone = matches!(sets_on, Some(SetsOn::Create | SetsOn::Write));
        let answers_alone = matches!(sets_on, Some(SetsOn::Write | SetsOn::Access));
        let all = hooks.listeners;
        let listener = hooks.listen.map(|listen| listen(Listeners { pool: pool.share(), all }));
        let asks_on_reads = expiry.is_some() && !leaves_reads_alone;
        let (core, mode) =
            parts(config, asks_on_reads, pool.raw(), listener.as_ref().map(Arc::downgrade));
        Self {
            core,
            pool,
            mode,
            updates_create: AtomicBool::new(answers_alone),
            answers_alone,
            asks_about_values: weigher.is_some() || reloads.is_some(),
            expiry,
            weigher,
            async_listeners,
            listener,
            asking,
            renew,
            reloads,
            name: config.name.clone(),
            eviction: config.eviction.clone(),
        }
    }
}

/// The parts of a cache that do not depend on its types.
fn parts(
    config: &Config,
    asks: bool,
    pool: &primitives::Arc<RawPool>,
    listener: Option<Weak<dyn Deliver>>,
) -> (Arc<Core>, ReadMode) {
    let idle = config.time_to_idle.map(nanos);
    let ticker = Ticker::new(config.clock.clone());
    let facts = Facts {
        margin: ticker.margin(),
        idle,
        idles_coarsely: idle.is_some_and(|idle| ticker.may_begin_coarsely(idle)),
        counts: config.record_stats,
        refreshes: config.refresh.has_loader,
    };
    let mode = ReadMode::new(facts, asks);
    let (pool, reads_prolong) = (pool.clone(), mode.renews());
    (Arc::new(Core::new(config, Parts { ticker, pool, reads_prolong, listener })), mode)
}

/// The columns of a cache with these settings.
fn columns(config: &Config) -> Columns {
    let mut columns = Columns::NONE;
    if config.time_to_idle.is_some() {
        columns = columns.with(Column::HardDeadline);
    }
    if config.refresh.has_loader || seeded("nodes-have-all-columns") {
        columns = columns.with(Column::Refresh);
    }
    columns
}

/// [`Schedule`] for every clock. Only the core is registered: the scheduler must not drop keys and
/// values.
#[cfg(not(cortado_loom))]
pub fn schedule(core: &Arc<Core>, clock: &Clock) -> std::io::Result<()> {
    let client = Arc::downgrade(core) as Weak<dyn Scheduled>;
    #[cfg(feature = "tokio")]
    if let Some(time) = clock.runtime() {
        core.set_alarm(Box::new(TaskRegistration::spawn(time.clone(), client)));
        return Ok(());
    }
    let _any_other = clock;
    core.set_alarm(Box::new(Scheduler::global().register(client)?));
    Ok(())
}

impl<K, V> Engine<K, V> {
    /// What a cache with refresh has, for its own operations.
    pub fn refresh(&self) -> Option<&TypedReloads<K, V>> {
        self.reloads.as_ref().map(|reloads| reloads.typed())
    }

    /// Whether reads ask the expiry policy: for tests.
    #[cfg(feature = "internals")]
    pub fn has_read_hook(&self) -> bool {
        self.mode.asks()
    }

    /// Changes the idle time. Does nothing and returns false if the cache was built without one.
    pub fn change_idle_time(&self, idle: Nanos) -> bool {
        let core = &self.core;
        if !core.lifetimes.has_idle() {
            return false;
        }
        let is_coarse = core.ticker.may_begin_coarsely(idle);
        self.mode.change_idle(idle, is_coarse, || core.lifetimes.set_idle(idle));
        true
    }

    /// The settings that decide how long entries stay.
    pub fn policy(&self) -> Policy {
        let (time_to_live, time_to_idle) = self.core.lifetimes.present();
        Policy {
            max_capacity: self.core.capacity(),
            time_to_live,
            time_to_idle,
            eviction: self.eviction.clone(),
        }
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.core.stats();
        if let Some(reloads) = &self.reloads {
            reloads.add_to(&mut stats);
        }
        stats
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}
