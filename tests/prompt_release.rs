//! Few operations, and no scheduler: what has left the cache is dropped all the same. In a process
//! of its own, since all caches share the epoch.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::{Audited, audited};
use common::crowd::stripes;
use cortado::{Cache, Clock, ManualClock};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
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

std::thread_local! {
    static DROPS: Cell<u32> = const { Cell::new(0) };
}

/// Values that exist.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

struct Counted;

impl Counted {
    fn new() -> Self {
        ALIVE.fetch_add(1, Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
        DROPS.set(DROPS.get() + 1);
    }
}

/// Two threads replace the values of so many keys, ten times each; both write at about the same
/// pace. Returns how many values were dropped in calls that drop a few, and in other calls.
fn update_all(cache: &Cache<u32, Counted>, keys: u32) -> [u32; 2] {
    const PACE: u32 = 16;
    const FEW: u32 = 7;
    let meeting = Barrier::new(2);
    let update = &|first: u32| {
        let mut dropped = [0; 2];
        for round in 0..5 * keys / PACE {
            meeting.wait();
            for n in 0..PACE {
                DROPS.set(0);
                let key = (round * PACE + n) * 2 + first;
                cache.insert(key % keys, Counted::new());
                dropped[usize::from(DROPS.get() > FEW)] += DROPS.get();
            }
        }
        dropped
    };
    let (one, other) = std::thread::scope(|scope| {
        // Two new threads that begin together do not share a stripe of the write buffer.
        let [one, other] = [0, 1].map(|first| scope.spawn(move || update(first)));
        (one.join().unwrap(), other.join().unwrap())
    });
    [one[0] + other[0], one[1] + other[1]]
}

/// While two threads write in a steady flow, each write drops a few values. What is left at the end
/// of the flow is dropped by the next operations, reads too.
#[test]
fn writers_drop_a_few_values_each() {
    const ENTRIES: u32 = 20_000;
    let _alone = alone();
    for reads in [false, true] {
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder().max_capacity(u64::from(ENTRIES));
        let builder = builder.initial_capacity(ENTRIES as usize);
        let cache: Audited<u32, Counted> = audited(builder.clock(clock).build());
        let [few, many] = update_all(&cache, ENTRIES);
        // A machine with one core has one stripe, and takes all writers for one.
        assert!(few > 3 * many || stripes() == 1, "{few} values were dropped a few at a time, {many} were not");
        for n in 0..5 {
            hand.advance(ms(20));
            if reads {
                assert!(cache.pin().get(&n).is_some());
            } else {
                cache.insert(n, Counted::new());
            }
        }
        // The write of a moment ago.
        let replaced = u32::from(!reads);
        assert!(ALIVE.load(Relaxed) <= (ENTRIES + replaced) as usize);
        drop(cache);
        assert_eq!(ALIVE.load(Relaxed), 0);
    }
}

/// The same if all values have come through their grace period, and wait for writers only.
#[test]
fn what_writers_have_not_dropped_is_dropped_by_the_next_reads() {
    const ENTRIES: u32 = 1_600;
    let _alone = alone();
    for fresh in (64..1_000).step_by(64) {
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder().initial_capacity(10_000);
        let cache: Audited<u32, Counted> = audited(builder.clock(clock).build());
        update_all(&cache, ENTRIES);
        for n in 0..fresh {
            cache.insert(ENTRIES + n, Counted::new());
        }
        for n in 0..5 {
            hand.advance(ms(20));
            assert!(cache.pin().get(&n).is_some());
        }
        assert_eq!(ALIVE.load(Relaxed), (ENTRIES + fresh) as usize, "after {fresh} inserts");
        drop(cache);
    }
}
