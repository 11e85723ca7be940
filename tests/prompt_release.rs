//! Few operations, and no scheduler: what has left the cache is dropped all the same. In a process
//! of its own, since all caches share the epoch.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::audited;
use cortado::{Cache, Clock};
use std::sync::Arc;
use std::time::Duration;

/// Writes that remove nothing, and reads.
#[test]
fn two_later_operations_drop_an_expired_value() {
    for writes in [true, false] {
        let (clock, hand) = Clock::manual();
        // An index that grows would retire a table, and its passes advance the epoch.
        let cache = audited(Cache::builder().initial_capacity(1_000).clock(clock).build());
        let value = Arc::new(());
        cache.insert_with_ttl(0, value.clone(), Duration::from_secs(1));
        cache.run_pending_tasks();
        for n in 1..=3 {
            hand.advance(Duration::from_secs(2));
            if writes {
                cache.insert(n, Arc::new(()));
            } else {
                assert!(cache.get(&n).is_none());
            }
        }
        assert_eq!(Arc::strong_count(&value), 1, "writes: {writes}");
    }
}
