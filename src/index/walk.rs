//! Walking through all entries in the order of their hashes, and auditing them.

use std::collections::HashSet;
use std::ops::Range;

use crate::epoch::Guard;
use crate::hash::Hash32;

use super::bucket::fingerprint_of;
use super::fingerprint::SLOTS;
use super::memory::Chain;
use super::root::Root;
use super::state::Index;
use super::table::{HashOf, Table};
use crate::links::NodeId;
use crate::macros::ensure;
use crate::primitives::seeded;

/// All hashes are below this value.
const END: u64 = 1 << 32;

/// A bucket that has not moved, and the range of hashes for which it holds all entries. The range
/// begins at a cursor.
struct Place<'g> {
    #[cfg(any(feature = "internals", cortado_loom))]
    table: &'g Table,
    #[cfg(any(feature = "internals", cortado_loom))]
    position: usize,
    chain: Chain<'g>,
    hashes: Range<u64>,
}

impl Place<'_> {
    fn is_for(&self, hash: Hash32) -> bool {
        self.hashes.contains(&u64::from(hash.raw()))
    }
}

/// The cursor that begins at this number; `None` if all hashes are below it.
fn cursor_at(number: u64) -> Option<Hash32> {
    u32::try_from(number).ok().map(Hash32::from_raw)
}

/// Finds the bucket that holds the entries with hashes from `cursor` on, in whichever table they
/// are.
///
/// A bucket of a smaller table takes the place of several buckets, and some of those may not have
/// moved yet. So the range ends where the first of the buckets on the way ends.
fn open_at<'g>(root: &'g Root, guard: &'g Guard, cursor: Hash32) -> Place<'g> {
    let mut table = root.current(guard);
    let mut end = END;
    loop {
        let position = table.position(cursor);
        if !seeded("index-walk-strides-the-last") {
            end = end.min(table.end_of(position));
        }
        if let Some((_, chain)) = Chain::open(&table.buckets[position]) {
            let hashes = u64::from(cursor.raw())..end.min(table.end_of(position));
            return Place {
                #[cfg(any(feature = "internals", cortado_loom))]
                table,
                #[cfg(any(feature = "internals", cortado_loom))]
                position,
                chain,
                hashes,
            };
        }
        table = table.successor(guard);
    }
}

impl Index {
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
        let place = open_at(&self.root, guard, cursor);
        let is_wanted = |id: NodeId| {
            id != NodeId::NONE
                && (place.is_for(store.hash(id)) || seeded("index-walk-takes-neighbours"))
        };
        for bucket in place.chain.clone() {
            let ids = bucket.fingerprints().occupied().map(|slot| bucket.id(slot));
            out.extend(ids.filter(|&id| is_wanted(id)));
        }
        let next = if seeded("index-walk-strides-current") {
            let current = self.root.current(guard);
            current.end_of(current.position(cursor))
        } else {
            place.hashes.end
        };
        cursor_at(next)
    }

    /// Hands the ids of the bucket at `cursor` to `prefetch`.
    pub fn prefetch_at(&self, guard: &Guard, cursor: Hash32, prefetch: impl Fn(NodeId)) {
        for bucket in open_at(&self.root, guard, cursor).chain {
            bucket.fingerprints().occupied().for_each(|slot| prefetch(bucket.id(slot)));
        }
    }

    /// Checks every invariant, and counts the entries. Only while no thread is writing.
    ///
    /// # Errors
    ///
    /// A description of the first violation: a duplicate id, an id in the wrong bucket or with the
    /// wrong fingerprint, a lock left behind, an entry in the next table before its bucket has
    /// moved.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn validate(&self, guard: &Guard, store: &impl HashOf) -> Result<usize, String> {
        let mut ids = HashSet::new();
        let mut cursor = Some(Hash32::FIRST);
        while let Some(first) = cursor {
            let place = open_at(&self.root, guard, first);
            let Place { table, position, .. } = place;
            let ctrl = table.buckets[position].ctrl();
            ensure!(!ctrl.is_locked(), "bucket {position} is locked");
            let mut overflow = place.chain.clone().skip(1);
            let overflows =
                overflow.any(|bucket| bucket.fingerprints().occupied().next().is_some());
            let is_right = overflows == ctrl.overflows();
            ensure!(is_right, "bucket {position} overflows: {overflows}, but says otherwise");
            for (id, hash) in entries(place.chain.clone(), store)? {
                let is_home = table.position(hash) == position;
                ensure!(is_home, "id {id} with hash {hash:#x} is in bucket {position}");
                ensure!(!place.is_for(hash) || ids.insert(id), "id {id} is there twice");
            }
            check_next(&place, guard, store)?;
            cursor = cursor_at(place.hashes.end);
        }
        Ok(ids.len())
    }
}

/// Returns an error if the next table has entries of a bucket that has not moved there.
#[cfg(any(feature = "internals", cortado_loom))]
fn check_next(place: &Place<'_>, guard: &Guard, store: &impl HashOf) -> Result<(), String> {
    let Some(next) = place.table.next.get(guard) else { return Ok(()) };
    let position = |hash: u64| next.position(Hash32::from_raw(hash as u32));
    let (first, last) = (position(place.hashes.start), position(place.hashes.end - 1));
    for home in &next.buckets[first..=last] {
        let Some((_, chain)) = Chain::open(home) else {
            return Err(String::from("a bucket has moved on from a table that is not current"));
        };
        let has_moved = entries(chain, store)?.iter().any(|&(_, hash)| place.is_for(hash));
        let position = place.position;
        ensure!(!has_moved, "bucket {position} has not moved, but the next table has its entries");
    }
    Ok(())
}

/// The ids of a chain with their hashes, or an error if a fingerprint does not fit its hash.
#[cfg(any(feature = "internals", cortado_loom))]
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
