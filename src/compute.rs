//! The vocabulary of computations.

use crate::entry::Entry;

/// What a computation decides about a key; see
/// [`and_compute_with`](crate::KeyEntry::and_compute_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<V> {
    /// Leave it as it is.
    Nop,
    /// Insert this value, or replace the one that is there.
    Put(V),
    /// Remove the entry, if there is one.
    Remove,
}

/// What a computation did.
#[derive(Debug)]
pub enum CompResult<K, V> {
    /// There was no entry; there is this one now.
    Inserted(Entry<K, V>),
    /// This entry took the place of the one that was there.
    ReplacedWith(Entry<K, V>),
    /// This entry was removed.
    Removed(Entry<K, V>),
    /// This entry was left as it is.
    Unchanged(Entry<K, V>),
    /// There was no entry and there is none.
    StillNone,
}
