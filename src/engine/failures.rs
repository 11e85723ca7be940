//! The last failure of each entry's reloads, for those who ask.
//!
//! A record names its node and the time of that node's writing, and counts on nothing: it keeps no
//! key and no value. So a record may outlive its node. Such records go when the table has doubled.

use crate::clock::Timestamp;
use crate::links::NodeId;
use crate::loaded::NoValue;
use crate::primitives::Mutex;
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

struct Record {
    /// When the entry's value was written.
    created: Timestamp,
    failed: Failed,
}

#[derive(Default)]
struct Table {
    records: HashMap<NodeId, Record>,
    next_cleaning: usize,
}

/// See the [module](self).
pub struct Failures(Mutex<Table>);

impl Failures {
    pub fn new() -> Self {
        Self(Mutex::new(Table { records: HashMap::new(), next_cleaning: FIRST_CLEANING }))
    }

    /// Notes a failure. `is_there` says whether the node of a record still is the one that was
    /// written then; it must not run user code.
    pub fn note(
        &self,
        (id, created): (NodeId, Timestamp),
        (reason, at): (Option<NoValue>, Timestamp),
        is_there: impl Fn(NodeId, Timestamp) -> bool,
    ) {
        let mut gone = Vec::new();
        let mut table = self.0.lock();
        if table.records.len() >= table.next_cleaning {
            // Errors are the user's, so their destructors run without the lock.
            gone.extend(table.records.extract_if(|&id, record| !is_there(id, record.created)));
            table.next_cleaning = (2 * table.records.len()).max(FIRST_CLEANING);
        }
        let before = table.records.get(&id).filter(|record| record.created == created);
        let times = before.map_or(0, |record| record.failed.times).saturating_add(1);
        let failed = Failed { reason, at, times };
        let replaced = table.records.insert(id, Record { created, failed });
        drop(table);
        drop((replaced, gone));
    }

    /// The failure of the node's last reload.
    pub fn of(&self, id: NodeId, created: Timestamp) -> Option<Failed> {
        let table = self.0.lock();
        let record = table.records.get(&id).filter(|record| record.created == created)?;
        Some(record.failed.clone())
    }

    /// Forgets the node's failures: a reload has succeeded.
    pub fn forget(&self, id: NodeId) {
        let mut table = self.0.lock();
        let removed = table.records.remove(&id);
        drop(table);
        drop(removed);
    }
}
