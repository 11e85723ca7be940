//! The settings of a cache: plain values, which the builder collects and checks.

use crate::clock::Clock;
use crate::error::BuildError;
#[cfg(not(cortado_loom))]
use crate::executor::Workers;
use crate::executor::{Execute, Job, Work, spawn};
use crate::primitives::atomic::AtomicUsize;
use crate::wheel::Geometry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The finest tick that [`Builder::expiry_resolution`](crate::Builder::expiry_resolution) accepts.
const FINEST: Duration = Duration::from_millis(1);
/// A cache has room for fewer entries than this.
const MAX_ENTRIES: usize = 1 << 31;

/// All settings of a cache that do not depend on the user's types, as the builder collects them.
/// Compiled once, for all caches of a program.
#[derive(Default)]
pub struct Config {
    pub name: Option<String>,
    pub max_capacity: Option<u64>,
    pub eviction: EvictionPolicy,
    pub initial_capacity: usize,
    /// Whether there is a weigher.
    pub weighs: bool,
    pub time_to_live: Option<Duration>,
    pub time_to_idle: Option<Duration>,
    pub resolution: Option<Duration>,
    pub record_stats: bool,
    pub clock: Clock,
    pub scheduled: bool,
    /// Whether there is a removal listener.
    pub has_listener: bool,
    /// Whether the removals are received, in place of being told to listeners.
    pub receives: bool,
    /// How many notices wait for each listener that awaits.
    pub backlogs: Vec<Arc<AtomicUsize>>,
    /// The limit of waiting notifications.
    pub notifications: Notifications,
    /// The executor of deliveries and reloads, if the builder was given one.
    pub executor: Option<Executor>,
    /// The workers of the process, in a cache that may need them.
    pub workers: Option<HandOver>,
    pub refresh: RefreshSettings,
}

impl Config {
    /// Checks the settings.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub fn check(&self) -> Result<(), BuildError> {
        if let Some(resolution) = self.resolution
            && resolution < FINEST
        {
            let reason = format!("{resolution:?} is finer than the finest, {FINEST:?}");
            return Err(BuildError::new("expiry_resolution", reason));
        }
        if self.initial_capacity >= MAX_ENTRIES {
            let reason = "a cache holds fewer than 2^31 entries";
            return Err(BuildError::new("initial_capacity", reason));
        }
        if self.receives && self.has_listener {
            let reason = "a cache has either a receiver of its removals or listeners";
            return Err(BuildError::new("removals", reason));
        }
        self.refresh.check()
    }

    /// Checks that the executor can poll futures.
    ///
    /// # Errors
    /// If there is none that can.
    pub fn check_polls(&self) -> Result<(), BuildError> {
        let given = self.executor.as_ref().is_some_and(Executor::polls);
        if given || self.default_executor().polls() {
            return Ok(());
        }
        let reason = "a loader that awaits needs a place to run: set `executor`, or `on_tokio` \
                      (feature `tokio`)";
        Err(BuildError::new("executor", reason))
    }

    /// Has the code of the workers in the program. Without a call, nothing else names it.
    pub fn use_workers(&mut self) {
        // A model has no process, and so no workers of one. The work waits for the next caller.
        #[cfg(not(cortado_loom))]
        (self.workers = Some(hand_to_workers));
    }

    /// The executor of a cache that was given none. Where there are no threads, its jobs run at
    /// once.
    pub fn default_executor(&self) -> Executor {
        #[cfg(feature = "tokio")]
        if let Some(time) = self.clock.runtime() {
            return Executor::Runtime(Some(time.runtime().clone()));
        }
        if self.workers.is_some() && !crate::system::HAS_THREADS {
            return Executor::Own(Arc::new(|job: Job| job()));
        }
        self.workers.map_or(Executor::None, Executor::Workers)
    }

    pub fn geometry(&self) -> Arc<Geometry> {
        static DEFAULT: OnceLock<Arc<Geometry>> = OnceLock::new();
        match self.resolution {
            Some(resolution) => Arc::new(Geometry::with_resolution(resolution)),
            None => Arc::clone(DEFAULT.get_or_init(Arc::default)),
        }
    }

    /// How often the scheduler reads a clock that it cannot sleep by.
    pub fn clock_period(&self) -> Duration {
        // A clock that stands still costs no more than this, unless the user asks for it.
        self.resolution.map_or(Duration::from_secs(1), |_| self.geometry().tick())
    }
}

/// The settings of reloads.
#[derive(Clone, Copy, Debug)]
pub struct RefreshSettings {
    /// The time after a write at which an entry is stale; `None` if a policy alone says so.
    pub after_write: Option<Duration>,
    /// Whether there is a policy.
    pub has_policy: bool,
    /// Whether there is a stored loader.
    pub has_loader: bool,
    /// How many reloads may be under way at once.
    pub limit: usize,
    /// The time from a failed reload to the next one.
    pub retry: Duration,
}

impl Default for RefreshSettings {
    fn default() -> Self {
        Self {
            after_write: None,
            has_policy: false,
            has_loader: false,
            // As many as a process has connections to one upstream, as a rule.
            limit: 64,
            retry: Duration::from_secs(1),
        }
    }
}

impl RefreshSettings {
    fn check(&self) -> Result<(), BuildError> {
        if self.limit == 0 {
            return Err(BuildError::new("refresh_limit", "with zero, nothing is ever reloaded"));
        }
        let setting = match (self.after_write, self.has_policy) {
            _ if self.has_loader => return Ok(()),
            (Some(_), _) => "refresh_after_write",
            (None, true) => "refresh_after",
            (None, false) => return Ok(()),
        };
        let reason = "reloads need a stored loader: build the cache by `build_with_loader`";
        Err(BuildError::new(setting, reason))
    }
}

/// How a full cache chooses the entries that leave.
///
/// | policy | hit ratio | a new entry |
/// |---|---|---|
/// | [`tiny_lfu`](Self::tiny_lfu) (default) | the best, for most workloads | may be refused in favour of one that is used more often |
/// | [`segmented_lru`](Self::segmented_lru) | between the others | is never refused; entries that were read go later |
/// | [`lru`](Self::lru) | the lowest, for most workloads | is never refused; the least recently used entry goes |
///
/// A service that must not lose what it has just written (sessions, idempotency keys) takes one of
/// the latter two. All three keep the weight within the capacity, and none evicts an entry of
/// weight 0.
///
/// ```
/// use cortado::{Cache, EvictionPolicy};
///
/// let cache = Cache::builder().max_capacity(3).eviction_policy(EvictionPolicy::lru()).build();
/// cache.insert_many((1..=4).map(|n| (n, ())));
/// cache.run_pending_tasks();
/// assert!(!cache.contains_key(&1)); // the oldest one had to go
/// assert!(cache.contains_key(&4));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionPolicy(pub(crate) Eviction);

/// See [`EvictionPolicy`]. Whether newcomers may be rejected, and where victims come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// Candidates duel, and a node that is heavier than the window's target duels at once.
    #[default]
    TinyLfu,
    /// There are no duels, and a hit in the window counts for as much as one in probation.
    SegmentedLru,
    /// The window is all there is.
    Lru,
}

impl EvictionPolicy {
    /// W-TinyLFU: a full cache admits a new entry if its key was asked for more often, of late,
    /// than the key of the entry that it would displace.
    #[must_use]
    pub fn tiny_lfu() -> Self {
        Self(Eviction::TinyLfu)
    }

    /// Segmented LRU: the least recently used entry goes, and entries that were read or written
    /// again since they were inserted go after those that were not. Such entries may fill four
    /// fifths of the capacity: beyond that, the ones that were used least recently count as never
    /// read. The entry that was written last goes after all others. (If several threads have
    /// written since the last maintenance pass, the pass chooses which write is the last.) A use is
    /// what it is for [`lru`](Self::lru).
    #[must_use]
    pub fn segmented_lru() -> Self {
        Self(Eviction::SegmentedLru)
    }

    /// LRU: the least recently used entry goes. Every write counts as a use. A read does at most
    /// once per *record period*, which is over when a quarter of the content has changed, or
    /// before. So among entries that were read lately, the order is approximate. While an eighth of
    /// the capacity is free, reads do not count.
    #[must_use]
    pub fn lru() -> Self {
        Self(Eviction::Lru)
    }
}

/// The settings of a cache that decide how long entries stay; see
/// [`Cache::policy`](crate::Cache::policy).
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) max_capacity: Option<u64>,
    pub(crate) time_to_live: Option<Duration>,
    pub(crate) time_to_idle: Option<Duration>,
    pub(crate) eviction: EvictionPolicy,
}

impl Policy {
    /// The bound on the cache's size or weight. `None` means unbounded.
    #[must_use]
    pub fn max_capacity(&self) -> Option<u64> {
        self.max_capacity
    }

    /// The fixed lifetime. `None` means that there is none.
    #[must_use]
    pub fn time_to_live(&self) -> Option<Duration> {
        self.time_to_live
    }

    /// The idle time. `None` means that there is none.
    #[must_use]
    pub fn time_to_idle(&self) -> Option<Duration> {
        self.time_to_idle
    }

    /// How the cache chooses the entries that leave when it is full.
    #[must_use]
    pub fn eviction_policy(&self) -> EvictionPolicy {
        self.eviction.clone()
    }

    /// The number of segments, which is always 1: a cache is not split. For programs that ask moka.
    ///
    /// ```
    /// let cache: cortado::Cache<u32, u32> = cortado::Cache::new(100);
    /// assert_eq!(cache.policy().num_segments(), 1);
    /// ```
    #[must_use]
    pub fn num_segments(&self) -> usize {
        1
    }
}

/// The reaction of the cache when the queue of notifications reaches its
/// [limit](crate::Builder::notification_limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// After their operation, writers help to deliver or wait.
    Wait,
    /// Further notifications are discarded and counted.
    Discard,
}

/// The limit of waiting notifications and the reaction to reaching it; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifications(pub Option<(usize, Overflow)>);

impl Notifications {
    /// The limit, if `overflow` is the reaction to reaching it.
    pub fn of(self, overflow: Overflow) -> Option<usize> {
        self.0.filter(|(_, then)| *then == overflow).map(|(limit, _)| limit)
    }
}

/// Hands a job to threads of the process.
pub type HandOver = fn(Job, Queue);

/// Which threads of the process take a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    Deliveries,
    /// No more than [`Workers::RELOADS`] of these run at once, and none takes a thread from the
    /// others.
    Reloads,
}

#[cfg(not(cortado_loom))]
fn hand_to_workers(job: Job, queue: Queue) {
    match queue {
        Queue::Deliveries => Workers::global().execute(job),
        Queue::Reloads => Workers::for_reloads().execute(job),
    }
}

/// The executor of a cache's jobs: the workers of the process, or one of the user's own.
#[derive(Clone)]
pub enum Executor {
    /// The cache has no jobs, unless it is in a model.
    None,
    Workers(HandOver),
    Own(Arc<dyn Execute>),
    /// A tokio runtime: that of the caller, or outside of any, this one.
    #[cfg(feature = "tokio")]
    Runtime(Option<tokio::runtime::Handle>),
}

impl Executor {
    /// Whether it can run futures: the workers are for jobs that block.
    pub fn polls(&self) -> bool {
        !matches!(self, Self::None | Self::Workers(_))
    }

    /// Whether others share the executor, and it never runs a job inside another one: a job ends
    /// after its share then, and another one follows it. (A runtime that shuts down waits for jobs
    /// that run, and drops those that follow.)
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Own(_))
    }

    /// Hands a job over. The caller must hold no lock.
    pub fn execute(&self, job: Job) {
        match self {
            Self::None => drop(job),
            Self::Workers(hand_over) => hand_over(job, Queue::Deliveries),
            Self::Own(executor) => executor.execute(job),
            // A runtime that has shut down drops the job.
            #[cfg(feature = "tokio")]
            Self::Runtime(of_build) => {
                present_runtime(of_build.as_ref()).map(|runtime| runtime.spawn_blocking(job));
            }
        }
    }

    /// Hands a reload over, which blocks.
    pub fn execute_reload(&self, job: Job) {
        match self {
            Self::Workers(hand_over) => hand_over(job, Queue::Reloads),
            _ => self.execute(job),
        }
    }

    /// Runs a future, or drops it, if it cannot.
    pub fn spawn(&self, work: Work) {
        match self {
            Self::None | Self::Workers(_) => drop(work),
            Self::Own(executor) => {
                // Weak, because the executor's queue may hold the task. A task that has begun keeps
                // the cache, and the cache keeps the executor.
                let executor = Arc::downgrade(executor);
                spawn(work, Box::new(move |job| _ = executor.upgrade().map(|it| it.execute(job))));
            }
            #[cfg(feature = "tokio")]
            Self::Runtime(of_build) => {
                present_runtime(of_build.as_ref()).map(|runtime| runtime.spawn(work));
            }
        }
    }

    /// [`execute`](Self::execute) for a thread that runs no code of the user's. A thread of `other`
    /// calls an executor of the user's, which may run the job at once.
    pub fn execute_by(&self, other: &Self, job: Job) {
        match self {
            Self::Own(executor) if cfg!(not(cortado_loom)) => {
                let executor = Arc::clone(executor);
                other.execute(Box::new(move || executor.execute(job)));
            }
            _ => self.execute(job),
        }
    }
}

/// The runtime of the caller, or else that of the builder's.
#[cfg(feature = "tokio")]
fn present_runtime(of_build: Option<&tokio::runtime::Handle>) -> Option<tokio::runtime::Handle> {
    tokio::runtime::Handle::try_current().ok().or_else(|| of_build.cloned())
}
