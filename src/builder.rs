//! Configuration.

use crate::cache::Cache;
use crate::clock::{Clock, nanos};
use crate::config::{Config, Executor, Notifications, Overflow};
use crate::engine::{Engine, Hooks};
use crate::entry::Removed;
use crate::error::BuildError;
use crate::executor::Execute;
use crate::expiration::Lifetimes;
use crate::expiry::Expiry;
use crate::wheel::Geometry;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

/// The finest tick that [`Builder::expiry_resolution`] takes.
const FINEST: Duration = Duration::from_millis(1);

/// Configures a [`Cache`]; made by [`Cache::builder`].
///
/// ```
/// use cortado::{Cache, RemovalCause};
/// use std::time::Duration;
///
/// let cache: Cache<String, Vec<u8>> = Cache::builder()
///     .name("responses")
///     .max_capacity(64 << 20)
///     .weigher(|key: &String, body: &Vec<u8>| (key.len() + body.len()) as u32)
///     .time_to_live(Duration::from_secs(300))
///     .removal_listener(|removed| {
///         if removed.cause() == RemovalCause::Size {
///             // ... count it
///         }
///     })
///     .build();
/// # drop(cache);
/// ```
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder<K, V> {
    name: Option<String>,
    max_capacity: Option<u64>,
    initial_capacity: usize,
    time_to_live: Option<Duration>,
    time_to_idle: Option<Duration>,
    resolution: Option<Duration>,
    record_stats: bool,
    scheduler: bool,
    executor: Option<Executor>,
    notifications: Notifications,
    clock: Clock,
    hooks: Hooks<K, V>,
}

impl<K, V> Builder<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    pub(crate) fn new() -> Self {
        Self {
            name: None,
            max_capacity: None,
            initial_capacity: 0,
            time_to_live: None,
            time_to_idle: None,
            resolution: None,
            record_stats: false,
            scheduler: false,
            executor: None,
            notifications: Notifications::default(),
            clock: Clock::system(),
            hooks: Hooks { expiry: None, weigher: None, listener: None },
        }
    }

    /// A name, for `Debug` and for telling caches apart in your metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The most that the cache holds: entries, or what the [`weigher`](Self::weigher) says they
    /// weigh. Without it the cache is unbounded. Zero turns caching off: every value leaves at
    /// once, as `Size`.
    ///
    /// The bound holds after each maintenance pass. Between passes, writes that are not yet applied
    /// may exceed it by at most 1/16 of it (at least one entry per write buffer stripe), plus one
    /// entry for each thread that is writing at that moment.
    pub fn max_capacity(mut self, max_capacity: u64) -> Self {
        self.max_capacity = Some(max_capacity);
        self
    }

    /// Makes room for so many entries beforehand, to spare the index its growth.
    pub fn initial_capacity(mut self, entries: usize) -> Self {
        self.initial_capacity = entries;
        self
    }

    /// How much an entry weighs against [`max_capacity`](Self::max_capacity). Asked once per value,
    /// when it is inserted, on the thread that does so, with no lock held; a panic reaches that
    /// caller and nothing is inserted. Weight 0 is allowed: such an entry is never evicted for
    /// want of room.
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> u32 + Send + Sync + 'static) -> Self {
        self.hooks.weigher = Some(Box::new(weigher));
        self
    }

    /// Entries expire this long after they were inserted or replaced. Must not be zero.
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = Some(time_to_live);
        self
    }

    /// Entries expire this long after they were last inserted, replaced or read. Must not be zero.
    ///
    /// By the system's clock, an idle time of 4.3 s or more may end early by 1/1024 of it, besides
    /// the lag of the clock's coarse form (see the [crate's guarantees](crate#guarantees)): a
    /// read that would prolong it by less writes nothing.
    pub fn time_to_idle(mut self, time_to_idle: Duration) -> Self {
        self.time_to_idle = Some(time_to_idle);
        self
    }

    /// A lifetime for each entry, from a policy of yours or a ready-made one
    /// ([`expire`](crate::expire)). Together with the fixed lifetimes, the earliest end wins.
    pub fn expire_after(mut self, expiry: impl Expiry<K, V> + 'static) -> Self {
        self.hooks.expiry = Some(Box::new(expiry));
        self
    }

    /// How long after its deadline an entry may stay in memory, and its notification wait, while
    /// the cache is in use or has a [`scheduler`](Self::scheduler): the tick of the timer
    /// wheel, rounded down to a power of two of nanoseconds. By default 1.07 s (2^30 ns), which
    /// is also the coarsest; the finest is 1 ms. Lookups are exact whatever it is.
    pub fn expiry_resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// Is told of every value that leaves the cache, once, in the order of removals per key, one at
    /// a time.
    ///
    /// *Callbacks*: runs with no lock held, on the thread of some operation on the cache after that
    /// operation, on a worker thread of the process (for a cache with a
    /// [`scheduler`](Self::scheduler)), or on your [`executor`](Self::executor). It never runs
    /// inside a load, a computation or a callback. It may call anything on the cache; removals
    /// that it causes are announced after it returns. A slow listener holds up the thread
    /// it runs on and further notifications of this cache, not other threads and no other cache. A
    /// panic is caught and counted ([`Stats::listener_panics`](crate::Stats::listener_panics)),
    /// and the next removal is announced.
    ///
    /// Notifications wait in a queue that is unbounded unless there is a
    /// [`notification_limit`](Self::notification_limit).
    pub fn removal_listener(
        mut self,
        listener: impl Fn(Removed<K, V>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.listener = Some(Box::new(listener));
        self
    }

    /// Bounds the queue of notifications that wait for the listener. By default it is unbounded: a
    /// listener that is stuck lets it grow, which
    /// [`Stats::pending_notifications`](crate::Stats::pending_notifications) shows.
    ///
    /// With [`Overflow::Wait`] a writer that finds more than `limit` waiting helps to deliver, or
    /// waits for whoever does, after its operation. It never waits inside a callback, a load or
    /// a computation. Expiry and eviction are not held back, so the queue may exceed the limit
    /// by what the cache holds. With [`Overflow::Discard`] further notifications are dropped
    /// and counted ([`Stats::discarded_notifications`](crate::Stats::discarded_notifications)).
    pub fn notification_limit(mut self, limit: usize, overflow: Overflow) -> Self {
        self.notifications = Notifications(Some((limit, overflow)));
        self
    }

    /// Runs the listener, and the destructors of what maintenance removes, on this executor instead
    /// of the threads of operations. Each cache has at most one job there at a time. What
    /// [`run_pending_tasks`](Cache::run_pending_tasks) and [`close`](Cache::close) promise they do
    /// themselves.
    ///
    /// An executor that runs jobs at once, on the caller's thread, is allowed. It is dropped with
    /// the cache, on whichever thread that ends, which may be one of its own.
    ///
    /// Without one, operations deliver in passing, and the scheduler leaves it to worker threads of
    /// the process: one as long as no listener or destructor takes longer than 10 ms while
    /// others wait. They end when they are idle.
    pub fn executor(mut self, executor: impl Execute) -> Self {
        self.executor = Some(Executor::Own(Arc::new(executor)));
        self
    }

    /// Whether to keep the counters of [`Cache::stats`]; off by default. Costs a few nanoseconds
    /// per operation.
    pub fn record_stats(mut self, record: bool) -> Self {
        self.record_stats = record;
        self
    }

    /// Where the cache reads the time; the system's monotonic clock by default.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Whether a background thread tends the cache, so that entries expire and are announced, and
    /// memory is released, also while nobody uses it; off by default. One thread serves all caches
    /// of the process. It sleeps until the earliest deadline of any, and ends when the last of
    /// them is gone. Caches with a clock of their own are looked at once per
    /// [`expiry_resolution`](Self::expiry_resolution).
    ///
    /// The thread runs no listener and no destructor, which worker threads do (see
    /// [`executor`](Self::executor)). Of the user's code it runs a clock only.
    ///
    /// *Fork*: a forked child has no such thread. Inherited caches work in it as caches without a
    /// scheduler, until the child builds a cache with one: that starts the thread anew, for all
    /// of them. A fork at the very moment at which the thread holds its lock leaves a child in
    /// which that build hangs, as with any lock.
    pub fn scheduler(mut self, scheduler: bool) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Builds the cache with the default hasher: aHash with random keys, which resists attacks by
    /// colliding keys.
    ///
    /// # Panics
    /// If a setting makes no sense; the message names it. [`try_build`](Self::try_build) returns
    /// it.
    #[must_use]
    pub fn build(self) -> Cache<K, V> {
        self.build_with_hasher(ahash::RandomState::new())
    }

    /// [`build`](Self::build) that returns what is wrong.
    ///
    /// # Errors
    /// If a setting makes no sense, or the scheduler's thread cannot be started.
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::Duration;
    ///
    /// let error = Cache::<u32, u32>::builder().time_to_live(Duration::ZERO).try_build().unwrap_err();
    /// assert_eq!(error.setting(), "time_to_live");
    /// ```
    pub fn try_build(self) -> Result<Cache<K, V>, BuildError> {
        self.try_build_with_hasher(ahash::RandomState::new())
    }

    /// [`build`](Self::build) with a hasher of yours. A weak one costs speed and, if its results
    /// can be foreseen, resistance against attacks, but never correctness.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    #[must_use]
    pub fn build_with_hasher<S>(self, hasher: S) -> Cache<K, V, S>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        match self.try_build_with_hasher(hasher) {
            Ok(cache) => cache,
            Err(error) => panic!("{error}"),
        }
    }

    /// [`try_build`](Self::try_build) with a hasher of yours.
    ///
    /// # Errors
    /// As [`try_build`](Self::try_build).
    pub fn try_build_with_hasher<S>(self, hasher: S) -> Result<Cache<K, V, S>, BuildError>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        let (config, hooks) = self.settle()?;
        let engine = Engine::new(config, hooks, hasher)
            .map_err(|error| BuildError::new("scheduler", format!("its thread: {error}")))?;
        Ok(Cache::from_engine(engine))
    }

    fn settle(self) -> Result<(Config, Hooks<K, V>), BuildError> {
        let positive = |setting, duration: Option<Duration>| match duration {
            Some(Duration::ZERO) => {
                Err(BuildError::new(setting, "must not be zero; nothing would ever be cached"))
            }
            _ => Ok(duration.map(nanos)),
        };
        let live = positive("time_to_live", self.time_to_live)?;
        let idle = positive("time_to_idle", self.time_to_idle)?;
        let geometry = match self.resolution {
            Some(resolution) if resolution < FINEST => {
                let reason = format!("{resolution:?} is finer than the finest, {FINEST:?}");
                return Err(BuildError::new("expiry_resolution", reason));
            }
            Some(resolution) => Geometry::with_resolution(resolution),
            None => Geometry::default(),
        };
        const MOST: usize = 1 << 31;
        if self.initial_capacity >= MOST {
            return Err(BuildError::new(
                "initial_capacity",
                "a cache holds fewer than 2^31 entries",
            ));
        }
        let config = Config {
            name: self.name,
            max_capacity: self.max_capacity,
            initial_capacity: self.initial_capacity,
            weighs: self.hooks.weigher.is_some(),
            lifetimes: Lifetimes { live, idle },
            geometry,
            record_stats: self.record_stats,
            clock: self.clock,
            // The executions of a model have to be repeatable.
            seed: if cfg!(cortado_loom) { 0 } else { ahash::RandomState::new().hash_one("policy") },
            scheduled: self.scheduler,
            announces: self.hooks.listener.is_some(),
            notifications: self.notifications,
            executor: self.executor,
        };
        Ok((config, self.hooks))
    }
}

impl<K, V> fmt::Debug for Builder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("max_capacity", &self.max_capacity)
            .field("weigher", &self.hooks.weigher.is_some())
            .field("time_to_live", &self.time_to_live)
            .field("time_to_idle", &self.time_to_idle)
            .field("expire_after", &self.hooks.expiry.is_some())
            .field("expiry_resolution", &self.resolution)
            .field("removal_listener", &self.hooks.listener.is_some())
            .field("scheduler", &self.scheduler)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
