//! The sources of keys.

use crate::hash::Hashed;
use crate::to_key::ToKey;
use equivalent::Equivalent;
use std::fmt;
use std::hash::Hash;

/// The source of a [`KeyEntry`](crate::KeyEntry)'s key: an [`OwnedKey`], or a reference to a
/// borrowed form of the key. The trait is sealed.
///
/// An operation by reference makes a key only if it needs one: a hit makes none.
pub trait KeySource<K>: sealed::Sealed {
    /// What the cache looks up.
    #[doc(hidden)]
    type Borrowed: Equivalent<K> + Hash + ?Sized;

    #[doc(hidden)]
    fn borrowed(&self) -> &Self::Borrowed;

    #[doc(hidden)]
    fn into_key(self) -> K;
}

/// A key by value, as [`entry`](crate::Cache::entry) takes it.
pub struct OwnedKey<K>(pub(crate) K);

impl<K: fmt::Debug> fmt::Debug for OwnedKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<K: Hash + Eq> KeySource<K> for OwnedKey<K> {
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

impl<T> Hashed<T> {
    /// What the cache looks up.
    #[inline]
    pub fn borrowed<K>(&self) -> Hashed<&T::Borrowed>
    where
        T: KeySource<K>,
    {
        self.hash.with(self.key.borrowed())
    }

    #[inline]
    pub fn into_key<K>(self) -> Hashed<K>
    where
        T: KeySource<K>,
    {
        self.hash.with(self.key.into_key())
    }
}

mod sealed {
    pub trait Sealed {}
    impl<K> Sealed for super::OwnedKey<K> {}
    impl<Q: ?Sized> Sealed for &Q {}
}
