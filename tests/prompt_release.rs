//! Few operations, and no scheduler: what has left the cache is dropped all the same. In a process
//! of its own, since all caches share the epoch.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::{Audited, audited};
use cortado::{Cache, Clock, ManualClock};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The tests run one after the other, since all caches share the epoch.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value in a cache, which is not dropped at first.
struct Bench {
    cache: Audited<u32, Arc<()>>,
    value: Arc<()>,
    hand: ManualClock,
}

fn bench(heavy: bool) -> Bench {
    let (clock, hand) = Clock::manual();
    // An index that grows would retire a table, and its passes advance the epoch.
    let builder = Cache::builder().initial_capacity(1_000).clock(clock);
    let builder = if heavy { builder.max_capacity(10_000).weigher(|_, _| 700) } else { builder };
    let (cache, value) = (audited(builder.build()), Arc::new(()));
    cache.insert_with_ttl(0, Arc::clone(&value), Duration::from_secs(1));
    cache.run_pending_tasks();
    Bench { cache, value, hand }
}

impl Bench {
    fn is_dropped(&self) -> bool {
        Arc::strong_count(&self.value) == 1
    }
}

/// Writes that remove nothing, writes that are urgent, and reads.
#[test]
fn two_later_operations_drop_an_expired_value() {
    let _alone = alone();
    for (reads, heavy) in [(false, false), (false, true), (true, false)] {
        let b = bench(heavy);
        for n in 1..=2 {
            assert!(!b.is_dropped());
            b.hand.advance(Duration::from_secs(2));
            if reads {
                assert!(b.cache.get(&n).is_none());
            } else {
                b.cache.insert(n, Arc::new(()));
            }
        }
        assert!(b.is_dropped(), "reads: {reads}, heavy: {heavy}");
    }
}

/// The first of the two need not be the first operation in a while.
#[test]
fn a_removed_value_is_dropped_by_the_next_operation() {
    let _alone = alone();
    let b = bench(false);
    for (later, key) in [(10, 1), (5, 0), (100, 2)] {
        b.hand.advance(ms(later));
        if key == 0 {
            b.cache.invalidate(&0);
        } else {
            b.cache.insert(key, Arc::new(()));
        }
    }
    assert!(b.is_dropped());
}

/// Each write runs a pass, and none comes long after another.
#[test]
fn a_stream_of_writes_drops_an_expired_value() {
    let _alone = alone();
    let b = bench(false);
    b.hand.advance(Duration::from_secs(1));
    for n in 1..=10 {
        b.hand.advance(ms(10));
        b.cache.insert(n, Arc::new(()));
    }
    assert!(b.is_dropped());
}
