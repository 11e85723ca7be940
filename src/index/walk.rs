//! Walking through all entries in the order of their hashes.

use std::ops::Range;

use crate::epoch::Guard;
use crate::hash::Hash32;

use super::memory::Chain;
use super::state::Index;
use super::table::{HashOf, Table};
use crate::links::NodeId;
use crate::primitives::seeded;

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/index_audit.rs"]
mod audit;

/// All hashes are below this value.
const END: u64 = 1 << 32;

/// The cursor that begins at this number; `None` if all hashes are below it.
fn cursor_at(number: u64) -> Option<Hash32> {
    u32::try_from(number).ok().map(Hash32::from_raw)
}

impl Index {
    /// Finds the bucket that holds the entries with hashes from `cursor` on, in whichever table
    /// they are. Returns that table, the bucket, which has not moved, and the range of hashes for
    /// which it holds all entries.
    ///
    /// A bucket of a smaller table takes the place of several buckets, and some of those may not
    /// have moved yet. So the range ends where the first of the buckets on the way ends.
    fn open_at<'g>(
        &'g self,
        guard: &'g Guard,
        cursor: Hash32,
    ) -> (&'g Table, Chain<'g>, Range<u64>) {
        let mut table = self.current(guard);
        let mut end = END;
        loop {
            let position = table.position(cursor);
            if !seeded("index-walk-strides-the-last") {
                end = end.min(table.end_of(position));
            }
            if let Some((_, chain)) = Chain::open(&table.buckets[position]) {
                let hashes = u64::from(cursor.raw())..end.min(table.end_of(position));
                return (table, chain, hashes);
            }
            table = table.successor(guard);
        }
    }

    /// Appends the ids of one bucket to `out`: those whose hashes are at `cursor` or above. Returns
    /// the cursor of the next bucket, or `None` at the end.
    ///
    /// A walk begins at [`Hash32::FIRST`] and continues with the returned cursor, under the same
    /// guard or another one. The walk is weakly consistent:
    ///
    /// * An id that is in the index throughout the walk is visited exactly once, whether the index
    ///   grows or shrinks.
    /// * An id that is added or removed meanwhile is visited at most once.
    pub fn ids_at(
        &self,
        guard: &Guard,
        store: &impl HashOf,
        cursor: Hash32,
        out: &mut Vec<NodeId>,
    ) -> Option<Hash32> {
        let (_, chain, hashes) = self.open_at(guard, cursor);
        let is_wanted = |id: NodeId| {
            id != NodeId::NONE
                && (hashes.contains(&store.hash(id).raw().into())
                    || seeded("index-walk-takes-neighbours"))
        };
        for bucket in chain {
            let ids = bucket.fingerprints().occupied().map(|slot| bucket.id(slot));
            out.extend(ids.filter(|&id| is_wanted(id)));
        }
        let next = if seeded("index-walk-strides-current") {
            let current = self.current(guard);
            current.end_of(current.position(cursor))
        } else {
            hashes.end
        };
        cursor_at(next)
    }

    /// Hands the ids of the bucket at `cursor` to `prefetch`.
    pub fn prefetch_at(&self, guard: &Guard, cursor: Hash32, prefetch: impl Fn(NodeId)) {
        for bucket in self.open_at(guard, cursor).1 {
            bucket.fingerprints().occupied().for_each(|slot| prefetch(bucket.id(slot)));
        }
    }
}
