//! Tests of the table of failures.

use super::*;
use std::cell::Cell;

const NOW: Timestamp = Timestamp::from_raw(7);

#[test]
fn records_of_nodes_that_are_gone_do_not_pile_up() {
    let failures = Failures::default();
    let looks = Cell::new(0);
    for n in 1..100_000 {
        failures.note(NodeId::from_raw(n), None, NOW, &|id| {
            looks.set(looks.get() + 1);
            id.raw() + 100 > n
        });
        let records = failures.table.lock().records.len();
        assert!(records <= 201, "{records} records of 100 nodes");
        assert!(looks.get() <= 64 + 3 * n, "{looks:?} looks at {n} records");
    }
}

#[test]
fn a_record_is_of_one_life_of_a_node() {
    let failures = Failures::default();
    let id = NodeId::from_raw(1);
    let times = || failures.of(id).map(|failed| failed.times);
    for n in 1..4 {
        failures.note(id, None, NOW, &|_| true);
        assert_eq!(times(), Some(n));
    }
    failures.begin_life(id);
    assert_eq!(times(), None);
    failures.note(id, None, NOW, &|_| true);
    assert_eq!(times(), Some(1));
    failures.forget(id);
    assert_eq!(times(), None);
}
