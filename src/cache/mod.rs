//! The public face: [`Cache`]. Its methods are in the submodules, by subject.

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/doors.rs"]
mod doors;
mod inspect;
mod key_entry;
mod load;
mod loading;
mod many;
mod read;
mod write;

pub use key_entry::KeyEntry;
pub use load::LoadGuard;
pub use loading::{LoadLimits, LoadingCache};
pub(crate) use many::loaded;

use crate::builder::Builder;
use crate::engine::WithHasher;
use std::hash::Hash;
use std::sync::Arc;

/// A concurrent cache in which every entry has a lifetime of its own.
///
/// A `Cache` is a handle: cloning it is cheap, and all clones are the same cache. [`Cache::new`]
/// makes one, or [`Cache::builder`] with more settings. The [crate] documentation states what a
/// cache guarantees.
///
/// An entry is *living* while it is in the cache and its deadline has not come.
///
/// Keys need `Hash + Eq`; keys and values need `Send + Sync + 'static`. Values need `Clone` only
/// for methods that return a clone; [`get_entry`](Self::get_entry) and [`pin`](Self::pin) do
/// without. Lookups take any borrowed form of the key (`&str` for `String`), or a type of your own
/// that implements [`Equivalent`](crate::Equivalent).
///
/// Dropping the last handle drops the values that are still inside, and announces none of them.
/// [`close`](Self::close) announces them.
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
    pub(crate) inner: Arc<WithHasher<K, V, S>>,
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Makes a cache of at most `max_capacity` entries.
    ///
    /// An entry lives until it is removed or there is no room for it. A call can give it a lifetime
    /// ([`insert_with_ttl`](Self::insert_with_ttl)).
    #[must_use]
    pub fn new(max_capacity: u64) -> Self {
        Self::builder().max_capacity(max_capacity).build()
    }

    /// Returns a builder, which configures a cache.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }
}

impl<K, V, S> Cache<K, V, S> {
    pub(crate) fn engine(&self) -> &Arc<WithHasher<K, V, S>> {
        &self.inner
    }
}

impl<K, V, S> Clone for Cache<K, V, S> {
    /// Returns another handle on the same cache.
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}
