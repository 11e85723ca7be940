//! Writes.

use super::Cache;
use crate::clock::nanos;
use crate::compute::Replacement;
use crate::entry::Entry;
use crate::error::{PredicateError, PredicateId};
use crate::expiration::Lifetime;
use crate::loaded::Loaded;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

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
