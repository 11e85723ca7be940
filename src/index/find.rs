//! Reading: no lock, no write.

use crate::epoch::Guard;

use super::bucket::{Bucket, tag_of};
use super::memory::{Chain, Root};
use crate::links::NIL;
use crate::sync::seeded;

/// What the caller finds when it looks at a node whose tag matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The node of another key.
    Other,
    /// The key's node.
    Hit,
    /// The key's node, but it has been removed or replaced.
    Gone,
}

/// What one look at a home bucket says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glimpse {
    /// This node is the key's, or another must be looked for [at length](find).
    Candidate(u32),
    /// There is no entry.
    Absent,
    /// The bucket does not tell.
    Unsettled,
}

/// See [`Index::glimpse`](super::Index::glimpse).
#[inline(always)]
pub fn glimpse(root: &Root, guard: &Guard, hash: u32) -> Glimpse {
    let home = root.current(guard).home(hash);
    let Some((ctrl, _)) = Chain::open(home) else {
        return if seeded("index_glimpse_at_moved") { Glimpse::Absent } else { Glimpse::Unsettled };
    };
    match home.tags_beside(ctrl).matching(tag_of(hash)).next() {
        Some(slot) => match home.id(slot) {
            NIL => Glimpse::Unsettled,
            id => Glimpse::Candidate(id),
        },
        None if !ctrl.overflows() => Glimpse::Absent,
        None => Glimpse::Unsettled,
    }
}

enum Scan {
    Hit(u32),
    Miss,
    /// A node was gone that was not known to be.
    Again,
}

/// See [`Index::find`](super::Index::find).
#[inline(always)]
pub fn find(
    root: &Root,
    guard: &Guard,
    hash: u32,
    mut probe: impl FnMut(u32) -> Probe,
) -> Option<u32> {
    let tag = tag_of(hash);
    let mut table = root.current(guard);
    let mut gone = NIL;
    loop {
        let Some((ctrl, chain)) = Chain::open(table.home(hash)) else {
            table = table.successor(guard);
            continue;
        };
        let chain = chain.in_use(ctrl);
        let mut result = scan(chain.clone(), tag, &mut gone, &mut probe);
        if seeded("index_gone_without_moved_check") && matches!(result, Scan::Again) {
            result = scan(chain, tag, &mut gone, &mut probe);
        }
        match result {
            Scan::Hit(id) => return Some(id),
            Scan::Miss => return None,
            Scan::Again => {}
        }
    }
}

/// Looks for an entry in one chain. `gone` is the node that the last scan found gone, and will be
/// the one that this scan does; if it is the same, there is no entry (rule 5 of the
/// [module](super)).
#[inline(always)]
fn scan<'g>(
    buckets: impl Iterator<Item = &'g Bucket>,
    tag: u8,
    gone: &mut u32,
    probe: &mut impl FnMut(u32) -> Probe,
) -> Scan {
    for bucket in buckets {
        for slot in bucket.tags().matching(tag) {
            let id = bucket.id(slot);
            if id == NIL {
                continue;
            }
            match probe(id) {
                Probe::Other => {}
                Probe::Hit => return Scan::Hit(id),
                Probe::Gone if *gone == id || seeded("index_gone_is_a_miss") => return Scan::Miss,
                Probe::Gone => {
                    *gone = id;
                    return Scan::Again;
                }
            }
        }
    }
    Scan::Miss
}
