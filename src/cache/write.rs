//! Writes, and lifetimes by key.

use super::Cache;
use crate::clock::{NEVER, Timestamp, nanos};
use crate::compute::Replacement;
use crate::entry::Entry;
use crate::error::{PredicateError, PredicateId};
use crate::expiration::{Expiration, Lifetime};
use crate::loaded::Loaded;
use crate::primitives::time::{Duration, Instant};
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Inserts a value, in the place of the key's old value.
    ///
    /// *Lifetime*: the builder's settings determine it: of `time_to_live`, `time_to_idle` and the
    /// expiry policy, the earliest end wins. Over a living entry, the policy's update hook is
    /// asked. Otherwise, also over an expired entry, the create hook is asked.
    ///
    /// *Removals*: the old value leaves as `Replaced`, or as `Expired` if its life was over. Two
    /// kinds of new values are not stored and leave at once. Both replace the old value all the
    /// same:
    ///
    /// * a value with a lifetime of zero leaves as `Expired`;
    /// * a value that is heavier than the capacity leaves as `Size`.
    ///
    /// *Blocking*: locks one bucket of the index for a few instructions. It waits while a
    /// computation ([`and_compute_with`](crate::KeyEntry::and_compute_with)) of this key runs. It
    /// may run a bounded piece of maintenance, including the listener. If the write buffer is full,
    /// it waits for the thread that runs the maintenance. After maintenance it may yield its core
    /// to threads that have lost theirs in the middle of an operation.
    ///
    /// # Panics
    /// Panics of the weigher, the expiry policy, the clock, `Hash` and `Eq` reach the caller; the
    /// insert has then not happened. (If the clock panics in the maintenance that follows, the
    /// insert has happened.)
    ///
    /// It also panics when it is called for the key of a computation from within that computation,
    /// or for the key of a callback (hook, weigher, condition of a load or removal) from within
    /// that callback.
    ///
    /// ```
    /// use cortado::Cache;
    ///
    /// let cache: Cache<String, u32> = Cache::new(100);
    /// cache.insert("k".to_owned(), 1);
    /// cache.insert("k".to_owned(), 2);
    /// assert_eq!(cache.get("k"), Some(2));
    /// ```
    pub fn insert(&self, key: K, value: V) {
        self.inner.insert(self.inner.owned(key), value, Lifetime::Policy);
    }

    /// Inserts a value with a lifetime of its own; otherwise like [`insert`](Self::insert).
    ///
    /// The lifetime takes the place of `time_to_live` and of the expiry policy's answer for a
    /// write. A `time_to_idle` still applies, and a policy's read hook may change the lifetime at
    /// the next read. (What a hook gives is bounded by `time_to_live` again, counted from the
    /// write.) Zero means not stored; more than some 250 years means never.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().clock(clock).build();
    /// cache.insert_with_ttl("short", 1, Duration::from_secs(1));
    /// cache.insert_with_ttl("long", 2, Duration::from_secs(3600));
    /// hand.advance(Duration::from_secs(1));
    /// assert_eq!((cache.get("short"), cache.get("long")), (None, Some(2)));
    /// ```
    pub fn insert_with_ttl(&self, key: K, value: V, ttl: Duration) {
        self.inner.insert(self.inner.owned(key), value, Lifetime::For(nanos(ttl)));
    }

    /// Inserts a value with the instant at which the entry expires; otherwise like
    /// [`insert_with_ttl`](Self::insert_with_ttl).
    ///
    /// An instant that has passed means not stored. With a clock other than the system's the
    /// instant stands for a reading of that one, as [`TimeSource`](crate::TimeSource) says.
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::{Duration, Instant};
    ///
    /// let cache = Cache::new(100);
    /// cache.insert_until("k", 1, Instant::now() + Duration::from_secs(60));
    /// assert_eq!(cache.get("k"), Some(1));
    /// cache.insert_until("k", 2, Instant::now());
    /// assert_eq!(cache.get("k"), None);
    /// ```
    pub fn insert_until(&self, key: K, value: V, deadline: Instant) {
        self.inner.insert(self.inner.owned(key), value, Lifetime::Until(deadline));
    }

    /// Replaces the key's value, if the key has a living entry. Returns a handle on the old entry.
    ///
    /// *Atomicity*: as a computation. Otherwise like [`insert`](Self::insert).
    ///
    /// *Blocking*: waits for a load or computation of the key that is under way.
    ///
    /// # Errors
    /// Returns the value if there is no living entry.
    ///
    /// # Panics
    /// Inside a load or a computation of its own key.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// assert_eq!(cache.replace("k", 1).unwrap_err(), 1);
    /// cache.insert("k", 2);
    /// assert_eq!(*cache.replace("k", 3).unwrap(), 2);
    /// assert_eq!(cache.get("k"), Some(3));
    /// ```
    pub fn replace(&self, key: K, value: V) -> Result<Entry<K, V>, V> {
        self.replace_loaded(key, Loaded::new(value))
    }

    /// Like [`replace`](Self::replace), with a lifetime of the value's own, as
    /// [`insert_with_ttl`](Self::insert_with_ttl) gives it.
    ///
    /// A `ttl` of zero removes the old entry, and does not store the value.
    ///
    /// # Errors
    /// Returns the value if there is no living entry.
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::Duration;
    ///
    /// let leases = Cache::new(100);
    /// leases.insert("printer", 1);
    /// assert_eq!(*leases.replace_with_ttl("printer", 2, Duration::from_secs(30)).unwrap(), 1);
    /// assert!(leases.expires_in("printer").due() <= Some(Duration::from_secs(30)));
    /// ```
    pub fn replace_with_ttl(&self, key: K, value: V, ttl: Duration) -> Result<Entry<K, V>, V> {
        self.replace_loaded(key, Loaded::with_ttl(value, ttl))
    }

    fn replace_loaded(&self, key: K, loaded: Loaded<V>) -> Result<Entry<K, V>, V> {
        let mut replacement = Replacement::new(loaded);
        self.entry(key).and_compute_with(|old| replacement.decide(old));
        replacement.outcome()
    }

    /// Removes the key's entry and returns a clone of its value.
    ///
    /// The value leaves as `Explicit`. An expired value that was still there leaves as `Expired`,
    /// and the call returns `None`.
    ///
    /// *Blocking* and *Panics*: as for [`insert`](Self::insert). A panic of `Clone` reaches the
    /// caller after the removal.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k", 1);
    /// assert_eq!(cache.remove("k"), Some(1));
    /// assert_eq!(cache.remove("k"), None);
    /// ```
    pub fn remove<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.remove_entry(key).map(Entry::into_value)
    }

    /// Removes the key's entry and returns a handle on it. It clones nothing; otherwise like
    /// [`remove`](Self::remove).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k", vec![1, 2, 3]);
    /// let entry = cache.remove_entry("k").unwrap();
    /// assert_eq!((*entry.key(), entry.len()), ("k", 3));
    ///
    /// // Takes all entries out, one by one.
    /// cache.insert_many([("a", vec![1]), ("b", vec![2])]);
    /// let taken = cache.keys().filter_map(|key| cache.remove_entry(&key));
    /// assert_eq!(taken.map(|entry| entry.len()).sum::<usize>(), 2);
    /// ```
    pub fn remove_entry<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<Entry<K, V>> {
        self.inner.remove(self.inner.hashed(key))
    }

    /// Removes the key's entry if `condition` holds for it, and returns a clone of the value if so.
    ///
    /// Otherwise like [`remove`](Self::remove). If the key has no living entry, a load of it that
    /// is under way is overtaken all the same: its callers get the value, and the cache does not
    /// keep it.
    ///
    /// *Atomicity*: the entry that was judged is the entry that is removed. If the entry changes
    /// meanwhile, the condition is asked once more, with the key held as by a computation.
    ///
    /// *Callbacks*: the condition runs on this thread, with no lock held. It must not write its own
    /// key: that write panics. When conditions are asked once more, those that write each other's
    /// keys may wait for each other.
    ///
    /// # Panics
    /// A panic of the condition reaches the caller; the entry is as before.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("lease", 41);
    /// assert_eq!(cache.remove_if("lease", |_, &holder| holder == 7), None);
    /// assert_eq!(cache.remove_if("lease", |_, &holder| holder == 41), Some(41));
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, mut condition: impl FnMut(&K, &V) -> bool) -> Option<V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        self.inner.remove_if(self.inner.hashed(key), &mut condition).map(Entry::into_value)
    }

    /// Removes the key's entry, if there is one, as `Explicit`. It returns nothing; otherwise like
    /// [`remove`](Self::remove).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k", 1);
    /// cache.invalidate("k");
    /// assert_eq!(cache.get("k"), None);
    /// ```
    pub fn invalidate<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) {
        self.inner.remove(self.inner.hashed(key));
    }

    /// Removes all entries: no later read sees an entry that was inserted before this call.
    ///
    /// The entries leave as `Explicit`, each announced, in the course of the maintenance. Until
    /// then they count in [`entry_count`](Self::entry_count).
    ///
    /// *Blocking*: takes constant time, with one exception. If more than 4,080 clearings, with
    /// inserts between them, come faster than passes sweep, each further one sweeps 1/4,080 of the
    /// cache.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2)]);
    /// cache.invalidate_all();
    /// assert_eq!(cache.get("a"), None);
    /// ```
    pub fn invalidate_all(&self) {
        self.inner.invalidate_all();
    }

    /// Keeps the entries for which `keep` holds, and removes the others as `Explicit`.
    ///
    /// It goes through the whole cache. Entries that come or go meanwhile may be missed.
    ///
    /// *Atomicity*: the entry that `keep` judged is the entry that is removed. An entry that was
    /// replaced meanwhile is judged once again, with its key held as by a computation.
    ///
    /// *Callbacks*: `keep` runs on this thread, with no lock held. It must not write the key that
    /// it judges: that write panics.
    ///
    /// # Panics
    /// A panic of `keep` reaches the caller; earlier removals stand.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many((0..10).map(|n| (n, n * n)));
    /// cache.retain(|_, square| square % 2 == 0);
    /// assert_eq!(cache.iter().count(), 5);
    /// ```
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.inner.retain(keep);
    }

    /// Removes the entries for which `predicate` holds, as `Explicit`, at once.
    ///
    /// It is [`retain`](Self::retain) with the opposite condition, for programs that come from
    /// moka. It never fails, and its result carries nothing.
    ///
    /// # Errors
    /// None.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2)]);
    /// cache.invalidate_entries_if(|_, value| *value == 1).unwrap();
    /// assert_eq!(cache.iter().count(), 1);
    /// ```
    pub fn invalidate_entries_if(
        &self,
        mut predicate: impl FnMut(&K, &V) -> bool,
    ) -> Result<PredicateId, PredicateError> {
        self.retain(|key, value| !predicate(key, value));
        Ok(PredicateId::default())
    }
}

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
        let left = |deadline: Timestamp, now| deadline.saturating_since(now).to_duration();
        self.inner.expiration(self.inner.hashed(key), left)
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
