//! When passes run, and how much they do: by a clock that stands unless it is moved. One test at a
//! time, for they count what is released, which the guards of others would hold up.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::{Audited, audited};
use common::{MINUTE, Tested, tested};
use cortado::{Cache, Clock, Op, RemovalCause};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for what must come. Only a failure takes so long.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long a cache that is written to goes without a pass.
const QUIET: Duration = Duration::from_millis(1);
const BIT: Duration = Duration::from_nanos(1);

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it never holds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A pass is what brings the count of the entries up to date.
#[test]
fn operations_run_a_pass_when_it_is_due_and_not_before() {
    let _alone = alone();
    for counts in [false, true] {
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder().clock(clock).record_stats(counts);
        let cache: Audited<u32, u32> = audited(builder.build());
        let read = || {
            for _ in 0..100 {
                assert_eq!((cache.get(&1), cache.get(&100)), (Some(1), None));
                assert_eq!(cache.get_entry(&1).map(|entry| *entry), Some(1));
            }
        };
        cache.insert(1, 1);
        read();
        hand.advance(QUIET - BIT);
        read();
        assert_eq!(cache.entry_count(), 0, "the write waits for others");
        hand.advance(BIT);
        read();
        assert_eq!(cache.entry_count(), 1, "for a millisecond");
        // Nor is what was due once due for ever.
        cache.insert(2, 2);
        read();
        assert_eq!(cache.entry_count(), 1);
        hand.advance(QUIET);
        cache.insert(3, 3);
        assert_eq!(cache.entry_count(), 3, "a write looks after those before it");
        hand.advance(QUIET);
        cache.insert(4, 4);
        assert_eq!(cache.entry_count(), 4, "the first after a while does not wait");
        cache.insert(5, 5);
        assert_eq!(cache.entry_count(), 4);
    }
}

/// On any machine: the stripes of a small cache are fewer than those of a
/// large one. Otherwise each of them would have room for one write, and every write would run a
/// pass.
#[test]
fn writes_into_a_small_cache_wait_for_a_batch() {
    let _alone = alone();
    for (capacity, batch) in [(64, 2), (128, 4), (1000, 15), (10_000, 39)] {
        let (clock, _) = Clock::manual();
        let cache: Audited<u32, u32> =
            audited(Cache::builder().clock(clock).max_capacity(capacity).build());
        cache.run_pending_tasks();
        for key in 1..batch {
            cache.insert(key, key);
            assert_eq!(cache.entry_count(), 0, "{capacity}: write {key} runs a pass");
        }
        (0..batch * 10).for_each(|key| cache.insert(1000 + key, key));
        assert!(cache.entry_count() > u64::from(batch), "{capacity}: no pass");
    }
}

#[test]
fn writes_wait_for_a_batch_when_the_cache_was_turned_on_later() {
    let _alone = alone();
    let (clock, _) = Clock::manual();
    let cache: Audited<u32, u32> = audited(Cache::builder().clock(clock).max_capacity(0).build());
    cache.run_pending_tasks();
    cache.set_max_capacity(1_000_000);
    cache.run_pending_tasks();
    (1..16).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.entry_count(), 0, "a write runs a pass");
    (16..1000).for_each(|key| cache.insert(key, key));
    assert!(cache.entry_count() > 900);
}

/// Maintenance in slices evicts as many entries as a slice has units, beside those that make room
/// for recorded writes.
#[test]
fn a_lower_capacity_displaces_entries_piece_by_piece() {
    const CAPACITY: u64 = 60_000;
    const BEYOND: u64 = 40_000;
    const UNITS: u64 = 1000;
    let _alone = alone();
    let cache: Tested<u32, u32> =
        tested(|builder| builder.max_capacity(CAPACITY).weigher(|_, &weight| weight));
    cache.insert(0, 1);
    for key in 1..CAPACITY as u32 {
        cache.insert(key, 1);
        // In favour, so that its successor is not the one to go.
        if key % 64 == 0 {
            assert_eq!(cache.get(&0), Some(1));
        }
    }
    cache.settle();
    assert_eq!(cache.weighted_size(), CAPACITY);
    cache.set_max_capacity(CAPACITY - BEYOND);
    let (mut before, mut slices) = (cache.stats().removed(RemovalCause::Size), 0);
    loop {
        let pending = cache.run_pending_tasks_up_to(UNITS as usize);
        let removed = cache.stats().removed(RemovalCause::Size);
        assert!(removed - before <= UNITS, "{} at once", removed - before);
        before = removed;
        slices += 1;
        assert_eq!(pending.excess_weight, cache.weighted_size().saturating_sub(CAPACITY - BEYOND));
        if pending.excess_weight == 0 {
            break;
        }
    }
    assert!(slices >= BEYOND / UNITS, "{slices}");
}

/// A slice of one unit evicts one entry.
#[test]
fn a_unit_is_an_eviction() {
    let _alone = alone();
    let cache: Tested<u32, u32> = tested(|builder| builder.max_capacity(100));
    (0..100).for_each(|key| cache.insert(key, key));
    cache.settle();
    cache.set_max_capacity(90);
    let before = cache.stats().removed(RemovalCause::Size);
    for slices in 1..=5 {
        assert!(!cache.run_pending_tasks_up_to(1).is_done());
        assert_eq!(cache.stats().removed(RemovalCause::Size) - before, slices);
    }
    assert!(!cache.run_pending_tasks_up_to(0).is_done());
    assert_eq!(cache.stats().removed(RemovalCause::Size) - before, 5);
}

/// Runs `then` while the keys are being computed.
fn within_computations(cache: &Cache<u32, u32>, keys: &[u32], then: &dyn Fn()) {
    match keys {
        [] => then(),
        [key, rest @ ..] => {
            cache.entry(*key).and_compute_with(|_| {
                within_computations(cache, rest, then);
                Op::Nop
            });
        }
    }
}

/// Entries that computations hold are passed over, up to sixteen in a pass.
#[test]
fn the_next_to_go_may_be_held_and_others_go() {
    const CAPACITY: u32 = 1000;
    let _alone = alone();
    let cache: Tested<u32, u32> =
        tested(|builder| builder.max_capacity(CAPACITY.into()).weigher(|_, &weight| weight));
    cache.insert(0, 1);
    for key in 1..CAPACITY {
        cache.insert(key, 1);
        assert_eq!(cache.get(&0), Some(1));
    }
    cache.settle();
    let held: Vec<u32> = (1..=15).collect();
    within_computations(&cache, &held, &|| {
        cache.insert(0, CAPACITY / 2);
        cache.cache.run_pending_tasks();
        assert!(cache.weighted_size() <= CAPACITY.into(), "{} is left", cache.weighted_size());
    });
    assert!(held.iter().all(|key| cache.contains_key(key)));
    assert!(cache.contains_key(&0));
}

/// An entry that is moved in the wheel is a unit of work.
#[test]
fn entries_far_from_their_end_are_moved_in_slices() {
    const ENTRIES: u32 = 20_000;
    const UNITS: usize = 100;
    let _alone = alone();
    let cache: Tested<u32, u32> = tested(|builder| builder.time_to_live(1440 * MINUTE));
    (0..ENTRIES).for_each(|key| cache.insert(key, key));
    cache.settle();
    let mut slices = 0;
    // Down all levels of the wheel, to the last minute.
    for _ in 0..1439 {
        cache.hand.advance(MINUTE);
        while cache.run_pending_tasks_up_to(UNITS).expirations {
            slices += 1;
        }
    }
    assert_eq!(cache.entry_count(), u64::from(ENTRIES));
    // Looks cost 64 units at once, so a slice is as much more at most.
    let least = ENTRIES as usize / (UNITS + 64);
    assert!(slices >= least, "{slices} slices, {least} at least");
}

/// What a pass leaves undone the next operation takes up, though no time passes and nobody writes.
#[test]
fn reads_go_on_with_a_sweep() {
    let _alone = alone();
    let (clock, _hand) = Clock::manual();
    let cache: Audited<u32, u32> = audited(Cache::builder().clock(clock).build());
    (0..20_000).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    cache.invalidate_all();
    assert!(cache.entry_count() > 15_000, "it is more than one operation's share");
    for _ in 0..5000 {
        assert_eq!(cache.get(&0), None);
    }
    assert_eq!(cache.entry_count(), 0);
}

#[test]
fn all_maintenance_is_all_maintenance() {
    let _alone = alone();
    let value = Arc::new(0);
    let (clock, _hand) = Clock::manual();
    let cache: Audited<u32, Arc<u32>> = audited(Cache::builder().clock(clock).build());
    (0..20_000).for_each(|key| cache.insert(key, Arc::clone(&value)));
    cache.run_pending_tasks();
    assert_eq!(Arc::strong_count(&value), 20_001);
    // One among many, who would wait for others of its kind.
    cache.invalidate(&0);
    cache.run_pending_tasks();
    assert_eq!(Arc::strong_count(&value), 20_000);
    cache.invalidate_all();
    cache.run_pending_tasks();
    assert_eq!((cache.entry_count(), Arc::strong_count(&value)), (0, 1));
}

#[test]
fn the_scheduler_finishes_a_sweep_by_itself() {
    let _alone = alone();
    let value = Arc::new(0);
    let cache: Audited<u32, Arc<u32>> = audited(Cache::builder().scheduler(true).build());
    (0..20_000).for_each(|key| cache.insert(key, Arc::clone(&value)));
    cache.run_pending_tasks();
    cache.invalidate_all();
    wait_until(|| cache.entry_count() == 0 && Arc::strong_count(&value) == 1);
}

/// By a clock of the user's, which is read in every pass.
#[test]
fn the_scheduler_lets_a_cache_alone_that_has_nothing_to_do() {
    /// Such a clock is read once in this time.
    const PERIOD: Duration = Duration::from_secs(1);
    let _alone = alone();
    let readings = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&readings);
    let clock = Clock::custom(move || Duration::from_nanos(count.fetch_add(1, SeqCst)));
    let cache: Audited<u32, Arc<u32>> =
        audited(Cache::builder().scheduler(true).clock(clock).removal_listener(drop).build());
    let value = Arc::new(0);
    for key in 0..100 {
        cache.insert_with_ttl(key, Arc::clone(&value), MINUTE);
        cache.insert_with_ttl(key, Arc::clone(&value), MINUTE);
    }
    cache.run_pending_tasks();
    wait_until(|| Arc::strong_count(&value) == 101);
    // What was on its way when the last value was dropped.
    std::thread::sleep(Duration::from_millis(50));
    let (before, begun) = (readings.load(SeqCst), Instant::now());
    std::thread::sleep(Duration::from_millis(400));
    let read = readings.load(SeqCst) - before;
    let periods = begun.elapsed().as_nanos().div_ceil(PERIOD.as_nanos()) as u64;
    assert!(read <= 10 * periods, "{read} readings in {periods} periods");
}

/// What is asked for is done: also what is due within the tick in which the wheel's clock is.
#[test]
fn run_pending_tasks_removes_all_that_is_due_by_now() {
    for resolution in [None, Some(Duration::from_millis(1))] {
        let cache: Tested<u32, u32> = tested(|builder| match resolution {
            Some(resolution) => builder.expiry_resolution(resolution),
            None => builder,
        });
        let nano = Duration::from_nanos(1);
        for step in 0..200_u32 {
            cache.insert_with_ttl(2 * step, 0, nano * (step + 1));
            cache.insert_with_ttl(2 * step + 1, 0, nano * (step + 2));
            cache.hand.advance(nano * (step + 1));
            cache.settle();
            assert_eq!(
                cache.causes(),
                [(2 * step, RemovalCause::Expired)],
                "and nothing before its time"
            );
            assert_eq!(cache.entry_count(), 1);
            cache.invalidate(&(2 * step + 1));
            cache.settle();
            cache.causes();
        }
        cache.audit();
    }
}

/// Also one that keeps all it sees does its share.
#[test]
fn a_retain_that_keeps_everything_maintains() {
    let _alone = alone();
    type Retain = fn(&Cache<u32, u32>);
    let by_task: Retain = |cache| pollster::block_on(cache.future().retain(|_, _| true));
    for retain in [(|cache| cache.retain(|_, _| true)) as Retain, by_task] {
        let cache: Tested<u32, u32> = tested(|builder| builder);
        (0..1000).for_each(|key| cache.insert_with_ttl(key, key, MINUTE));
        cache.hand.advance(2 * MINUTE);
        cache.insert(1000, 0);
        (0..1000).for_each(|_| retain(&cache));
        assert_eq!(cache.entry_count(), 1);
    }
}

/// Few removed entries beside many living ones, by the system's clock: a pass that a caller asked
/// for moves their grace period on.
#[test]
fn a_request_in_steps_ends_however_little_was_removed() {
    let _alone = alone();
    for weight in [0, 1] {
        let cache: Audited<u32, u32> =
            audited(Cache::builder().weigher(move |_, _| weight).build());
        (0..1_000).for_each(|key| cache.insert(key, key));
        cache.run_pending_tasks();
        (0..10).for_each(|key| cache.invalidate(&key));
        let is_done = || cache.run_pending_tasks_up_to(100).is_done();
        assert!((0..100_000).any(|_| is_done()), "weight {weight}");
    }
}
