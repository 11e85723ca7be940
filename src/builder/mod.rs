//! The builder, which collects and checks the settings of a cache.

mod build;
mod lifetimes;
mod listeners;

pub use build::BuildTarget;
pub(crate) use build::sealed;

use crate::cache::Cache;
use crate::clock::Clock;
use crate::config::{Config, EvictionPolicy};
#[cfg(not(cortado_loom))]
use crate::engine::schedule;
use crate::engine::{Asking, Hooks};
use crate::macros::debug_fields;
use std::marker::PhantomData;

/// Configures a [`Cache`]. [`Cache::builder`] makes one.
///
/// `C` is the type of cache that `build` returns. `M` tells the two `CacheBuilder`s apart, and is
/// inferred.
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
pub struct Builder<K, V, C = Cache<K, V>, M = Blocking> {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks<K, V>,
    target: PhantomData<fn() -> (C, M)>,
}

impl<K, V, C, M> Builder<K, V, C, M> {
    pub(crate) fn unset() -> Self {
        Self {
            config: Config::default(),
            hooks: Hooks {
                expiry: None,
                weigher: None,
                listeners: Vec::new(),
                async_listeners: Vec::new(),
                refresh: None,
                reloads: None,
                listen: None,
                asking: None,
                renew: None,
                schedule: None,
            },
            target: PhantomData,
        }
    }

    /// The same settings for a cache of another type.
    pub(crate) fn retarget<D>(self) -> Builder<K, V, D, M> {
        let Self { config, hooks, target: _ } = self;
        Builder { config, hooks, target: PhantomData }
    }

    /// Does nothing: [`invalidate_entries_if`](Cache::invalidate_entries_if) needs no setting. For
    /// programs that come from moka.
    ///
    /// ```
    /// use cortado::sync::CacheBuilder;
    ///
    /// let cache = CacheBuilder::new(100).support_invalidation_closures().build();
    /// cache.insert("k", 1);
    /// assert!(cache.invalidate_entries_if(|_, _| true).is_ok());
    /// ```
    pub fn support_invalidation_closures(self) -> Self {
        self
    }

    /// Names the cache, for `Debug` and for telling caches apart in your metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = Some(name.into());
        self
    }

    /// Bounds the cache: by its number of entries, or by their weight if there is a
    /// [`weigher`](Self::weigher).
    ///
    /// Without this setting the cache is unbounded. Zero turns caching off: every value leaves at
    /// once, as [`Size`](crate::RemovalCause::Size).
    ///
    /// The bound holds after each maintenance pass. Making room for an entry that is heavier than
    /// many others together takes several passes. The insert of such an entry runs them itself, as
    /// far as the next paragraph asks for it: some 10 ms for the room of 50,000 entries.
    /// ([`set_max_capacity`](Cache::set_max_capacity) makes no insert wait.)
    ///
    /// Between passes, writes that are not yet applied may exceed the bound by at most 1/16 of it
    /// or, if that is more, by one entry for each hardware thread (rounded up to a power of two,
    /// sixteen at most); and by one entry for each thread that is writing at that moment.
    pub fn max_capacity(mut self, max_capacity: u64) -> Self {
        self.config.max_capacity = Some(max_capacity);
        self
    }

    /// Makes room for this many entries beforehand, which spares the index its growth.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses 2^31 entries or more.
    ///
    /// ```
    /// // A million entries are to come at once.
    /// let cache = cortado::Cache::<u64, u64>::builder().initial_capacity(1_000_000).build();
    /// assert_eq!(cache.entry_count(), 0);
    /// ```
    pub fn initial_capacity(mut self, entries: usize) -> Self {
        self.config.initial_capacity = entries;
        self
    }

    /// Sets the weigher, which tells how much an entry counts against
    /// [`max_capacity`](Self::max_capacity).
    ///
    /// *Units*: weights have the unit of `max_capacity`. Weight 0 is allowed: such an entry is
    /// never evicted for want of room. (A capacity of zero refuses it, but does not evict one that
    /// is there.)
    ///
    /// *Callbacks*: the weigher is asked once per value, when the value is inserted, on the
    /// inserting thread, with no lock held. It must not write the key that it is asked about: that
    /// write panics. A panic of the weigher reaches the caller of the insert, and nothing is
    /// inserted.
    ///
    /// ```
    /// use cortado::Cache;
    ///
    /// let cache: Cache<&str, String> =
    ///     Cache::builder().max_capacity(1_000).weigher(|_, text: &String| text.len() as u32).build();
    /// cache.insert("k", "some text".to_owned());
    /// assert_eq!(cache.get_entry("k").unwrap().weight(), 9);
    /// ```
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> u32 + Send + Sync + 'static) -> Self
    where
        K: Eq,
    {
        self.hooks.asking = Some(Asking::OF_INSERTS);
        self.hooks.weigher = Some(Box::new(weigher));
        self
    }

    /// Sets how the cache chooses the entries that leave when it is full. By default
    /// [`EvictionPolicy::tiny_lfu`].
    ///
    /// ```
    /// use cortado::{Cache, EvictionPolicy};
    ///
    /// // Whatever has just been inserted stays.
    /// let cache = Cache::builder()
    ///     .max_capacity(10)
    ///     .eviction_policy(EvictionPolicy::segmented_lru())
    ///     .build();
    /// for n in 0..100 {
    ///     cache.insert(n, ());
    ///     assert!(cache.contains_key(&n));
    /// }
    /// ```
    pub fn eviction_policy(mut self, policy: EvictionPolicy) -> Self {
        self.config.eviction = policy;
        self
    }

    /// Sets whether the cache keeps the counters of [`Cache::stats`]. Off by default.
    ///
    /// The counters cost a few nanoseconds per operation.
    pub fn record_stats(mut self, record: bool) -> Self {
        self.config.record_stats = record;
        self
    }

    /// Sets the clock that the cache reads. The default is the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.config.clock = clock;
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
    /// Without a scheduler, later operations do this work, reads included. Two of them, at least
    /// 16 ms apart by the cache's clock, release a removed entry: the first one unlinks it, the
    /// second one frees it.
    ///
    /// * At most a write buffer's worth of removed entries (256 per hardware thread) waits to be
    ///   unlinked. More may wait after a pass was held up because its thread was preempted.
    /// * Of those that are unlinked, operations free 64 or more, or more than an eighth of what the
    ///   entries weigh, as soon as no guard is held any more that is older. Fewer wait for the 16
    ///   ms.
    ///
    /// [`Cache::run_pending_tasks`] releases all of it.
    ///
    /// *Threads*: one thread serves all caches of the process. It sleeps until the earliest
    /// deadline of any of them, and ends when the last of them is gone. It cannot sleep by
    /// [`Clock::custom`] and [`Clock::manual`], so it reads such a clock once a second, or once per
    /// [`expiry_resolution`](Self::expiry_resolution) where that is set.
    ///
    /// With `Clock::tokio` (feature `tokio`), a task on that runtime takes the thread's place. The
    /// thread wakes that task where it waits for other threads.
    ///
    /// Each cache whose listener is stuck keeps a worker thread of its own, so that it holds up no
    /// other cache. (Where the system gives no more threads, caches wait for each other.) Caches
    /// that share what may get stuck, as a log, are better off with a channel to it.
    ///
    /// *Callbacks*: the thread runs no listener, no destructor and no
    /// [`executor`](Self::executor); worker threads do. Of the user's code, the thread runs only a
    /// clock. (If a cache ends while the thread looks after it, its clock and its executor may be
    /// dropped there.)
    ///
    /// *Fork*: a forked child has no such thread. Inherited caches work in the child as caches
    /// without a scheduler. When the child builds a cache with a scheduler, the thread starts anew,
    /// for all of them. A fork at the very moment at which the thread holds its lock leaves a child
    /// in which that build hangs, as with any lock. If another thread is inside any cache at the
    /// fork, in a read or with a [`pin`](crate::Cache::pin), the child has the guard, but not the
    /// thread that would give it up: no cache of the child releases the memory of what leaves it,
    /// ever. So fork before other threads use caches, or in order to `exec`.
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    ///
    /// let (told, time_outs) = channel();
    /// let cache: Cache<&str, u32> = Cache::builder()
    ///     .time_to_live(Duration::from_millis(5))
    ///     .expiry_resolution(Duration::from_millis(1))
    ///     .removal_listener(move |removed| told.send(*removed.key()).unwrap())
    ///     .scheduler(true)
    ///     .build();
    /// cache.insert("k", 1);
    /// // No operation comes, and the listener hears of the time-out all the same.
    /// assert_eq!(time_outs.recv(), Ok("k"));
    /// ```
    pub fn scheduler(mut self, scheduler: bool) -> Self {
        self.config.use_workers();
        self.config.scheduled = scheduler;
        // A model has no process, and so no scheduler of one.
        #[cfg(not(cortado_loom))]
        (self.hooks.schedule = Some(schedule));
        self
    }
}

/// Marks the builders of caches for threads.
pub struct Blocking;

/// Marks the builders of caches for tasks.
pub struct Async;

impl<K, V> Builder<K, V> {
    /// Makes a builder of a cache with this bound; see [`max_capacity`](Self::max_capacity).
    ///
    /// ```
    /// use cortado::sync::CacheBuilder;
    ///
    /// let cache = CacheBuilder::new(100).name("small").build();
    /// cache.insert("k", 1);
    /// assert_eq!((cache.policy().max_capacity(), cache.name()), (Some(100), Some("small")));
    /// ```
    pub fn new(max_capacity: u64) -> Self {
        Self::unset().max_capacity(max_capacity)
    }
}

impl<K, V> Default for Builder<K, V> {
    /// Makes a builder with the default settings, without a bound.
    fn default() -> Self {
        Self::unset()
    }
}

debug_fields!(
    impl[K, V, C, M] Builder<K, V, C, M>, |it|
    name: it.config.name,
    max_capacity: it.config.max_capacity,
    eviction_policy: it.config.eviction,
    weigher: it.hooks.weigher.is_some(),
    time_to_live: it.config.time_to_live,
    time_to_idle: it.config.time_to_idle,
    expire_after: it.hooks.expiry.is_some(),
    expiry_resolution: it.config.resolution,
    refresh: it.config.refresh,
    refresh_after: it.hooks.refresh.is_some(),
    removal_listener: !it.hooks.listeners.is_empty(),
    scheduler: it.config.scheduled,
    clock: it.config.clock,
);
