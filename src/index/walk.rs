//! Walking through all entries in the order of their hashes, and auditing them.

use std::collections::HashSet;
use std::ops::Range;

use crate::epoch::Guard;

use super::bucket::{SLOTS, tag_of};
use super::memory::{Chain, Root};
use super::table::{HashOf, Table};
use crate::links::NIL;
use crate::sync::seeded;

/// Hashes are below this.
const END: u64 = 1 << 32;

/// A bucket that has not moved, and the hashes whose entries it holds: all of them, from a cursor
/// on.
struct Place<'g> {
    table: &'g Table,
    position: usize,
    chain: Chain<'g>,
    hashes: Range<u64>,
}

impl Place<'_> {
    fn is_for(&self, hash: u32) -> bool {
        self.hashes.contains(&u64::from(hash))
    }
}

/// Where the entries with hashes from `cursor` on are, wherever they have moved.
///
/// A bucket of a smaller table takes the place of several, of which some may not have moved yet. So
/// what is known to be there ends with the first bucket on the way that ends.
fn open_at<'g>(root: &'g Root, guard: &'g Guard, cursor: u32) -> Place<'g> {
    let mut table = root.current(guard);
    let mut end = END;
    loop {
        let position = table.position(cursor);
        if !seeded("index_walk_strides_the_last") {
            end = end.min(table.end_of(position));
        }
        if let Some((_, chain)) = Chain::open(&table.buckets()[position]) {
            let hashes = u64::from(cursor)..end.min(table.end_of(position));
            return Place { table, position, chain, hashes };
        }
        table = table.successor(guard);
    }
}

/// See [`Index::collect`](super::Index::collect).
pub fn collect(
    root: &Root,
    guard: &Guard,
    store: &impl HashOf,
    cursor: u64,
    out: &mut Vec<u32>,
) -> Option<u64> {
    let place = open_at(root, guard, u32::try_from(cursor).ok()?);
    let is_wanted = |id: u32| {
        id != NIL && (place.is_for(store.hash(id)) || seeded("index_walk_takes_neighbours"))
    };
    for bucket in place.chain.clone() {
        let ids = bucket.tags().occupied().map(|slot| bucket.id(slot));
        out.extend(ids.filter(|&id| is_wanted(id)));
    }
    let next = if seeded("index_walk_strides_current") {
        let current = root.current(guard);
        current.end_of(current.position(cursor as u32))
    } else {
        place.hashes.end
    };
    (next < END).then_some(next)
}

/// See [`Index::validate`](super::Index::validate).
pub fn validate(root: &Root, guard: &Guard, store: &impl HashOf) -> Result<usize, String> {
    let mut ids = HashSet::new();
    let mut cursor = 0;
    while cursor < END {
        let place = open_at(root, guard, cursor as u32);
        let Place { table, position, .. } = place;
        let ctrl = table.buckets()[position].ctrl();
        if ctrl.is_locked() {
            return Err(format!("bucket {position} is locked"));
        }
        let mut overflow = place.chain.clone().skip(1);
        let overflows = overflow.any(|bucket| bucket.tags().occupied().next().is_some());
        if overflows != ctrl.overflows() {
            return Err(format!("bucket {position} overflows: {overflows}, but says otherwise"));
        }
        for (id, hash) in entries(place.chain.clone(), store)? {
            if table.position(hash) != position {
                return Err(format!("id {id} with hash {hash:#x} is in bucket {position}"));
            }
            if place.is_for(hash) && !ids.insert(id) {
                return Err(format!("id {id} is there twice"));
            }
        }
        check_next(&place, guard, store)?;
        cursor = place.hashes.end;
    }
    Ok(ids.len())
}

/// An error if the next table has entries of a bucket that has not moved there.
fn check_next(place: &Place<'_>, guard: &Guard, store: &impl HashOf) -> Result<(), String> {
    let Some(next) = place.table.next().get(guard) else { return Ok(()) };
    let hashes = &place.hashes;
    let last = next.position((hashes.end - 1) as u32);
    for home in &next.buckets()[next.position(hashes.start as u32)..=last] {
        let Some((_, chain)) = Chain::open(home) else {
            return Err(String::from("a bucket has moved on from a table that is not current"));
        };
        if entries(chain, store)?.iter().any(|&(_, hash)| place.is_for(hash)) {
            let position = place.position;
            return Err(format!(
                "bucket {position} has not moved, but the next table has its entries"
            ));
        }
    }
    Ok(())
}

/// The ids of a chain with their hashes; an error if a tag does not fit.
fn entries(chain: Chain<'_>, store: &impl HashOf) -> Result<Vec<(u32, u32)>, String> {
    let mut entries = Vec::new();
    for bucket in chain {
        let tags = bucket.tags();
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
    }
    Ok(entries)
}
