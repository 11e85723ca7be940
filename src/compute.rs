//! The decisions and the results of computations.

use crate::entry::{Entry, Key};
use crate::loaded::Loaded;

/// The decision of a computation about its key; see
/// [`and_compute_with`](crate::KeyEntry::and_compute_with).
///
/// ```
/// use cortado::{Cache, Op};
///
/// let slots = Cache::new(100);
/// let next = |count: Option<u32>| match count {
///     None => Op::Put(1),
///     Some(1) => Op::Nop,
///     Some(_) => Op::Remove,
/// };
/// slots.insert("b", 1);
/// slots.insert("c", 2);
/// for slot in ["a", "b", "c"] {
///     slots.entry(slot).and_compute_with(|entry| next(entry.map(|count| *count)));
/// }
/// assert_eq!(slots.get_many(["a", "b", "c"]), [Some(1), Some(1), None]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<V> {
    /// Leave the key as it is.
    Nop,
    /// Insert this value, or replace the one that is there. The value lives as one that is
    /// inserted: the cache's settings and policy say how long, not the lifetime that the old entry
    /// was given.
    Put(V),
    /// The same with a lifetime of its own, and perhaps a time until it is stale.
    ///
    /// ```
    /// use cortado::{Cache, Loaded, Op};
    /// use std::time::Duration;
    ///
    /// let leases: Cache<&str, u32> = Cache::new(100);
    /// let renew = |holder: u32| {
    ///     leases.entry("job").and_compute_with(|lease| match lease {
    ///         Some(lease) if *lease != holder => Op::Nop,
    ///         _ => Op::PutLoaded(Loaded::with_ttl(holder, Duration::from_secs(30))),
    ///     })
    /// };
    /// renew(1);
    /// renew(2);
    /// assert_eq!(leases.get("job"), Some(1));
    ///
    /// // What is left of the old entry's life is kept.
    /// leases.entry("job").and_compute_with(|lease| match lease.and_then(|it| it.expires_in()) {
    ///     Some(left) => Op::PutLoaded(Loaded::with_ttl(7, left)),
    ///     None => Op::Put(7),
    /// });
    /// assert!(leases.expires_in("job").due() <= Some(Duration::from_secs(30)));
    /// ```
    PutLoaded(Loaded<V>),
    /// Remove the entry, if there is one.
    Remove,
}

/// The result of a computation.
///
/// ```
/// use cortado::{Cache, CompResult, Op};
///
/// let cache = Cache::new(100);
/// let result = cache.entry("k").and_compute_with(|_| Op::Remove);
/// assert!(matches!(result, CompResult::StillNone(key) if *key == "k"));
/// let result = cache.entry("k").and_compute_with(|_| Op::Put(1));
/// assert!(matches!(result, CompResult::Inserted(new) if *new == 1));
/// let result = cache.entry("k").and_compute_with(|_| Op::Nop);
/// assert!(matches!(result, CompResult::Unchanged(old) if *old == 1));
/// let result = cache.entry("k").and_compute_with(|_| Op::Put(2));
/// assert!(matches!(result, CompResult::ReplacedWith(new) if *new == 2));
/// let result = cache.entry("k").and_compute_with(|_| Op::Remove);
/// assert!(matches!(result, CompResult::Removed(old) if *old == 2));
/// ```
#[derive(Debug)]
pub enum CompResult<K, V> {
    /// There was no entry, and this one was inserted. The cache need not have kept it: it may be
    /// too heavy, or have a lifetime of zero.
    Inserted(Entry<K, V>),
    /// This entry replaced the one that was there.
    ReplacedWith(Entry<K, V>),
    /// This entry was removed.
    Removed(Entry<K, V>),
    /// This entry was left as it is.
    Unchanged(Entry<K, V>),
    /// There was no entry for this key, and there is none.
    StillNone(Key<K, V>),
}

impl<K, V> Clone for CompResult<K, V> {
    /// Clones the handle on the entry, not key and value.
    fn clone(&self) -> Self {
        match self {
            Self::Inserted(entry) => Self::Inserted(entry.clone()),
            Self::ReplacedWith(entry) => Self::ReplacedWith(entry.clone()),
            Self::Removed(entry) => Self::Removed(entry.clone()),
            Self::Unchanged(entry) => Self::Unchanged(entry.clone()),
            Self::StillNone(key) => Self::StillNone(key.clone()),
        }
    }
}

impl<K, V> CompResult<K, V> {
    /// The entry that the result carries: the new one, or the old one if it was removed or left as
    /// it is. `None` if there was no entry and there is none.
    ///
    /// ```
    /// use cortado::{Cache, Op};
    ///
    /// let cache = Cache::new(100);
    /// let result = cache.entry("k").and_compute_with(|_| Op::Put(1));
    /// assert_eq!(result.into_entry().map(|entry| *entry), Some(1));
    /// ```
    #[must_use]
    pub fn into_entry(self) -> Option<Entry<K, V>> {
        match self {
            Self::Inserted(entry)
            | Self::ReplacedWith(entry)
            | Self::Removed(entry)
            | Self::Unchanged(entry) => Some(entry),
            Self::StillNone(_) => None,
        }
    }

    /// The entry that the result carries, as [`into_entry`](Self::into_entry).
    ///
    /// # Panics
    /// If there was no entry and there is none.
    #[must_use]
    #[track_caller]
    pub fn unwrap(self) -> Entry<K, V> {
        match self.into_entry() {
            Some(entry) => entry,
            None => panic!("`CompResult::unwrap` of `StillNone`: the key has no entry"),
        }
    }
}

/// A computation that puts its value only in the place of another one.
pub(crate) struct Replacement<K, V> {
    value: Option<Loaded<V>>,
    old: Option<Entry<K, V>>,
}

impl<K, V> Replacement<K, V> {
    pub(crate) fn new(value: Loaded<V>) -> Self {
        Self { value: Some(value), old: None }
    }

    pub(crate) fn decide(&mut self, old: Option<Entry<K, V>>) -> Op<V> {
        self.old = old;
        if self.old.is_none() {
            return Op::Nop;
        }
        self.value.take().map_or(Op::Nop, Op::PutLoaded)
    }

    /// The entry that was replaced, or else the value.
    ///
    /// # Panics
    /// If the value was taken without an entry to replace, which `decide` does not do.
    pub(crate) fn outcome(self) -> Result<Entry<K, V>, V> {
        self.old.ok_or_else(|| self.value.expect("the value is kept").into_parts().0)
    }
}
