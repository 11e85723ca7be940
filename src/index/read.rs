//! Reading: no lock, no write. Finding the node of a key, and walking through all entries in the
//! order of their hashes.

use crate::epoch::Guard;
use crate::hash::Hash32;

use super::bucket::{Bucket, fingerprint_of};
use super::memory::Chain;
use super::state::Index;
use super::table::{HashOf, Table};
use crate::links::NodeId;
use crate::primitives::seeded;
use std::ops::ControlFlow::{self, Break, Continue};
use std::ops::Range;

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/index_audit.rs"]
mod audit;

/// All hashes are below this value.
const END: u64 = 1 << 32;

/// The cursor that begins at this number; `None` if all hashes are below it.
fn cursor_at(number: u64) -> Option<Hash32> {
    u32::try_from(number).ok().map(Hash32::from_raw)
}

/// The caller's verdict on a node whose fingerprint matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The node of another key.
    Other,
    /// The key's node.
    Hit,
    /// The key's node, but it has been removed or replaced.
    Gone,
}

/// The result of one look at a home bucket, for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeLookup {
    /// Either this node is the key's, or [`Index::find`] must search for another one.
    Candidate(NodeId),
    /// There is no entry.
    Absent,
    /// The home bucket alone does not tell.
    Incomplete,
}

impl Index {
    /// Finds the node of a key. Lock-free.
    ///
    /// `probe` is called for nodes whose fingerprint matches the hash. An entry that is present all
    /// the time is found, even while its id is replaced or its bucket moves.
    #[inline(always)]
    pub fn find(
        &self,
        guard: &Guard,
        hash: Hash32,
        mut probe: impl FnMut(NodeId) -> Probe,
    ) -> Option<NodeId> {
        let fingerprint = fingerprint_of(hash);
        let mut table = self.current(guard);
        let mut gone = NodeId::NONE;
        loop {
            let Some((ctrl, chain)) = Chain::open(table.home(hash)) else {
                table = table.successor(guard);
                continue;
            };
            // Without the bit there is no entry in the overflow (rule 11).
            let chain = chain.take(if ctrl.overflows() { usize::MAX } else { 1 });
            let mut result = scan(chain.clone(), fingerprint, &mut gone, &mut probe);
            if seeded("index-gone-without-moved-check") && result.is_continue() {
                result = scan(chain, fingerprint, &mut gone, &mut probe);
            }
            if let Break(found) = result {
                return found;
            }
        }
    }

    /// Looks at the home bucket only, without examining nodes and without a loop. Returns the node
    /// that most likely is the key's, or the certainty that there is none. [`find`](Self::find)
    /// resolves the remaining cases.
    #[inline(always)]
    pub fn lookup_home(&self, guard: &Guard, hash: Hash32) -> HomeLookup {
        let home = self.current(guard).home(hash);
        let Some((ctrl, _)) = Chain::open(home) else {
            return if seeded("index-glimpse-at-moved") {
                HomeLookup::Absent
            } else {
                HomeLookup::Incomplete
            };
        };
        match home.fingerprints_beside(ctrl).matching(fingerprint_of(hash)).next() {
            Some(slot) => match home.id(slot) {
                NodeId::NONE => HomeLookup::Incomplete,
                id => HomeLookup::Candidate(id),
            },
            None if !ctrl.overflows() => HomeLookup::Absent,
            None => HomeLookup::Incomplete,
        }
    }

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

/// Searches one chain for an entry. On entry `gone` is the node that the previous scan found gone;
/// on exit, the node that this scan found gone. If both are the same node, there is no entry (rule
/// 5 of the [module](super)). Goes on if a node was gone that the previous scan had not found gone.
#[inline(always)]
fn scan<'g>(
    buckets: impl Iterator<Item = &'g Bucket>,
    fingerprint: u8,
    gone: &mut NodeId,
    probe: &mut impl FnMut(NodeId) -> Probe,
) -> ControlFlow<Option<NodeId>> {
    for bucket in buckets {
        for slot in bucket.fingerprints().matching(fingerprint) {
            let id = bucket.id(slot);
            if id == NodeId::NONE {
                continue;
            }
            match probe(id) {
                Probe::Other => {}
                Probe::Hit => return Break(Some(id)),
                Probe::Gone if *gone == id || seeded("index-gone-is-a-miss") => return Break(None),
                Probe::Gone => {
                    *gone = id;
                    return Continue(());
                }
            }
        }
    }
    Break(None)
}
