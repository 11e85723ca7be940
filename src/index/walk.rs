//! Walking through all entries in the order of their hashes, and auditing them.

use std::collections::HashSet;

use crate::epoch::Guard;

use super::bucket::{Bucket, SLOTS, tag_of};
use super::memory::{Chain, Root};
use super::table::{HashOf, Table};
use crate::links::NIL;
use crate::sync::seeded;

/// Hashes are below this.
const END: u64 = 1 << 32;

/// The table and the bucket in which the entries with hashes from `cursor` on are, wherever they
/// have moved.
fn open_at<'g>(root: &'g Root, guard: &'g Guard, cursor: u32) -> (&'g Table, usize, Chain<'g>) {
    let mut table = root.current(guard);
    loop {
        let position = table.position(cursor);
        match Chain::open(&table.buckets()[position]) {
            Some((_, chain)) => return (table, position, chain),
            None => table = table.successor(guard),
        }
    }
}

/// See [`Index::collect`](super::Index::collect).
pub fn collect(root: &Root, guard: &Guard, cursor: u64, out: &mut Vec<u32>) -> Option<u64> {
    let (table, position, chain) = open_at(root, guard, u32::try_from(cursor).ok()?);
    for bucket in chain {
        out.extend(bucket.tags().occupied().map(|slot| bucket.id(slot)).filter(|&id| id != NIL));
    }
    let next = if seeded("index_walk_strides_current") {
        let current = root.current(guard);
        current.end_of(current.position(cursor as u32))
    } else {
        table.end_of(position)
    };
    (next < END).then_some(next)
}

/// See [`Index::validate`](super::Index::validate).
pub fn validate(root: &Root, guard: &Guard, store: &impl HashOf) -> Result<usize, String> {
    let mut ids = HashSet::new();
    let mut cursor = 0;
    while cursor < END {
        let (table, position, chain) = open_at(root, guard, cursor as u32);
        if table.buckets()[position].ctrl().is_locked() {
            return Err(format!("bucket {position} is locked"));
        }
        let overflows = chain.clone().skip(1).any(|b| b.tags().occupied().next().is_some());
        if overflows != table.buckets()[position].ctrl().overflows() {
            return Err(format!("bucket {position} overflows: {overflows}, but says otherwise"));
        }
        for bucket in chain {
            for (id, hash) in entries(bucket, store)? {
                if table.position(hash) != position {
                    return Err(format!("id {id} with hash {hash:#x} is in bucket {position}"));
                }
                if !ids.insert(id) {
                    return Err(format!("id {id} is there twice"));
                }
            }
        }
        if let Some(next) = table.next().get(guard) {
            let early = &next.buckets()[2 * position..][..2];
            if early.iter().any(|bucket| bucket.tags().occupied().next().is_some()) {
                return Err(format!("bucket {position} has not moved, but its halves are in use"));
            }
        }
        cursor = table.end_of(position);
    }
    Ok(ids.len())
}

/// The ids of one bucket with their hashes; an error if a tag does not fit.
fn entries(bucket: &Bucket, store: &impl HashOf) -> Result<Vec<(u32, u32)>, String> {
    let tags = bucket.tags();
    let mut entries = Vec::new();
    for slot in 0..SLOTS {
        let (tag, id) = (tags.get(slot), bucket.id(slot));
        if (tag == 0) != (id == NIL) {
            return Err(format!("slot {slot} has tag {tag:#x} and id {id}"));
        }
        if id != NIL {
            let hash = store.hash(id);
            if tag != tag_of(hash) {
                return Err(format!("id {id} with hash {hash:#x} has tag {tag:#x}"));
            }
            entries.push((id, hash));
        }
    }
    Ok(entries)
}
