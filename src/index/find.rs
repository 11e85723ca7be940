//! Reading: no lock, no write.

use crate::epoch::Guard;
use crate::hash::Hash32;

use super::bucket::{Bucket, fingerprint_of};
use super::memory::Chain;
use super::state::Index;
use crate::links::NodeId;
use crate::primitives::seeded;
use std::ops::ControlFlow::{self, Break, Continue};

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
            let chain = chain.in_use(ctrl);
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
