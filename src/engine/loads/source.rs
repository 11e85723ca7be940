//! Where a load gets its key from.

use crate::to_key::ToKey;
use equivalent::Equivalent;
use std::hash::Hash;

/// The key of a load, by value or by reference. A load by reference makes a key only if it needs
/// one: a hit makes none.
pub trait KeySource<K> {
    /// What the cache looks up.
    type Borrowed: Equivalent<K> + Hash + ?Sized;

    fn borrowed(&self) -> &Self::Borrowed;

    fn into_key(self) -> K;
}

/// A key by value.
pub struct Owned<K>(pub K);

impl<K: Hash + Eq> KeySource<K> for Owned<K> {
    type Borrowed = K;

    #[inline]
    fn borrowed(&self) -> &K {
        &self.0
    }

    #[inline]
    fn into_key(self) -> K {
        self.0
    }
}

impl<K, Q: ToKey<K> + Hash + ?Sized> KeySource<K> for &Q {
    type Borrowed = Q;

    #[inline]
    fn borrowed(&self) -> &Q {
        self
    }

    #[inline]
    fn into_key(self) -> K {
        self.to_key()
    }
}
