//! Tests of the memory of the board.

use super::*;

/// The memory of many flights at once is not kept for ever.
#[test]
fn a_shard_that_has_no_flights_any_more_keeps_little_room() {
    let board = Board::new();
    let shard = board.shard(Hash32::from_raw(0));
    let buckets = || shard.table.lock().entries.num_buckets();
    for (count, kept) in [(KEPT / 2, KEPT), (1000, 1), (2, KEPT)] {
        let flights: Vec<_> = (0..count as u32).map(Hash32::from_raw).map(Arc::new).collect();
        for flight in &flights {
            let (seen, _) = shard.snapshot(**flight);
            shard.try_insert(**flight, Arc::clone(flight), seen).expect("nothing is new");
        }
        let (first, others) = flights.split_first().expect("there are some");
        assert!(others.iter().all(|flight| shard.remove(**flight, flight)));
        assert!(buckets() >= count, "one is left");
        assert!(shard.remove(**first, first));
        assert!(buckets() <= kept, "{} buckets after {count} flights", buckets());
    }
}
