//! Reading: no lock, no write.

use crossbeam_epoch::Guard;

use super::bucket::tag_of;
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
        let Some((_, chain)) = Chain::open(table.home(hash)) else {
            table = table.successor(guard);
            continue;
        };
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
fn scan(chain: Chain<'_>, tag: u8, gone: &mut u32, probe: &mut impl FnMut(u32) -> Probe) -> Scan {
    for bucket in chain {
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
