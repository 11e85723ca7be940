//! Lifetimes by key.

use super::Cache;
use crate::clock::{NEVER, nanos};
use crate::expiration::Expiration;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns how long the key's entry has to live, if it has one.
    ///
    /// Leaves no trace, like [`peek`](Self::peek).
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().clock(clock).build();
    /// cache.insert("for ever", 1);
    /// cache.insert_with_ttl("a minute", 2, Duration::from_secs(60));
    /// hand.advance(Duration::from_secs(15));
    /// assert_eq!(cache.expires_in("for ever"), Expiration::Never);
    /// assert_eq!(cache.expires_in("a minute"), Expiration::Due(Duration::from_secs(45)));
    /// assert_eq!(cache.expires_in("unknown"), Expiration::NoEntry);
    /// ```
    pub fn expires_in<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Expiration<Duration> {
        self.inner.expiration(self.inner.hashed(key), |deadline, now| {
            deadline.saturating_since(now).to_duration()
        })
    }

    /// Returns when the key's entry expires; otherwise like [`expires_in`](Self::expires_in).
    ///
    /// ```
    /// use cortado::{Cache, Expiration};
    /// use std::time::{Duration, Instant};
    ///
    /// let cache = Cache::new(100);
    /// let deadline = Instant::now() + Duration::from_secs(60);
    /// cache.insert_until("k", 1, deadline);
    /// assert_eq!(cache.expires_at("k"), Expiration::Due(deadline));
    /// ```
    pub fn expires_at<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Expiration<Instant> {
        let ticker = &self.inner.core.ticker;
        self.inner.expiration(self.inner.hashed(key), |deadline, _| ticker.instant_of(deadline))
    }

    /// Gives the key's living entry this long to live from now on, longer or shorter than before:
    /// Redis' `EXPIRE`.
    ///
    /// Returns false if there is no living entry. Zero ends the entry now, as `Expired`. In a cache
    /// with a `time_to_idle` the idle time still applies, counted from now. An update or a
    /// [reload](crate::Builder::refresh_after_write) settles the lifetime anew.
    ///
    /// *Atomicity*: changes the lifetime of the value that is there, or of an update that overtakes
    /// this call. An entry whose deadline came first stays expired.
    ///
    /// *Blocking* and *Panics*: as for [`insert`](Self::insert). If the key has no entry, the call
    /// waits for no computation, and returns false.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().clock(clock).build();
    /// cache.insert("session", 1);
    /// assert!(cache.set_ttl("session", Duration::from_secs(30)));
    /// hand.advance(Duration::from_secs(30));
    /// assert!(!cache.contains_key("session"));
    /// assert!(!cache.set_ttl("session", Duration::from_secs(30)));
    /// ```
    pub fn set_ttl<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q, ttl: Duration) -> bool {
        let ttl = nanos(ttl);
        self.inner.set_hard_deadline(self.inner.hashed(key), |now| now.saturating_add(ttl))
    }

    /// Sets the instant at which the key's living entry expires; otherwise like
    /// [`set_ttl`](Self::set_ttl).
    ///
    /// ```
    /// use cortado::{Cache, Expiration};
    /// use std::time::{Duration, Instant};
    ///
    /// let cache = Cache::new(100);
    /// cache.insert("k", 1);
    /// let deadline = Instant::now() + Duration::from_secs(60);
    /// assert!(cache.set_expires_at("k", deadline));
    /// assert_eq!(cache.expires_at("k"), Expiration::Due(deadline));
    /// ```
    pub fn set_expires_at<Q>(&self, key: &Q, deadline: Instant) -> bool
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let until = self.inner.core.ticker.time_of(deadline);
        self.inner.set_hard_deadline(self.inner.hashed(key), |_| until)
    }

    /// Lets the key's living entry live forever: Redis' `PERSIST`.
    ///
    /// A `time_to_idle` still applies, and a policy's read hook may change the lifetime at the next
    /// read. (What a hook gives is bounded by a `time_to_live`, counted from the write.) An update
    /// or a reload settles it anew. Returns false if there is no living entry. Otherwise like
    /// [`set_ttl`](Self::set_ttl).
    ///
    /// ```
    /// use cortado::{Cache, Expiration};
    /// use std::time::Duration;
    ///
    /// let cache = Cache::new(100);
    /// cache.insert_with_ttl("k", 1, Duration::from_secs(60));
    /// assert!(cache.persist("k"));
    /// assert_eq!(cache.expires_in("k"), Expiration::Never);
    /// ```
    pub fn persist<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        self.inner.set_hard_deadline(self.inner.hashed(key), |_| NEVER)
    }

    /// Makes the key's living entry stale, so that its next read triggers a reload. Returns whether
    /// there is a living entry.
    ///
    /// It does not count as a read, and starts no reload. It overtakes a load of the key that is
    /// under way: the callers of that load get its value, and the cache does not keep it. It also
    /// overtakes a reload: callers that wait for the reload get the old value. So every value from
    /// before this call is stale or gone after it. The exception is a value that a bulk load brings
    /// for a key that its caller did not ask for. If the last reload failed, the next read does not
    /// wait for the retry delay.
    ///
    /// A cache without a stored loader ([`LoadingCache`](crate::LoadingCache)) has no stale
    /// entries: there it changes nothing.
    ///
    /// *Blocking*: locks one bucket of the index for a few instructions. It waits for no load and
    /// no computation; a value that a computation puts later is not stale.
    ///
    /// ```
    /// use cortado::{Cache, Job, Loaded};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let version = AtomicU32::new(0);
    /// let load = move |_: &str| Ok::<_, ()>(Loaded::new(version.fetch_add(1, Ordering::Relaxed)));
    /// let settings = Cache::builder().executor(|job: Job| job()).build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(0));
    /// assert!(settings.cache().make_stale(&"k"));
    /// assert_eq!(settings.get(&"k"), Ok(1)); // an executor that runs jobs at once has reloaded it
    /// ```
    pub fn make_stale<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        self.inner.make_stale(self.inner.hashed(key))
    }

    /// Makes all entries stale, as [`make_stale`](Self::make_stale) does, and overtakes all loads
    /// and reloads that are under way.
    ///
    /// It goes through the whole cache. Reads trigger the reloads later, no more at once than
    /// [`refresh_limit`](crate::Builder::refresh_limit) allows. Entries that are written meanwhile
    /// may be made stale or not.
    pub fn make_all_stale(&self) {
        self.inner.make_all_stale();
    }

    /// Reads the key without returning its value: Redis' `TOUCH`.
    ///
    /// Counts as a use and as a hit (or a miss), and prolongs the life of the entry where reads do.
    /// Returns false if there is no living entry. Otherwise like [`get`](Self::get).
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_idle(Duration::from_secs(60)).clock(clock).build();
    /// cache.insert("k", 1);
    /// hand.advance(Duration::from_secs(45));
    /// assert!(cache.touch("k"));
    /// assert_eq!(cache.expires_in("k"), Expiration::Due(Duration::from_secs(60)));
    /// ```
    pub fn touch<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        let guard = crate::epoch::pin();
        let lookup = self.inner.read(&guard, self.inner.hashed(key));
        let (is_there, due) = (lookup.node.is_some(), lookup.due);
        drop(guard);
        if due {
            self.inner.after_read();
        }
        is_there
    }
}
