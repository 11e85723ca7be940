//! Operations on several keys.

use super::Cache;
use crate::key_source::OwnedKey;
use crate::loaded::{Loaded, LoadedMany, NoValue};
use equivalent::Equivalent;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
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
