//! Caches whose end is an audit.

use cortado::Cache;
use std::ops::Deref;

/// A cache that is audited when this is dropped: at the end of the test that made it, when its
/// threads have been joined and its views are gone. A test that has failed already is left to say
/// so.
pub struct Audited<K, V, S = ahash::RandomState>(Cache<K, V, S>);

pub fn audited<K, V, S>(cache: Cache<K, V, S>) -> Audited<K, V, S> {
    Audited(cache)
}

impl<K, V, S> Deref for Audited<K, V, S> {
    type Target = Cache<K, V, S>;

    fn deref(&self) -> &Cache<K, V, S> {
        &self.0
    }
}

impl<K, V, S> Drop for Audited<K, V, S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.audit();
        }
    }
}
