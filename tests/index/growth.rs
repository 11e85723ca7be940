//! Writers fill an unbounded cache: its index grows with them, on any number of hardware threads.
//! (`CORTADO_STRIPES` makes the cache behave as on machines with more of them; `.ci/deep/stripes`
//! runs this with 16.)

use crate::common::audited::{Audited, audited};
use crate::common::effort::share;
use cortado::Cache;

/// A bucket has room for ten entries without an overflow, and the index is made for seven.
const MOST: usize = 14;

#[test]
fn the_index_keeps_up_with_its_writers() {
    const THREADS: u64 = 8;
    let each = share(40_000).max(10_000);
    let cache: Audited<u64, u64> = audited(Cache::builder().build());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || (0..each).for_each(|n| cache.insert(n * THREADS + thread, n)));
        }
    });
    // Before anybody has asked for a pass.
    let (buckets, _) = cache.overflows();
    let entries = (THREADS * each) as usize;
    assert!(entries <= MOST * buckets, "{entries} entries in {buckets} buckets");
    cache.audit();
}
