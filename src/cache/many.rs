//! Operations on several keys, and iteration.

use super::Cache;
use crate::entry::{Entry, Key};
use crate::iter::{Entries, Iter};
use crate::key_source::OwnedKey;
use crate::list::End;
use crate::loaded::{Loaded, LoadedMany, NoValue};
use equivalent::Equivalent;
use std::cmp::Reverse;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::iter::{FusedIterator, from_fn};
use std::sync::Arc;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns clones of the keys' values, in the order of the keys. Each lookup is like
    /// [`get`](Self::get).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2)]);
    /// assert_eq!(cache.get_many(["b", "c", "a"]), [Some(2), None, Some(1)]);
    /// ```
    pub fn get_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>) -> Vec<Option<V>>
    where
        Q: Equivalent<K> + Hash + ?Sized + 'q,
        V: Clone,
    {
        keys.into_iter().map(|key| self.get(key)).collect()
    }

    /// Returns clones of the keys' values, in the order of the keys; the values that are missing
    /// are loaded together.
    ///
    /// `loader` gets all keys that have no value and that no other call is loading. It returns
    /// pairs of keys and values, in any order; a value may be a [`Loaded`], with its lifetime. A
    /// key for which it returns nothing has no value. For callers that waited for it, this is a
    /// load that made no value, as in [`optionally_get_with`](Self::optionally_get_with). A
    /// pair whose key was not asked for is inserted too, when the loads of this call have
    /// ended; like any insert it waits for a computation of its key. Of several pairs with one
    /// key the last one counts, and nobody hears of the others.
    ///
    /// For a key that another call is loading, this call shares that call's outcome. `loader` runs
    /// once more only if such a load came to nothing. Calls whose keys cross do not wait for each
    /// other: each call ends its own loads before it waits. Each load is like one of
    /// [`get_with`](Self::get_with). A value that is there is read before `loader` runs, and
    /// returned even if it ends or is removed while `loader` works.
    ///
    /// # Panics
    /// A panic of `loader` reaches the caller, and all keys are as before.
    ///
    /// ```
    /// let squares = cortado::Cache::new(100);
    /// squares.insert(2, 4);
    /// let load = |keys: &[&u32]| keys.iter().map(|&&n| (n, n * n)).collect::<Vec<_>>();
    /// assert_eq!(squares.get_many_with([1, 2, 3], load), [Some(1), Some(4), Some(9)]);
    /// ```
    pub fn get_many_with<I, L>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut loader: impl FnMut(&[&K]) -> I,
    ) -> Vec<Option<V>>
    where
        I: IntoIterator<Item = (K, L)>,
        L: Into<Loaded<V>>,
        V: Clone,
    {
        self.try_get_many_with(keys, |keys| Ok::<_, Infallible>(loader(keys)))
            .unwrap_or_else(|never| match *never {})
    }

    /// Like [`get_many_with`](Self::get_many_with), with a loader that may fail.
    ///
    /// # Errors
    /// The error that `loader` returned. Nothing of that call of it is kept. Those who wait for one
    /// of the keys load it themselves. An error of another call's load makes this call load the key
    /// itself. (A loader that is stored, and so can name the keys that fail, is a [`Loader`].)
    ///
    /// [`Loader`]: crate::Loader::load_many
    ///
    /// ```
    /// let ports = cortado::Cache::new(100);
    /// let load = |names: &[&&str]| {
    ///     if *names == [&"http"] { Ok([("http", 80)]) } else { Err("no such service") }
    /// };
    /// assert_eq!(ports.try_get_many_with(["http"], load), Ok(vec![Some(80)]));
    /// assert_eq!(*ports.try_get_many_with(["http", "gopher"], load).unwrap_err(), "no such service");
    /// ```
    pub fn try_get_many_with<I, L, E>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut loader: impl FnMut(&[&K]) -> Result<I, E>,
    ) -> Result<Vec<Option<V>>, Arc<E>>
    where
        I: IntoIterator<Item = (K, L)>,
        L: Into<Loaded<V>>,
        E: Send + Sync + 'static,
        V: Clone,
    {
        let loader = |keys: &[&K]| loader(keys).map(loaded);
        self.inner.load_many(keys.into_iter().map(OwnedKey), loader)
    }

    /// Inserts all pairs, one after the other, as [`insert`](Self::insert) does. A value may be a
    /// [`Loaded`], with its lifetime.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::time::Duration;
    ///
    /// let cache = Cache::new(100);
    /// cache.insert_many((1..=3).map(|n| (n, n * n)));
    /// assert_eq!(cache.get(&3), Some(9));
    /// cache.insert_many([(4, Loaded::with_ttl(16, Duration::from_secs(60)))]);
    /// assert!(cache.expires_in(&4).due() <= Some(Duration::from_secs(60)));
    /// ```
    pub fn insert_many<L: Into<Loaded<V>>>(&self, pairs: impl IntoIterator<Item = (K, L)>) {
        for (key, value) in pairs {
            self.inner.insert_loaded(self.inner.owned(key), value.into());
        }
    }

    /// Removes the entries of all these keys, one after the other, as
    /// [`invalidate`](Self::invalidate) does.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2), ("c", 3)]);
    /// cache.invalidate_many(["a", "b"]);
    /// assert_eq!(cache.keys().collect::<Vec<_>>(), ["c"]);
    /// ```
    pub fn invalidate_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>)
    where
        Q: Equivalent<K> + Hash + ?Sized + 'q,
    {
        for key in keys {
            self.invalidate(key);
        }
    }
}

/// The values of a loader that a call brings.
pub(crate) fn loaded<K, V, E>(
    pairs: impl IntoIterator<Item = (K, impl Into<Loaded<V>>)>,
) -> LoadedMany<impl Iterator<Item = (K, Result<Loaded<V>, E>)>> {
    let pairs = pairs.into_iter().map(|(key, value)| (key, Ok(value.into())));
    LoadedMany { pairs, absent: Some(NoValue::Absent) }
}

impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for Cache<K, V, S> {
    /// Inserts all pairs; see [`Cache::insert_many`].
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        self.insert_many(pairs);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for &Cache<K, V, S> {
    /// Inserts all pairs; see [`Cache::insert_many`].
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        self.insert_many(pairs);
    }
}

impl<K, V> FromIterator<(K, V)> for Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Makes a cache without a bound that holds all pairs.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let cache = Self::builder().build();
        cache.insert_many(pairs);
        cache
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Iterates over the living entries, in no particular order: handles on their keys and clones
    /// of their values. [`entries`](Self::entries) clones nothing.
    ///
    /// *Consistency*: weak.
    ///
    /// * A key that is there from beginning to end is returned exactly once, however often it is
    ///   updated. Its value is one that it had meanwhile.
    /// * A key that comes or goes meanwhile may or may not be returned.
    /// * Expired entries are never returned.
    ///
    /// Iteration counts as no read.
    ///
    /// *Blocking*: none. An iterator may be kept as long as you like.
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many((0..10).map(|n| (n, n * n)));
    /// let mut sum = 0;
    /// for (n, square) in &cache {
    ///     assert_eq!(*n * *n, square);
    ///     sum += square;
    /// }
    /// assert_eq!(sum, 285);
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V>
    where
        V: Clone,
    {
        Iter(self.entries())
    }

    /// Iterates over handles on the living entries; otherwise like [`iter`](Self::iter).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert("k", vec![1, 2, 3]);
    /// let longest = cache.entries().max_by_key(|entry| entry.len()).unwrap();
    /// assert_eq!(*longest.key(), "k");
    /// ```
    pub fn entries(&self) -> Entries<'_, K, V> {
        Entries::new(&self.inner)
    }

    /// Returns handles on the entries that expire next, the soonest first; at most `limit`.
    ///
    /// Entries that never expire are left out. The call looks at every entry, like
    /// [`entries`](Self::entries).
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::Duration;
    ///
    /// let leases = Cache::new(100);
    /// for n in 1..=9 {
    ///     leases.insert_with_ttl(n, (), Duration::from_secs(60 * n));
    /// }
    /// let next: Vec<_> = leases.soonest_to_expire(2).iter().map(|lease| *lease.key()).collect();
    /// assert_eq!(next, [1, 2]);
    /// ```
    pub fn soonest_to_expire(&self, limit: usize) -> Vec<Entry<K, V>> {
        let mortal = self.entries().filter(|entry| entry.expires_in().is_some());
        least(mortal, limit, Entry::deadline)
    }

    /// Returns handles on the entries that expire last, the latest first; at most `limit`. Entries
    /// that never expire come first. Otherwise like
    /// [`soonest_to_expire`](Self::soonest_to_expire).
    ///
    /// ```
    /// use cortado::Cache;
    /// use std::time::Duration;
    ///
    /// let leases = Cache::new(100);
    /// leases.insert("for ever", ());
    /// leases.insert_with_ttl("an hour", (), Duration::from_secs(3600));
    /// leases.insert_with_ttl("a minute", (), Duration::from_secs(60));
    /// let last: Vec<_> = leases.latest_to_expire(2).iter().map(|lease| *lease.key()).collect();
    /// assert_eq!(last, ["for ever", "an hour"]);
    /// ```
    pub fn latest_to_expire(&self, limit: usize) -> Vec<Entry<K, V>> {
        least(self.entries(), limit, |entry| Reverse(entry.deadline()))
    }

    /// Iterates over clones of the keys of living entries; otherwise like [`iter`](Self::iter).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2)]);
    /// let mut keys: Vec<_> = cache.keys().collect();
    /// keys.sort();
    /// assert_eq!(keys, ["a", "b"]);
    /// ```
    pub fn keys(&self) -> impl FusedIterator<Item = K>
    where
        K: Clone,
    {
        let mut entries = self.entries();
        from_fn(move || entries.next_node().map(|node| node.key().clone())).fuse()
    }

    /// Iterates over clones of the values of living entries; otherwise like [`iter`](Self::iter).
    ///
    /// ```
    /// let cache = cortado::Cache::new(100);
    /// cache.insert_many([("a", 1), ("b", 2)]);
    /// assert_eq!(cache.values().sum::<i32>(), 3);
    /// ```
    pub fn values(&self) -> impl FusedIterator<Item = V>
    where
        V: Clone,
    {
        let mut entries = self.entries();
        from_fn(move || entries.next_node().map(|node| node.value().clone())).fuse()
    }

    /// Returns handles on the entries that the eviction policy would keep longest, the best first;
    /// at most `limit`. A cache without a bound has no such order and returns none.
    ///
    /// Entries of the last moment, which no maintenance has seen, are left out.
    ///
    /// *Blocking*: waits for a maintenance pass that is running, and holds passes up for as long as
    /// it takes to collect `limit` entries. Reads and writes go on.
    pub fn hottest(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.inner.ranked(limit, End::Front)
    }

    /// Returns handles on the entries that the eviction policy would evict first, in about that
    /// order; at most `limit`. Otherwise like [`hottest`](Self::hottest).
    ///
    /// ```
    /// use cortado::{Cache, EvictionPolicy};
    ///
    /// let cache = Cache::builder().max_capacity(3).eviction_policy(EvictionPolicy::lru()).build();
    /// cache.insert_many([("a", 1), ("b", 2), ("c", 3)]);
    /// cache.run_pending_tasks();
    /// assert_eq!(*cache.coldest(1)[0].key(), "a");
    /// ```
    pub fn coldest(&self, limit: usize) -> Vec<Entry<K, V>> {
        self.inner.ranked(limit, End::Back)
    }
}

impl<'c, K: Hash + Eq, V: Clone, S: BuildHasher> IntoIterator for &'c Cache<K, V, S> {
    type Item = (Key<K, V>, V);
    type IntoIter = Iter<'c, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The `limit` entries with the least rank, in order. Holds at most twice as many at a time.
fn least<K, V, R: Ord>(
    entries: impl Iterator<Item = Entry<K, V>>,
    limit: usize,
    rank: impl Fn(&Entry<K, V>) -> R,
) -> Vec<Entry<K, V>> {
    let mut least = Vec::new();
    for entry in entries {
        least.push(entry);
        if least.len() >= limit.saturating_mul(2).max(64) {
            least.sort_by_key(&rank);
            least.truncate(limit);
        }
    }
    least.sort_by_key(&rank);
    least.truncate(limit);
    least
}
