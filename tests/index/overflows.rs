//! Buckets of the index that were full some day do not keep the memory that they needed then.

use crate::common::audited::audited;
use crate::common::effort::share;
use cortado::{Cache, Clock};

/// In a whole run, three hundred times as many entries as there is room for. At any moment one
/// bucket in ten is more than full; each has been some day. Of 512 buckets 115 have an overflow in
/// the end; if none were taken off, 511.
#[test]
fn overflows_do_not_pile_up() {
    const CAPACITY: u64 = 3_000;
    let (clock, _hand) = Clock::manual();
    let builder = Cache::<u64, u64>::builder().max_capacity(CAPACITY);
    let cache = audited(builder.clock(clock).build());
    (0..share(300).max(60) * CAPACITY).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let (buckets, overflows) = cache.overflows();
    assert!(buckets as u64 * 10 > CAPACITY, "{buckets} buckets");
    assert!(overflows * 5 < buckets * 2, "{overflows} of {buckets} buckets have an overflow");
}
