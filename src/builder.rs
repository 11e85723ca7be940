//! The builder, which collects and checks the settings of a cache.

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

/// The finest tick that [`Builder::expiry_resolution`] accepts.
const FINEST: Duration = Duration::from_millis(1);

/// Configures a [`Cache`]. [`Cache::builder`] makes one.
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

    /// Names the cache, for `Debug` and for telling caches apart in your metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Bounds the cache: by its number of entries, or by their weight if there is a
    /// [`weigher`](Self::weigher).
    ///
    /// Without this setting the cache is unbounded. Zero turns caching off: every value leaves at
    /// once, as [`Size`](crate::RemovalCause::Size).
    ///
    /// The bound holds after each maintenance pass. Making room for an entry that is heavier than
    /// many others together takes several passes.
    ///
    /// Between passes, writes that are not yet applied may exceed the bound by at most 1/16 of it
    /// (at least one entry per write buffer stripe), plus one entry for each thread that is writing
    /// at that moment.
    pub fn max_capacity(mut self, max_capacity: u64) -> Self {
        self.max_capacity = Some(max_capacity);
        self
    }

    /// Makes room for this many entries beforehand, which spares the index its growth.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses 2^31 entries or more.
    pub fn initial_capacity(mut self, entries: usize) -> Self {
        self.initial_capacity = entries;
        self
    }

    /// Sets the weigher, which tells how much an entry counts against
    /// [`max_capacity`](Self::max_capacity).
    ///
    /// *Units*: weights have the unit of `max_capacity`. Weight 0 is allowed: such an entry is
    /// never evicted for want of room.
    ///
    /// *Callbacks*: the weigher is asked once per value, when the value is inserted, on the
    /// inserting thread, with no lock held. It must not write the key that it is asked about: that
    /// write panics. A panic of the weigher reaches the caller of the insert, and nothing is
    /// inserted.
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> u32 + Send + Sync + 'static) -> Self {
        self.hooks.weigher = Some(Box::new(weigher));
        self
    }

    /// Makes entries expire this long after they were inserted or replaced. Must not be zero.
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = Some(time_to_live);
        self
    }

    /// Makes entries expire this long after they were last inserted, replaced or read. Must not be
    /// zero.
    ///
    /// By the system clock, an idle time of 4.3 s or more may end early by 1/1024 of it, because a
    /// read that would prolong it by less writes nothing. The lag of the clock's coarse form comes
    /// on top of that (see [precision of the clock](crate#precision-of-the-clock)).
    pub fn time_to_idle(mut self, time_to_idle: Duration) -> Self {
        self.time_to_idle = Some(time_to_idle);
        self
    }

    /// Sets the policy that gives each entry its lifetime: one of your own, or a ready-made one
    /// ([`expire`](crate::expire)).
    ///
    /// If there are fixed lifetimes too, the earliest end wins. [`Expiry`] states when the hooks of
    /// a policy run.
    pub fn expire_after(mut self, expiry: impl Expiry<K, V> + 'static) -> Self {
        self.hooks.expiry = Some(Box::new(expiry));
        self
    }

    /// Sets how long after its deadline an entry may stay in memory, and its notification may wait.
    ///
    /// This holds while the cache is in use or has a [`scheduler`](Self::scheduler). Lookups are
    /// exact at every resolution.
    ///
    /// *Units*: the resolution is the tick of the timer wheel, rounded down to a power of two of
    /// nanoseconds. The default is 1.07 s (2^30 ns), which is also the coarsest. The finest is 1
    /// ms.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses a finer one.
    pub fn expiry_resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// Sets the listener, which sees every value that leaves the cache.
    ///
    /// The listener sees each value once, one value at a time, and the values of one key in the
    /// order of their removals. There are four exceptions; each is counted or asked for:
    ///
    /// * Values that are still inside when the last handle is dropped. ([`close`](Cache::close)
    ///   announces them.)
    /// * A value that a loader made and that the cache did not keep
    ///   ([`get_with`](Cache::get_with)). It was never inside.
    /// * Notifications beyond a limit of your choice ([`Overflow::Discard`]).
    /// * Values that the listener puts back into its own closed cache ([`close`](Cache::close)).
    ///
    /// *Callbacks*: the listener runs with no lock held, in one of these places:
    ///
    /// * on the thread of an operation on the cache, after that operation;
    /// * on a worker thread of the process, for a cache with a [`scheduler`](Self::scheduler);
    /// * wherever your [`executor`](Self::executor) runs jobs.
    ///
    /// The listener never runs inside a load, a computation or a callback. It may call anything on
    /// the cache; removals that it causes are announced after it returns. A panic is caught and
    /// counted ([`Stats::listener_panics`](crate::Stats::listener_panics)), and the next removal is
    /// announced.
    ///
    /// *Blocking*: a slow listener holds up the thread that it runs on and further notifications of
    /// this cache. It holds up no other thread and no other cache.
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

    /// Bounds the queue of notifications that wait for the listener.
    ///
    /// By default the queue is unbounded: a listener that is stuck lets it grow, which
    /// [`Stats::pending_notifications`](crate::Stats::pending_notifications) shows.
    ///
    /// * With [`Overflow::Wait`], a writer that finds more than `limit` notifications waiting helps
    ///   to deliver after its operation, or waits for the thread that delivers. It never waits
    ///   inside a callback, a load or a computation. Expiry and eviction are not held back. So the
    ///   queue may exceed the limit by as many notifications as the cache holds entries.
    /// * With [`Overflow::Discard`], further notifications are dropped and counted
    ///   ([`Stats::discarded_notifications`](crate::Stats::discarded_notifications)).
    pub fn notification_limit(mut self, limit: usize, overflow: Overflow) -> Self {
        self.notifications = Notifications(Some((limit, overflow)));
        self
    }

    /// Sets the executor that runs the listener, and the destructors of entries that maintenance
    /// removes, instead of the threads of operations.
    ///
    /// * Each cache has at most one job with the executor at a time.
    /// * [`run_pending_tasks`](Cache::run_pending_tasks) and [`close`](Cache::close) do not rely on
    ///   the executor: they do what they promise themselves.
    /// * An executor that runs jobs at once, on the caller's thread, is allowed.
    /// * The executor is dropped with the cache, on the thread on which the cache ends. That may be
    ///   one of the executor's own threads.
    ///
    /// Without an executor, operations deliver in passing, and the scheduler leaves the delivery to
    /// worker threads of the process. There is one worker thread as long as no listener or
    /// destructor takes longer than 10 ms while others wait. Worker threads end when they are idle.
    pub fn executor(mut self, executor: impl Execute) -> Self {
        self.executor = Some(Executor::Own(Arc::new(executor)));
        self
    }

    /// Sets whether the cache keeps the counters of [`Cache::stats`]. Off by default.
    ///
    /// The counters cost a few nanoseconds per operation.
    pub fn record_stats(mut self, record: bool) -> Self {
        self.record_stats = record;
        self
    }

    /// Sets the clock that the cache reads. The default is the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets whether a background thread maintains the cache, also while no other thread uses it.
    /// Off by default.
    ///
    /// With a scheduler, entries expire and are announced, and memory is released, also in an idle
    /// cache. The key and value of a removed entry are dropped within the
    /// [`expiry_resolution`](Self::expiry_resolution) and a few milliseconds, unless a handle or
    /// guard protects them.
    ///
    /// Without a scheduler, later operations do this work, reads included, if they come 16 ms of
    /// the cache's time apart. One of them has to notice a removed entry, and another one has to
    /// let it go:
    ///
    /// * At most a write buffer's worth of removed entries (256 per hardware thread) waits to be
    ///   noticed. More may wait after a pass was held up because its thread lost its core.
    /// * At most 1/64 of the entries, and at most 255, wait to be let go.
    ///
    /// [`Cache::run_pending_tasks`] releases all of it.
    ///
    /// *Threads*: one thread serves all caches of the process. It sleeps until the earliest
    /// deadline of any of them, and ends when the last of them is gone. It looks at a cache with a
    /// clock of its own once per [`expiry_resolution`](Self::expiry_resolution).
    ///
    /// *Callbacks*: the thread runs no listener and no destructor; worker threads run them (see
    /// [`executor`](Self::executor)). Of the user's code, the thread runs only a clock.
    ///
    /// *Fork*: a forked child has no such thread. Inherited caches work in the child as caches
    /// without a scheduler. When the child builds a cache with a scheduler, the thread starts anew,
    /// for all of them. A fork at the very moment at which the thread holds its lock leaves a child
    /// in which that build hangs, as with any lock.
    pub fn scheduler(mut self, scheduler: bool) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Builds the cache with the default hasher: aHash with random keys, which resists attacks by
    /// colliding keys.
    ///
    /// # Panics
    /// If [`try_build`](Self::try_build) returns an error: a setting makes no sense, or the
    /// scheduler's thread cannot be started. The message names the setting.
    #[must_use]
    pub fn build(self) -> Cache<K, V> {
        self.build_with_hasher(ahash::RandomState::new())
    }

    /// Builds the cache like [`build`](Self::build), but returns an error instead of panicking.
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

    /// Builds the cache like [`build`](Self::build), with a hasher of your own.
    ///
    /// A weak hasher costs speed and, if its results can be foreseen, resistance against attacks.
    /// It never costs correctness.
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

    /// Builds the cache like [`try_build`](Self::try_build), with a hasher of your own.
    ///
    /// # Errors
    /// As [`try_build`](Self::try_build).
    pub fn try_build_with_hasher<S>(self, hasher: S) -> Result<Cache<K, V, S>, BuildError>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        let (config, hooks) = self.into_config()?;
        let engine = Engine::new(config, hooks, hasher)
            .map_err(|error| BuildError::new("scheduler", format!("its thread: {error}")))?;
        Ok(Cache::from_engine(engine))
    }

    fn into_config(self) -> Result<(Config, Hooks<K, V>), BuildError> {
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
            // A model's executions must be repeatable, so the seed is fixed.
            seed: if cfg!(cortado_loom) { 0 } else { ahash::RandomState::new().hash_one("policy") },
            scheduled: self.scheduler,
            has_listener: self.hooks.listener.is_some(),
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
