//! Borrowed forms of keys from which a key can be made.

use crate::hash::Hashed;
use equivalent::Equivalent;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A borrowed form of a key, of which a load makes the key if it has to.
///
/// Look-ups take any [`Equivalent`]. What may insert a value under a key that it got by reference
/// needs this trait in addition: [`get_with_by_ref`](crate::Cache::get_with_by_ref) and its kin,
/// [`entry_by_ref`](crate::Cache::entry_by_ref), and [`LoadingCache`](crate::LoadingCache). A hit
/// makes no key.
///
/// A key that is `Clone` is its own borrowed form. `str` is one of `String`, `Box<str>` and
/// `Arc<str>`, and slices, paths, `OsStr` and `CStr` are likewise. For another crate's type make a
/// borrowed form of your own. Implement it for such a form:
///
/// ```
/// use cortado::{Cache, Equivalent, ToKey};
/// use std::hash::Hash;
///
/// #[derive(PartialEq, Eq, Hash)]
/// struct Name {
///     tenant: u32,
///     name: String,
/// }
///
/// // Its fields have the order and the hashes of the key's.
/// #[derive(Hash)]
/// struct NameRef<'a> {
///     tenant: u32,
///     name: &'a str,
/// }
///
/// impl Equivalent<Name> for NameRef<'_> {
///     fn equivalent(&self, key: &Name) -> bool {
///         (self.tenant, self.name) == (key.tenant, key.name.as_str())
///     }
/// }
///
/// impl ToKey<Name> for NameRef<'_> {
///     fn to_key(&self) -> Name {
///         Name { tenant: self.tenant, name: self.name.to_owned() }
///     }
/// }
///
/// let cache: Cache<Name, u32> = Cache::new(100);
/// let find = |name| cache.get_with_by_ref(&NameRef { tenant: 7, name }, || 1);
/// assert_eq!((find("a"), find("a"), cache.iter().count()), (1, 1, 1));
///
/// let texts: Cache<std::sync::Arc<str>, usize> = Cache::new(100);
/// assert_eq!(texts.get_with_by_ref("four", || 4), 4);
/// ```
pub trait ToKey<K>: Equivalent<K> {
    /// Makes the key.
    fn to_key(&self) -> K;
}

impl<K: Clone + Eq> ToKey<K> for K {
    fn to_key(&self) -> K {
        self.clone()
    }
}

impl<Q: ?Sized> Hashed<&Q> {
    /// Makes the key.
    pub fn to_key<K>(self) -> Hashed<K>
    where
        Q: ToKey<K>,
    {
        self.hash.with(self.key.to_key())
    }
}

/// The owned forms of a borrowed one.
macro_rules! made_from {
    ($borrowed:ty: $($owned:ty),+) => {
        $(impl ToKey<$owned> for $borrowed {
            fn to_key(&self) -> $owned {
                self.into()
            }
        })+
    };
}

made_from!(str: String, Box<str>, Arc<str>);
made_from!(Path: PathBuf, Box<Path>, Arc<Path>);
made_from!(OsStr: OsString, Box<OsStr>, Arc<OsStr>);
made_from!(CStr: CString, Box<CStr>, Arc<CStr>);

macro_rules! made_from_slices {
    ($($owned:ty),+) => {
        $(impl<T: Clone + Eq> ToKey<$owned> for [T] {
            fn to_key(&self) -> $owned {
                self.into()
            }
        })+
    };
}

made_from_slices!(Vec<T>, Box<[T]>, Arc<[T]>);
