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
mod audit {
    use super::super::bucket::fingerprint_of;
    use super::super::fingerprint::SLOTS;
    use super::{Chain, Guard, Hash32, HashOf, Index, NodeId, Range, Table, cursor_at};
    use crate::macros::ensure;
    use std::collections::HashSet;

    impl Index {
        /// The number of home buckets that have an overflow, with or without entries in it.
        pub fn overflows(&self, guard: &Guard) -> usize {
            self.current(guard).buckets.iter().filter(|bucket| bucket.has_overflow()).count()
        }

        /// Checks every invariant, and counts the entries. Only while no thread is writing.
        ///
        /// # Errors
        ///
        /// A description of the first violation: a duplicate id, an id in the wrong bucket or with
        /// the wrong fingerprint, a lock left behind, an entry in the next table before its
        /// bucket has moved.
        pub fn validate(&self, guard: &Guard, store: &impl HashOf) -> Result<usize, String> {
            let mut ids = HashSet::new();
            let mut cursor = Some(Hash32::FIRST);
            while let Some(first) = cursor {
                let (table, chain, hashes) = self.open_at(guard, first);
                let position = table.position(first);
                let ctrl = table.buckets[position].ctrl();
                ensure!(!ctrl.is_locked(), "bucket {position} is locked");
                let mut overflow = chain.clone().skip(1);
                let overflows =
                    overflow.any(|bucket| bucket.fingerprints().occupied().next().is_some());
                let is_right = overflows == ctrl.overflows();
                ensure!(is_right, "bucket {position} overflows: {overflows}, but says otherwise");
                for (id, hash) in entries(chain, store)? {
                    let is_home = table.position(hash) == position;
                    ensure!(is_home, "id {id} with hash {hash:#x} is in bucket {position}");
                    ensure!(!are_for(&hashes, hash) || ids.insert(id), "id {id} is there twice");
                }
                check_next(table, position, &hashes, guard, store)?;
                cursor = cursor_at(hashes.end);
            }
            Ok(ids.len())
        }
    }

    fn are_for(hashes: &Range<u64>, hash: Hash32) -> bool {
        hashes.contains(&u64::from(hash.raw()))
    }

    /// Returns an error if the next table has entries of a bucket that has not moved there.
    fn check_next(
        table: &Table,
        position: usize,
        hashes: &Range<u64>,
        guard: &Guard,
        store: &impl HashOf,
    ) -> Result<(), String> {
        let Some(next) = table.next.get(guard) else { return Ok(()) };
        let place = |hash: u64| next.position(Hash32::from_raw(hash as u32));
        let (first, last) = (place(hashes.start), place(hashes.end - 1));
        for home in &next.buckets[first..=last] {
            let Some((_, chain)) = Chain::open(home) else {
                return Err(String::from("a bucket has moved on from a table that is not current"));
            };
            let has_moved = entries(chain, store)?.iter().any(|&(_, hash)| are_for(hashes, hash));
            ensure!(
                !has_moved,
                "bucket {position} has not moved, but the next table has its entries"
            );
        }
        Ok(())
    }

    /// The ids of a chain with their hashes, or an error if a fingerprint does not fit its hash.
    fn entries(chain: Chain<'_>, store: &impl HashOf) -> Result<Vec<(NodeId, Hash32)>, String> {
        let mut entries = Vec::new();
        for bucket in chain {
            let fingerprints = bucket.fingerprints();
            for slot in 0..SLOTS {
                let (fingerprint, id) = (fingerprints.get(slot), bucket.id(slot));
                let is_taken = id != NodeId::NONE;
                ensure!(is_taken == (fingerprint != 0), "slot {slot}: {fingerprint:#x}, id {id}");
                if is_taken {
                    let hash = store.hash(id);
                    let is_its = fingerprint == fingerprint_of(hash);
                    ensure!(is_its, "id {id} with hash {hash:#x} has fingerprint {fingerprint:#x}");
                    entries.push((id, hash));
                }
            }
        }
        Ok(entries)
    }
}

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
