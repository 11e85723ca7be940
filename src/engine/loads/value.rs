//! Loads whose caller wants a clone of the value. A hit makes no handle, so it costs what a read
//! costs: a plain hit writes nothing that threads share, and reads no precise clock.

use super::commit::Replaces;
use super::load::{Init, once};
use crate::engine::Engine;
use crate::entry::Entry;
use crate::hash::Hashed;
use crate::key_source::KeySource;
use crate::loaded::{LoaderResult, Reason};

impl<K: Eq, V: Clone> Engine<K, V> {
    /// [`load`](Self::load) of a clone of the value.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_value<R: LoaderResult<V>>(
        &self,
        key: Hashed<impl KeySource<K>>,
        init: impl FnOnce() -> R,
    ) -> Result<V, R::Reason> {
        self.load_value_dyn(key, &mut once(|_| init().into_result()))
    }

    fn load_value_dyn<N: Reason>(
        &self,
        key: Hashed<impl KeySource<K>>,
        init: Init<'_, K, V, N>,
    ) -> Result<V, N> {
        if let Some(value) = self.read_clone(key.borrowed()) {
            return Ok(value);
        }
        let loaded = self.load_missing(key.into_key(), init, &mut Replaces::none());
        loaded.map(Entry::into_value)
    }
}
