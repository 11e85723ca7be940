//! Reading by reference.

use crate::engine::{Engine, Moment};
use crate::epoch::Guard;
use equivalent::Equivalent;
use std::fmt;
use std::hash::{BuildHasher, Hash};

/// A view of a cache whose lookups return references; see [`Cache::pin`](crate::Cache::pin). It
/// stays on its thread.
pub struct Pinned<'c, K, V, S> {
    engine: &'c Engine<K, V, S>,
    guard: Guard,
    moment: Moment,
}

impl<'c, K, V, S> Pinned<'c, K, V, S> {
    pub(crate) fn new(engine: &'c Engine<K, V, S>) -> Self {
        Self { engine, guard: crate::epoch::pin(), moment: Moment::new() }
    }
}

impl<K, V, S> Pinned<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// The key's value, if it has a living entry. Counts as a read, like
    /// [`Cache::get`](crate::Cache::get). The reference stays valid while the view is held, also if
    /// the entry expires or is removed meanwhile.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.engine.read_at(&self.guard, &self.moment, key)
    }

    /// Key and value of the key's living entry; otherwise as [`get`](Self::get).
    #[inline]
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        // By a reading of its own, and no later lookup goes by an earlier one.
        self.moment.end();
        let lookup = self.engine.read(&self.guard, key);
        if lookup.due {
            self.engine.attend();
        }
        lookup.node.map(|node| (node.key(), node.value()))
    }

    /// Lets go of what was read so far and begins anew, so that memory can be released; for long
    /// loops. References from before end here.
    pub fn repin(&mut self) {
        self.moment.end();
        self.guard.repin();
    }
}

impl<K, V, S> fmt::Debug for Pinned<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").field("cache", &self.engine.name()).finish_non_exhaustive()
    }
}
