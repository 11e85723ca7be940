//! Writes.

use super::Cache;
use crate::clock::nanos;
use crate::entry::Entry;
use crate::expiration::Term;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Puts a value into the cache, in the place of the key's old one.
    ///
    /// Its lifetime is what the builder's settings say: `time_to_live`, `time_to_idle` and the
    /// expiry policy, the earliest wins. Over a living entry the policy's update hook is asked,
    /// else (also over an expired one) the create hook. The old value leaves as `Replaced`, or
    /// as `Expired` if its life was over. A value with a lifetime of zero is not stored and
    /// leaves at once as `Expired`, one heavier than the capacity as `Size`; both replace the
    /// old value all the same.
    ///
    /// *Blocking*: locks one bucket of the index for a few instructions; waits while a computation
    /// ([`and_compute_with`](crate::KeyEntry::and_compute_with)) of this key runs; may run a
    /// bounded piece of maintenance, including the listener.
    ///
    /// # Panics
    /// Panics of the weigher, the expiry policy, the clock, `Hash` and `Eq` reach the caller; the
    /// insert has then not happened. Also panics when called for the key of a computation from
    /// within it.
    pub fn insert(&self, key: K, value: V) {
        self.engine().insert(key, value, Term::Policy);
    }

    /// [`insert`](Self::insert) with a lifetime of its own, which takes the place of what
    /// `time_to_live` and the expiry policy would say; a `time_to_idle` still applies. Zero means
    /// not stored; more than 292 years means never.
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
        self.engine().insert(key, value, Term::For(nanos(ttl)));
    }

    /// [`insert_with_ttl`](Self::insert_with_ttl) with the instant at which the entry expires. One
    /// that has passed means not stored.
    pub fn insert_until(&self, key: K, value: V, deadline: Instant) {
        let until = self.engine().core.ticker.time_of(deadline);
        self.engine().insert(key, value, Term::Until(until));
    }

    /// Removes the key's entry and returns a clone of its value. The value leaves as `Explicit`; an
    /// expired one that was still there leaves as `Expired`, and the answer is `None`.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        self.remove_entry(key).map(Entry::into_value)
    }

    /// [`remove`](Self::remove) that returns a handle on what was removed, and clones nothing.
    pub fn remove_entry<Q>(&self, key: &Q) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.engine().hash(key);
        self.engine().remove(hash, key, None)
    }

    /// Removes the key's entry if `condition` holds for it, atomically: what was judged is what is
    /// removed. Returns a clone of the value if so. The condition runs with no lock held. It is
    /// asked once more if the entry changes meanwhile, this time with the key held as by a
    /// computation: conditions that write each other's keys may then wait for each other. It
    /// must not write its own key: that write panics.
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
        let hash = self.engine().hash(key);
        self.engine().remove(hash, key, Some(&mut condition)).map(Entry::into_value)
    }

    /// Removes the key's entry, if there is one, as `Explicit`.
    pub fn invalidate<Q>(&self, key: &Q)
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.engine().hash(key);
        self.engine().remove(hash, key, None);
    }

    /// Removes everything: no later read sees an entry that was inserted before this call. Takes
    /// constant time; the entries leave as `Explicit`, each announced, in the course of the
    /// maintenance, and until then count in [`entry_count`](Self::entry_count).
    pub fn invalidate_all(&self) {
        self.engine().invalidate_all();
    }

    /// Keeps the entries for which `keep` holds and removes the others as `Explicit`. Goes through
    /// the whole cache; entries that come or go meanwhile may be missed. What `keep` judged is what
    /// is removed: an entry that was replaced meanwhile is judged again once, with its key held
    /// as by a computation. `keep` runs with no lock held. It must not write the key that it
    /// judges: that write panics.
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.engine().retain(keep);
    }
}
