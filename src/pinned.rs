//! Views of a cache, whose lookups return references.

use crate::engine::WithHasher;
use crate::epoch::Guard;
use crate::macros::debug_fields;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// A view of a cache whose lookups return references; see [`Cache::pin`](crate::Cache::pin).
///
/// It stays on its thread.
pub struct Pinned<'c, K, V, S> {
    cache: &'c WithHasher<K, V, S>,
    guard: Guard,
}

impl<'c, K, V, S> Pinned<'c, K, V, S> {
    pub(crate) fn new(cache: &'c WithHasher<K, V, S>) -> Self {
        Self { cache, guard: crate::epoch::pin() }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Pinned<'_, K, V, S> {
    /// Returns the key's value, if the key has a living entry.
    ///
    /// Counts as a read, like [`Cache::get`](crate::Cache::get). The reference stays valid while
    /// the view is held, also if the entry expires or is removed meanwhile.
    #[inline]
    pub fn get<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<&V> {
        let (value, due) = self.cache.read_value(&self.guard, self.cache.hashed(key));
        if due {
            self.cache.after_read();
        }
        value
    }

    /// Lets go of the entries that were read so far, so that their memory can be released.
    ///
    /// Call it in long loops. References from before the call end here.
    ///
    /// ```
    /// let cache = cortado::Cache::new(10_000);
    /// cache.insert_many((0..10_000).map(|n| (n, n)));
    /// let mut pinned = cache.pin();
    /// let mut sum = 0;
    /// for n in 0..10_000 {
    ///     sum += pinned.get(&n).copied().unwrap_or(0);
    ///     if n % 1_000 == 0 {
    ///         pinned.repin();
    ///     }
    /// }
    /// assert_eq!(sum, 49_995_000);
    /// ```
    pub fn repin(&mut self) {
        self.guard.repin();
    }
}

debug_fields!(impl[K, V, S] Pinned<'_, K, V, S>, |it| cache: it.cache.name());
