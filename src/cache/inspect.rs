//! Questions about a cache as a whole, maintenance on request, and the end of a cache.

use super::Cache;
use crate::clock::{ClockTime, nanos};
use crate::config::Policy;
use crate::engine::Pending;
use crate::primitives::time::{Duration, Instant};
use crate::removals::Removals;
use crate::stats::Stats;
use std::fmt;
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Cache<K, V, S> {
    /// Returns the name that the builder gave the cache.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }

    /// Returns the number of entries as of the last maintenance.
    ///
    /// Writes of the last moment may not be counted yet, and expired entries count until they are
    /// removed. After [`run_pending_tasks`](Self::run_pending_tasks) the number is exact, but for
    /// what its listeners have written and other threads have done meanwhile.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k", 1);
    /// cache.run_pending_tasks();
    /// assert_eq!(cache.entry_count(), 1);
    /// ```
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.inner.core.entries()
    }

    /// Returns the weight of all entries together; otherwise like
    /// [`entry_count`](Self::entry_count).
    ///
    /// Without a weigher it equals the number of entries.
    ///
    /// ```
    /// use cortado::Cache;
    ///
    /// let cache = Cache::builder().max_capacity(1_000).weigher(|_, bytes| *bytes).build();
    /// cache.insert("a", 300);
    /// cache.insert("b", 400);
    /// cache.run_pending_tasks();
    /// assert_eq!((cache.entry_count(), cache.weighted_size()), (2, 700));
    /// ```
    #[must_use]
    pub fn weighted_size(&self) -> u64 {
        self.inner.core.weight()
    }

    /// Returns the present by the cache's clock, precisely, to be compared with what
    /// [`get_if`](Self::get_if) tells its condition.
    ///
    /// No write that has ended before has a later [`written`](crate::ReadTimes::written). A user's
    /// clock is called, with its panics.
    #[must_use]
    pub fn clock_now(&self) -> ClockTime {
        ClockTime::new(self.inner.core.ticker.now())
    }

    /// Returns what an `Instant` is by the cache's clock, as
    /// [`insert_until`](Self::insert_until) takes it; it saturates at both ends.
    ///
    /// It may be up to 4.1 µs before the instant. So an entry that was written in the 4.1 µs before
    /// `Instant::now()` may seem to be written after it; [`clock_now`](Self::clock_now) has no
    /// such error. By a clock other than the system's, an instant stands for a reading of that one,
    /// as [`TimeSource`](crate::TimeSource) says.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let cache: cortado::Cache<&str, u32> = cortado::Cache::new(100);
    /// let soon = Instant::now() + Duration::from_secs(60);
    /// assert!(cache.clock_time(soon) > cache.clock_now());
    /// ```
    #[must_use]
    pub fn clock_time(&self, at: Instant) -> ClockTime {
        ClockTime::new(self.inner.core.ticker.time_of(at))
    }

    /// Changes the bound on the cache's size or weight. Returns false, and does nothing, if the
    /// cache was built without a bound.
    ///
    /// A lower bound evicts, as `Size`, in the course of the maintenance;
    /// [`run_pending_tasks`](Self::run_pending_tasks) does it at once. The slack for writes that
    /// are not yet applied follows the bound. After a bound far beyond the built one, writes
    /// are applied in the small batches of a small cache. So build a cache with the largest
    /// bound that you mean to set.
    ///
    /// *Blocking*: waits for a maintenance pass that is running.
    ///
    /// ```
    /// let cache = cortado::Cache::new(1_000);
    /// cache.insert_many((0..1_000).map(|n| (n, n)));
    /// assert!(cache.set_max_capacity(10));
    /// cache.run_pending_tasks();
    /// assert_eq!(cache.entry_count(), 10);
    /// ```
    pub fn set_max_capacity(&self, max_capacity: u64) -> bool {
        self.inner.core.change_max_capacity(max_capacity)
    }

    /// Changes the [`time_to_live`](crate::Builder::time_to_live) of entries that are written from
    /// now on. `None` means no fixed lifetime. Entries that are there keep their deadlines, until a
    /// policy's read hook gives them another one: the new `time_to_live`, counted from their write,
    /// bounds that.
    ///
    /// ```
    /// use cortado::{Cache, Expiration};
    /// use std::time::Duration;
    ///
    /// let cache = Cache::new(100);
    /// cache.set_time_to_live(Some(Duration::ZERO));
    /// cache.insert("k", 1);
    /// assert_eq!(cache.get("k"), None);
    /// cache.set_time_to_live(None);
    /// cache.insert("k", 1);
    /// assert_eq!(cache.expires_in("k"), Expiration::Never);
    /// ```
    pub fn set_time_to_live(&self, time_to_live: Option<Duration>) {
        self.inner.core.lifetimes.set_live(time_to_live.map(nanos));
    }

    /// Changes the [`time_to_idle`](crate::Builder::time_to_idle). Returns false, and does nothing,
    /// if the cache was built without an idle time.
    ///
    /// Entries that are there keep their deadlines until they are next read or written. A shorter
    /// idle time does not shorten a life by a read.
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::Duration;
    ///
    /// let (clock, _hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_idle(Duration::from_secs(60)).clock(clock).build();
    /// assert!(cache.set_time_to_idle(Duration::from_secs(600)));
    /// cache.insert("k", 1);
    /// assert_eq!(cache.expires_in("k"), Expiration::Due(Duration::from_secs(600)));
    /// assert!(!Cache::<u32, u32>::new(100).set_time_to_idle(Duration::from_secs(600)));
    /// ```
    pub fn set_time_to_idle(&self, time_to_idle: Duration) -> bool {
        self.inner.change_idle_time(nanos(time_to_idle))
    }

    /// Returns the settings that decide how long entries stay.
    ///
    /// ```
    /// use cortado::{Cache, EvictionPolicy};
    /// use std::time::Duration;
    ///
    /// let cache: Cache<u32, u32> = Cache::builder()
    ///     .max_capacity(100)
    ///     .time_to_live(Duration::from_secs(60))
    ///     .build();
    /// let policy = cache.policy();
    /// assert_eq!(policy.max_capacity(), Some(100));
    /// assert_eq!(policy.time_to_live(), Some(Duration::from_secs(60)));
    /// assert_eq!(policy.time_to_idle(), None);
    /// assert_eq!(policy.eviction_policy(), EvictionPolicy::tiny_lfu());
    /// ```
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.inner.policy()
    }

    /// Returns what the cache has done so far, if the builder said `record_stats(true)`. Otherwise
    /// it returns only the size, the counts of reloads and of discarded notifications, and the
    /// numbers of what waits or is under way.
    ///
    /// ```
    /// use cortado::{Cache, RemovalCause};
    ///
    /// let cache = Cache::builder().max_capacity(10).record_stats(true).build();
    /// cache.insert("k", 1);
    /// cache.get("k");
    /// cache.get("other");
    /// cache.remove("k");
    /// let stats = cache.stats();
    /// assert_eq!((stats.hits, stats.misses, stats.insertions), (1, 1, 1));
    /// assert_eq!(stats.removed(RemovalCause::Explicit), 1);
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns the time until the maintenance has an entry to expire, as of the last maintenance.
    ///
    /// `None` means that nothing is to expire. The returned time ends at the latest one tick
    /// ([`expiry_resolution`](crate::Builder::expiry_resolution)) after the earliest deadline. It
    /// may end earlier where deadlines are far off or were extended.
    ///
    /// It serves programs that run [`run_pending_tasks`](Self::run_pending_tasks) on a timer of
    /// their own.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_live(Duration::from_secs(10)).clock(clock).build();
    /// cache.insert("k", 1);
    /// cache.run_pending_tasks();
    /// while let Some(wait) = cache.next_expiration() {
    ///     hand.advance(wait); // an event loop would sleep
    ///     cache.run_pending_tasks();
    /// }
    /// assert_eq!(cache.entry_count(), 0);
    /// ```
    #[must_use]
    pub fn next_expiration(&self) -> Option<Duration> {
        self.inner.core.next_expiration()
    }
}

/// The most entries that `Debug` shows.
const SHOWN: usize = 16;

impl<K, V, S> fmt::Debug for Cache<K, V, S>
where
    K: fmt::Debug + Hash + Eq,
    V: fmt::Debug,
    S: BuildHasher,
{
    /// Shows the name, the size, and up to 16 living entries, as [`entries`](Self::entries)
    /// returns them.
    ///
    /// So a cache in a log line has a bounded length. Values that must not be in a log, such as
    /// tokens, need a `Debug` of their own that hides them.
    ///
    /// ```
    /// let cache = cortado::Cache::builder().name("squares").build();
    /// cache.insert(3, 9);
    /// cache.run_pending_tasks();
    /// assert!(format!("{cache:?}").ends_with("entries: {3: 9} }"));
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("name", &self.name())
            .field("entry_count", &self.entry_count())
            .field("weighted_size", &self.weighted_size())
            .field("entries", &Shown(self))
            .finish()
    }
}

/// Some entries, as a map.
struct Shown<'c, K, V, S>(&'c Cache<K, V, S>);

impl<K, V, S> fmt::Debug for Shown<'_, K, V, S>
where
    K: fmt::Debug + Hash + Eq,
    V: fmt::Debug,
    S: BuildHasher,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        let mut entries = self.0.entries();
        for entry in entries.by_ref().take(SHOWN) {
            map.entry(entry.key(), entry.value());
        }
        if entries.next().is_some() { map.finish_non_exhaustive() } else { map.finish() }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Finishes the maintenance.
    ///
    /// It applies recorded reads and writes, removes every entry that is due, evicts down to the
    /// capacity, sweeps after an `invalidate_all`, releases memory that no thread can be reading,
    /// and delivers the notifications that wait or that this work causes. (In a cache with a
    /// [receiver](crate::Builder::removals), removals stay in the queue until they are received.)
    /// If another thread is delivering, that one delivers the rest, and this call does not wait for
    /// its listener.
    ///
    /// No program has to call this: operations do the same work piece by piece, and so does the
    /// background thread of a [`scheduler`](crate::Builder::scheduler). The call serves tests, and
    /// programs that want the work done at a time of their choosing.
    ///
    /// *Expiration*: removes and announces every entry whose deadline has come, whatever the
    /// [`expiry_resolution`](crate::Builder::expiry_resolution). A precise reading of the clock
    /// after the call began decides.
    ///
    /// *Blocking*: waits for a pass that is running, and takes as long as the work does.
    ///
    /// *Callbacks*: the listener and destructors may run here. What they write, and the removals
    /// that they cause, may be left to the next maintenance. So the call ends also where a listener
    /// puts evicted entries back. A call from within them does the work, but leaves notifications
    /// and destructors to the outer call. A call from within a load, a computation or another
    /// callback leaves them to the end of the outermost of these.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_live(Duration::from_secs(60)).clock(clock).build();
    /// cache.insert("k", 1);
    /// hand.advance(Duration::from_secs(60));
    /// cache.run_pending_tasks();
    /// assert_eq!(cache.entry_count(), 0);
    /// ```
    pub fn run_pending_tasks(&self) {
        self.inner.run_pending();
    }

    /// Does at most `units` units of maintenance and returns what is left.
    ///
    /// *Units*: a unit is an expiration, an eviction, an entry moved in the wheel, or one that
    /// [`invalidate_all`](Self::invalidate_all) has ended. Two things
    /// come on top: at most `units` notifications, and an eviction for each write recorded since
    /// the last maintenance.
    ///
    /// *Expiration*: an entry is due when the tick of the timer wheel
    /// ([`expiry_resolution`](crate::Builder::expiry_resolution)) that contains its deadline is
    /// over.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_live(Duration::from_secs(1)).clock(clock).build();
    /// (0..1000).for_each(|n| cache.insert(n, n));
    /// hand.advance(Duration::from_secs(5));
    /// let mut slices = 1;
    /// while !cache.run_pending_tasks_up_to(100).is_done() {
    ///     slices += 1;
    /// }
    /// assert!(slices >= 10);
    /// ```
    pub fn run_pending_tasks_up_to(&self, units: usize) -> Pending {
        self.inner.run_pending_within(units)
    }

    /// Returns the receiver of the cache's removals, if the builder was told so
    /// ([`Builder::removals`](crate::Builder::removals)); `None` otherwise, and as long as there is
    /// another receiver.
    ///
    /// ```
    /// let cache: cortado::Cache<u32, u32> = cortado::Cache::builder().removals(true).build();
    /// let removals = cache.removals().unwrap();
    /// assert!(cache.removals().is_none());
    /// drop(removals);
    /// assert!(cache.removals().is_some());
    /// ```
    pub fn removals(&self) -> Option<Removals<K, V>> {
        Removals::take_from(&self.inner)
    }

    /// Ends the cache's service: removes all entries, announces each as `Explicit`, and delivers
    /// all notifications.
    ///
    /// Values that are inserted from now on are not stored and leave at once, as `Explicit`. A
    /// value that the listener itself puts back from now on is dropped without an announcement,
    /// since announcing it would have no end. In a cache with a receiver, so is every value that is
    /// inserted after the call.
    /// [`Stats::refused_after_close`](crate::Stats::refused_after_close) counts these values.
    ///
    /// Loads and reloads that are under way go on, and their callers get the values. A
    /// [`LoadingCache`](crate::LoadingCache) asks its loader at each `get` from now on.
    ///
    /// Dropping the last handle without this call announces nothing.
    ///
    /// *Blocking*: does all the maintenance, however much there is. If another thread is running
    /// the listener, the call waits for it without using the core. A call from within a listener, a
    /// destructor, a load, a computation or another callback does not wait: it leaves the rest of
    /// the notifications to that thread.
    ///
    /// ```
    /// use cortado::{Cache, RemovalCause};
    /// use std::sync::mpsc::channel;
    ///
    /// let (told, removals) = channel();
    /// let cache = Cache::builder()
    ///     .removal_listener(move |removed| told.send((*removed.key(), removed.cause())).unwrap())
    ///     .build();
    /// cache.insert("k", 1);
    /// cache.close();
    /// assert_eq!(removals.try_recv(), Ok(("k", RemovalCause::Explicit)));
    /// cache.insert("k", 2);
    /// assert_eq!(cache.get("k"), None);
    /// ```
    pub fn close(&self) {
        self.inner.close();
    }
}
