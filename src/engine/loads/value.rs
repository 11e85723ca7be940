//! Loads whose caller wants a clone of the value. Unless reloads run inline, a hit makes no handle,
//! so it costs what a read costs: a plain hit writes nothing that threads share, and reads no
//! precise clock.

use super::commit::Replaces;
use super::load::{Init, OnStale, once};
use super::source::KeySource;
use crate::engine::Engine;
use crate::entry::Entry;
use crate::loaded::{LoaderResult, Reason};
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// What a read has found for a load.
pub enum ValueRead<V> {
    Hit(V),
    Miss,
    /// There was no read. The entry may have to be reloaded by the caller, who therefore reads it
    /// by a handle.
    ByHandle,
}

impl<K: Hash + Eq, V: Clone, S: BuildHasher> Engine<K, V, S> {
    /// Reads the value of a key that is to be loaded if there is none.
    #[inline]
    pub fn read_for_value<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> ValueRead<V> {
        if self.reloads_inline() {
            return ValueRead::ByHandle;
        }
        self.read_clone(key).map_or(ValueRead::Miss, ValueRead::Hit)
    }

    /// [`load`](Self::load) of a clone of the value. A stale one is reloaded if reloads run inline.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_value<R: LoaderResult<V>>(
        &self,
        key: impl KeySource<K>,
        init: impl FnOnce() -> R,
    ) -> Result<V, R::Reason> {
        let mut init = once(|| init().into_result());
        let loaded = self.load_value_dyn(key, &mut init);
        // As in `load`.
        drop(init);
        loaded
    }

    fn load_value_dyn<N: Reason>(
        &self,
        key: impl KeySource<K>,
        init: Init<'_, V, N>,
    ) -> Result<V, N> {
        let entry = match self.read_for_value(key.borrowed()) {
            ValueRead::Hit(value) => {
                // As in `load`.
                drop(key);
                return Ok(value);
            }
            ValueRead::Miss => self.load_missing(key.into_key(), init, &mut Replaces::none()),
            ValueRead::ByHandle => self.load_dyn(key, init, (None, OnStale::Reload)),
        };
        entry.map(Entry::into_value)
    }
}
