//! The decisions and the results of computations.

use crate::entry::Entry;

/// The decision of a computation about its key; see
/// [`and_compute_with`](crate::KeyEntry::and_compute_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<V> {
    /// Leave the key as it is.
    Nop,
    /// Insert this value, or replace the one that is there.
    Put(V),
    /// Remove the entry, if there is one.
    Remove,
}

/// The result of a computation.
#[derive(Debug)]
pub enum CompResult<K, V> {
    /// There was no entry; now there is this one.
    Inserted(Entry<K, V>),
    /// This entry replaced the one that was there.
    ReplacedWith(Entry<K, V>),
    /// This entry was removed.
    Removed(Entry<K, V>),
    /// This entry was left as it is.
    Unchanged(Entry<K, V>),
    /// There was no entry, and there is none.
    StillNone,
}
