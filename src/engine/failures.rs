//! The last failure of each entry's reloads, for those who ask.
//!
//! A record is of a node, by its id, and counts on nothing: it keeps no key and no value. So a
//! record may outlive its node. It goes when the id is given to another node
//! ([`Failures::begin_life`]), or when the table has doubled. A reload has a count on its node, so
//! its record is of that node.

use crate::clock::Timestamp;
use crate::links::NodeId;
use crate::loaded::NoValue;
use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::primitives::{Mutex, catch_user_panic, seeded};
use std::collections::HashMap;

/// The table is cleaned for the first time when it has this many records.
const FIRST_CLEANING: usize = 64;

/// A failed reload, and those before it that failed, too.
#[derive(Clone)]
pub struct Failed {
    /// `None` if the loader panicked.
    pub reason: Option<NoValue>,
    pub at: Timestamp,
    /// How many reloads in a row have failed.
    pub times: u32,
}

#[derive(Default)]
struct Table {
    records: HashMap<NodeId, Failed>,
    next_cleaning: usize,
}

/// Drops errors. Their destructors are the user's, and neither a reader nor an executor has called
/// that code. So a panic ends here.
fn drop_errors(failed: impl IntoIterator<Item = Failed>) {
    for failed in failed {
        catch_user_panic(|| drop(failed));
    }
}

/// See the [module](self).
#[derive(Default)]
pub struct Failures {
    table: Mutex<Table>,
    /// The number of records. Relaxed: whoever gives an id to a node has got it from the thread
    /// that freed it, which came after the record.
    len: AtomicUsize,
}

impl Failures {
    /// Notes a failure of a node on which the caller has a count. `is_there` says whether a node is
    /// still in the cache; it must not run user code.
    pub fn note(
        &self,
        id: NodeId,
        reason: Option<NoValue>,
        at: Timestamp,
        is_there: &dyn Fn(NodeId) -> bool,
    ) {
        let mut table = self.table.lock();
        let mut gone = Vec::new();
        if table.records.len() >= table.next_cleaning {
            gone.extend(table.records.extract_if(|&id, _| !is_there(id)).map(|(_, it)| it));
            table.next_cleaning = (2 * table.records.len()).max(FIRST_CLEANING);
        }
        let times = table.records.get(&id).map_or(0, |before| before.times).saturating_add(1);
        let replaced = table.records.insert(id, Failed { reason, at, times });
        self.len.store(table.records.len(), Relaxed);
        drop(table);
        drop_errors(replaced.into_iter().chain(gone));
    }

    /// Drops all records.
    pub fn end(&self) {
        let records = std::mem::take(&mut self.table.lock().records);
        drop_errors(records.into_values());
    }

    /// The failure of the node's last reload. The caller has a count on the node, or a guard
    /// protects it.
    pub fn of(&self, id: NodeId) -> Option<Failed> {
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        self.table.lock().records.get(&id).cloned()
    }

    /// Forgets the node's failures: a reload has succeeded.
    pub fn forget(&self, id: NodeId) {
        if self.len.load(Relaxed) == 0 {
            return;
        }
        let mut table = self.table.lock();
        let failed = table.records.remove(&id);
        self.len.store(table.records.len(), Relaxed);
        drop(table);
        drop_errors(failed);
    }

    /// Forgets the failures of the node that had this id before.
    pub fn begin_life(&self, id: NodeId) {
        if !seeded("failures-outlive-their-nodes") {
            self.forget(id);
        }
    }
}

#[cfg(all(test, not(cortado_loom)))]
#[path = "../whitebox/failures.rs"]
mod tests;
