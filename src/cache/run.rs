//! Maintenance on request, and the end of a cache.

use super::Cache;
use crate::engine::Pending;
use crate::removals::Removals;
use std::hash::{BuildHasher, Hash};

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
