//! The face of the crate.

#[cfg(all(test, feature = "internals", not(cortado_loom)))]
mod damage;
#[cfg(all(test, feature = "internals", not(cortado_loom)))]
mod figures;
#[cfg(all(test, feature = "internals", not(cortado_loom)))]
mod held_up;
mod inspect;
mod iterate;
mod lifetimes;
mod load;
mod read;
mod run;
mod write;

pub use load::KeyEntry;

use crate::builder::Builder;
use crate::engine::Engine;
use std::fmt;
use std::sync::Arc;

/// A concurrent cache in which every entry has a lifetime of its own.
///
/// A `Cache` is a handle: cloning it is cheap and all clones are the same cache. It is made by
/// [`Cache::new`] or, with a policy, by [`Cache::builder`]. See the [crate] documentation for
/// what it guarantees.
///
/// Keys need `Hash + Eq`, and keys and values `Send + Sync + 'static`. Values need `Clone` only
/// where a method returns a clone of one; [`get_entry`](Self::get_entry) and [`pin`](Self::pin) do
/// without. Lookups take any borrowed form of the key (`&str` for `String`), or a type of your own
/// that implements [`Equivalent`](crate::Equivalent).
///
/// ```
/// use cortado::Cache;
/// use std::time::Duration;
///
/// let cache: Cache<String, String> = Cache::new(10_000);
/// cache.insert_with_ttl("token".into(), "abc".into(), Duration::from_secs(300));
/// assert_eq!(cache.get("token").as_deref(), Some("abc"));
/// ```
pub struct Cache<K, V, S = ahash::RandomState> {
    engine: Arc<Engine<K, V, S>>,
}

impl<K, V> Cache<K, V>
where
    K: std::hash::Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// A cache of at most `max_capacity` entries, which live until they are removed or there is no
    /// room for them, or as long as a call says ([`insert_with_ttl`](Self::insert_with_ttl)).
    #[must_use]
    pub fn new(max_capacity: u64) -> Self {
        Self::builder().max_capacity(max_capacity).build()
    }

    /// Starts the configuration of a cache.
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }
}

impl<K, V, S> Cache<K, V, S> {
    pub(crate) fn from_engine(engine: Arc<Engine<K, V, S>>) -> Self {
        Self { engine }
    }

    pub(crate) fn engine(&self) -> &Engine<K, V, S> {
        &self.engine
    }
}

impl<K, V, S> Clone for Cache<K, V, S> {
    /// Another handle on the same cache.
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine) }
    }
}

impl<K, V, S> fmt::Debug for Cache<K, V, S> {
    /// Name and size; not the entries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("name", &self.engine.name())
            .field("entries", &self.entry_count())
            .field("weight", &self.weighted_size())
            .finish_non_exhaustive()
    }
}
