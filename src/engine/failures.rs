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

#[cfg(all(test, not(cortado_loom)))]
mod tests {
    use super::*;

    #[test]
    fn records_of_nodes_that_are_gone_do_not_pile_up() {
        let failures = Failures::new();
        let at = Timestamp::from_raw(7);
        for n in 1..100_000 {
            let is_there = |id: NodeId, _| id.raw() + 100 > n;
            failures.note((NodeId::from_raw(n), at), (None, at), is_there);
            let records = failures.0.lock().records.len();
            assert!(records <= 201, "{records} records of 100 nodes");
        }
    }

    #[test]
    fn a_record_is_of_one_writing_of_a_node() {
        let failures = Failures::new();
        let (id, at) = (NodeId::from_raw(1), |n| Timestamp::from_raw(n));
        for times in 1..4 {
            failures.note((id, at(7)), (None, at(times)), |_, _| true);
            let failed = failures.of(id, at(7)).expect("it has failed");
            assert_eq!((u64::from(failed.times), failed.at), (times, at(times)));
        }
        assert!(failures.of(id, at(8)).is_none());
        failures.note((id, at(8)), (None, at(9)), |_, _| true);
        assert_eq!(failures.of(id, at(8)).map(|failed| failed.times), Some(1));
        failures.forget(id);
        assert!(failures.of(id, at(8)).is_none());
    }
}
