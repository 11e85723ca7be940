//! The audit of an index.

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
    /// A description of the first violation: a duplicate id, an id in the wrong bucket or with the
    /// wrong fingerprint, a lock left behind, an entry in the next table before its bucket has
    /// moved.
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
        ensure!(!has_moved, "bucket {position} has not moved, but the next table has its entries");
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
