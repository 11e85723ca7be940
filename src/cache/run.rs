//! Running the maintenance, and ending it.

use super::Cache;
use crate::engine::Pending;
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Finishes the maintenance: applies recorded reads and writes, removes every entry that is
    /// due, evicts down to the capacity, sweeps after an `invalidate_all`, releases memory that
    /// no thread can be reading, and delivers all notifications.
    ///
    /// No program has to call this: operations do the same piece by piece, and with a
    /// [`scheduler`](crate::Builder::scheduler) so does a background thread. It serves tests, and
    /// programs that want the work done at a time of their choosing.
    ///
    /// *Expiration*: everything whose deadline has come, by a precise reading of the clock after
    /// the call began, is removed and announced, whatever the
    /// [`expiry_resolution`](crate::Builder::expiry_resolution). *Blocking*: waits for a pass
    /// that is running; takes as long as the work does. *Callbacks*: the listener and
    /// destructors may run here. A call from within them does the work but leaves notifications
    /// and destructors to the outer call; one from within a load, a computation or another
    /// callback leaves them to the end of the outermost of these.
    pub fn run_pending_tasks(&self) {
        self.engine().run_pending();
    }

    /// At most `units` units of maintenance (an expiration, an eviction, an entry moved in the
    /// wheel, a notification) and what is left.
    ///
    /// *Expiration*: entries are due when the tick of the timer wheel
    /// ([`expiry_resolution`](crate::Builder::expiry_resolution)) in which their deadline lies is
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
    /// while !cache.run_pending_tasks_within(100).is_done() {
    ///     slices += 1;
    /// }
    /// assert!(slices >= 10);
    /// ```
    pub fn run_pending_tasks_within(&self, units: usize) -> Pending {
        self.engine().run_pending_within(units)
    }

    /// Ends the cache's service: removes all entries, announces each as `Explicit`, and delivers
    /// all notifications. Values inserted from now on are not stored and leave at once, as
    /// `Explicit`. Dropping the last handle without this announces nothing. A value that the
    /// listener itself puts back from now on is dropped without an announcement, which would
    /// have no end, and counted in
    /// [`Stats::refused_after_close`](crate::Stats::refused_after_close).
    ///
    /// *Blocking*: waits for the listener, if another thread is running it, without using the core.
    /// A call from within a listener, a destructor, a load, a computation or another callback
    /// does not, and leaves the rest of the notifications to that thread.
    pub fn close(&self) {
        self.engine().close();
    }
}

#[cfg(any(feature = "internals", cortado_loom))]
impl<K, V, S> Cache<K, V, S> {
    /// Runs all maintenance and recounts every invariant, at quiescence.
    ///
    /// # Panics
    /// If one does not hold.
    #[doc(hidden)]
    pub fn audit(&self) {
        if let Err(why) = self.engine().audit() {
            panic!("audit: {why}");
        }
    }

    /// Whether reads ask the expiry policy.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn asks_after_reads(&self) -> bool {
        self.engine().asks_after_reads()
    }

    /// The memory of its nodes.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn pool(&self) -> &crate::pool::RawPool {
        &self.engine().core.pool
    }

    /// Tables of the index that were outgrown and still have memory.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn outgrown_tables(&self) -> usize {
        self.engine().core.index.outgrown()
    }

    /// Buckets of the index, and how many of them have an overflow, be it empty or not.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn overflows(&self) -> (usize, usize) {
        let (index, guard) = (&self.engine().core.index, crate::epoch::pin());
        (index.buckets(&guard), index.overflows(&guard))
    }
}
