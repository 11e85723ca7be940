//! Reads.

use super::Cache;
use crate::clock::ReadTimes;
use crate::entry::Entry;
use crate::pinned::Pinned;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// What a read has found; and if it has run reloads, what these have made, perhaps of other keys.
type EntryRead<K, V> = (Option<Entry<K, V>>, Option<Vec<Entry<K, V>>>);

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns a clone of the key's value, if the key has a living entry.
    ///
    /// Counts as a read:
    ///
    /// * as a hit or a miss in the statistics,
    /// * as a use for the eviction policy,
    /// * as a new lease of life, if the cache has an idle time or its expiry policy has a read
    ///   hook.
    ///
    /// *Expiration*: an entry is never returned at or after its deadline, by the cache's clock
    /// ([terms](crate#precision-of-the-clock)).
    ///
    /// *Blocking*: takes no lock and waits for no other thread. It may run a bounded piece of
    /// maintenance.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k".to_owned(), 7);
    /// assert_eq!(cache.get("k"), Some(7));
    /// assert_eq!(cache.get("other"), None);
    /// ```
    #[inline]
    pub fn get<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.inner.read_clone(self.inner.hashed(key))
    }

    /// Returns a clone of the key's value, if the key has a living entry for which `accept` returns
    /// true.
    ///
    /// An entry that is refused stays, and is left alone: the read counts as a miss, records no
    /// use, prolongs no life, asks no hook and triggers no reload. Otherwise like
    /// [`get`](Self::get). [`load_if`](Self::load_if) replaces a value that this refuses, and its
    /// condition has the opposite sense; `get` and [`load`](Self::load) go on returning that value.
    ///
    /// With the time of the value's writing, a program can invalidate groups of entries by one
    /// store of [`clock_now`](Self::clock_now): the guide's page on invalidation has a recipe.
    ///
    /// *Callbacks*: `accept` runs on this thread, with no lock held. It runs as under a view
    /// ([`pin`](Self::pin)): until it returns, no cache of the process releases the memory of
    /// removed values. It may use the cache, and may write the key. If the entry changes while the
    /// read prolongs its life, `accept` is called again; after 16 calls the read is a miss.
    ///
    /// # Panics
    /// A panic of `accept` reaches the caller; nothing is counted.
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().clock(clock).build();
    /// cache.insert("k", 7);
    /// assert_eq!(cache.get_if("k", |value, _times| *value < 8), Some(7));
    /// // Whatever was written until now is refused from now on.
    /// let stamp = cache.clock_now();
    /// assert_eq!(cache.get_if("k", |_value, times| times.written > stamp), None);
    /// hand.advance(Duration::from_millis(1));
    /// cache.insert("k", 8);
    /// assert_eq!(cache.get_if("k", |_value, times| times.written > stamp), Some(8));
    /// ```
    #[inline]
    pub fn get_if<Q>(&self, key: &Q, accept: impl FnMut(&V, ReadTimes) -> bool) -> Option<V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
        V: Clone,
    {
        self.inner.read_clone_if(self.inner.hashed(key), accept)
    }

    /// Returns a handle on the key's living entry: key, value, age, remaining life, weight.
    ///
    /// It clones neither key nor value. Otherwise like [`get`](Self::get).
    ///
    /// ```
    /// use cortado::{Cache, Clock};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache: Cache<&str, Vec<u8>> =
    ///     Cache::builder().time_to_live(Duration::from_secs(60)).clock(clock).build();
    /// cache.insert("k", vec![1, 2, 3]);
    /// hand.advance(Duration::from_secs(20));
    /// let entry = cache.get_entry("k").unwrap();
    /// assert_eq!(entry.len(), 3);
    /// assert_eq!(entry.age(), Duration::from_secs(20));
    /// assert_eq!(entry.expires_in(), Some(Duration::from_secs(40)));
    /// ```
    pub fn get_entry<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<Entry<K, V>> {
        let (entry, due) = self.inner.read_entry(self.inner.hashed(key));
        if due {
            self.inner.after_read();
        }
        entry
    }

    /// [`get_entry`](Self::get_entry), and what reloads have made that the read has run.
    pub(crate) fn read_entry<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> EntryRead<K, V> {
        let (entry, due) = self.inner.read_entry(self.inner.hashed(key));
        (entry, if due { self.inner.after_own_read() } else { None })
    }

    /// Returns a handle on the key's living entry, without a trace.
    ///
    /// It changes no statistics, counts no use, prolongs no life and runs no maintenance.
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let cache = Cache::builder().time_to_idle(Duration::from_secs(60)).clock(clock).build();
    /// cache.insert("k", 1);
    /// hand.advance(Duration::from_secs(45));
    /// assert_eq!(*cache.peek("k").unwrap(), 1);
    /// assert_eq!(cache.expires_in("k"), Expiration::Due(Duration::from_secs(15)));
    /// ```
    pub fn peek<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<Entry<K, V>> {
        self.inner.peek_entry(self.inner.hashed(key))
    }

    /// Returns whether the key has a living entry. Like [`peek`](Self::peek), it leaves no trace.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k", 1);
    /// assert!(cache.contains_key("k"));
    /// ```
    pub fn contains_key<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        let guard = crate::epoch::pin();
        self.inner.peek_at(&guard, self.inner.hashed(key)).is_some()
    }

    /// Returns a view whose lookups return references and clone nothing.
    ///
    /// This is the fastest way to read.
    ///
    /// While a view is held, the memory of values that were removed from *any* cache of the process
    /// cannot be released. Hold it for a request, not forever, and not across an `await`.
    ///
    /// *Refresh*: a lookup that finds an entry stale triggers its reload, which the next operation
    /// on the cache hands to the executor, or its scheduler.
    ///
    /// *Expiration*: as for [`get`](Self::get): each lookup reads the clock. A reference that was
    /// returned stays valid after the entry's deadline, for as long as the view.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert(1, "one".to_owned());
    /// let pinned = cache.pin();
    /// let value: Option<&String> = pinned.get(&1);
    /// assert_eq!(value.map(|v| v.len()), Some(3));
    /// ```
    #[must_use]
    pub fn pin(&self) -> Pinned<'_, K, V, S> {
        Pinned::new(&self.inner)
    }
}
