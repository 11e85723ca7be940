//! White-box tests of the thresholds that maintenance passes use, each just below and just above
//! the threshold: the length of the policy's record period, and how many dead nodes one pass lets
//! go of. The clock is manual and stands still unless
//! a test moves it. Each pass is one that a caller runs in passing.

use super::alone;
use crate::cache::Cache;
use crate::clock::{Clock, ManualClock, Nanos};
use crate::engine::Core;
use crate::epoch::Grace;
use crate::hash::Hash32;
use crate::node::NO_PERIOD;
use crate::primitives::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Numbers = Cache<u32, u32>;

/// A cache whose values are the weights of their entries.
fn weighed(capacity: Option<u64>) -> (Numbers, ManualClock) {
    let (clock, hand) = Clock::manual();
    let mut builder = Cache::builder().clock(clock).weigher(|_, &weight| weight);
    if let Some(capacity) = capacity {
        builder = builder.max_capacity(capacity);
    }
    (builder.build(), hand)
}

fn core(cache: &Numbers) -> &Core {
    super::neighbour::start();
    &cache.engine().core
}

/// Runs a pass, as a caller does in passing.
fn pass(cache: &Numbers) {
    cache.engine().after_read();
}

const CAPACITY: u64 = 1600;

/// A full cache at the beginning of a record period.
fn full() -> Numbers {
    let (cache, _) = weighed(Some(CAPACITY));
    for key in 0..CAPACITY as u32 {
        cache.insert(key, 1);
        pass(&cache);
    }
    assert_eq!(cache.entry_count(), CAPACITY);
    next_record_period(&cache);
    cache
}

fn record_period(cache: &Numbers) -> u8 {
    core(cache).hot.record_period()
}

/// Reads the keys. A key that is in the cache and was not yet read in this record period is
/// recorded.
fn read(cache: &Numbers, keys: impl Iterator<Item = u32>) {
    for key in keys {
        let _ = cache.get(&key);
        pass(cache);
    }
}

/// Inserts this many entries beyond the capacity, which evicts as many.
fn evict(cache: &Numbers, entries: u32) {
    static NEXT: AtomicU32 = AtomicU32::new(1 << 20);
    for _ in 0..entries {
        cache.insert(NEXT.fetch_add(1, Relaxed), 1);
        pass(cache);
    }
}

/// The keys in the cache, sorted.
fn inside(cache: &Numbers) -> Vec<u32> {
    let mut keys: Vec<u32> = cache.entries().map(|entry| *entry.key()).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn nothing_is_recorded_with_more_than_an_eighth_of_the_room_free() {
    let (cache, _) = weighed(Some(800));
    cache.insert(1, 699);
    pass(&cache);
    assert_eq!(record_period(&cache), NO_PERIOD, "101 of 800 free");
    cache.insert(2, 1);
    pass(&cache);
    assert_eq!(record_period(&cache), 1, "100 of 800 free");
    cache.invalidate(&2);
    pass(&cache);
    assert_eq!(record_period(&cache), NO_PERIOD);
    cache.audit();
}

/// A record period ends when both have happened: more reads were recorded than a quarter of the
/// number of entries, and more entries were evicted than a 64th of that number.
#[test]
fn an_era_ends_by_reads_and_evictions() {
    let cache = full();
    let (quarter, share) = (CAPACITY as usize / 4, CAPACITY as u32 / 64);
    let begun = record_period(&cache);
    evict(&cache, share + 1);
    let keys = inside(&cache);
    read(&cache, keys[..quarter].iter().copied());
    assert_eq!(record_period(&cache), begun, "a quarter is not more than a quarter");
    read(&cache, keys[..quarter].iter().copied());
    assert_eq!(record_period(&cache), begun, "second reads are not recorded");
    read(&cache, keys[quarter..=quarter].iter().copied());
    assert_eq!(record_period(&cache), begun + 1);

    let begun = record_period(&cache);
    read(&cache, inside(&cache)[..2 * quarter].iter().copied());
    evict(&cache, share);
    assert_eq!(record_period(&cache), begun, "a 64th is not more than a 64th");
    evict(&cache, 1);
    assert_eq!(record_period(&cache), begun + 1);

    // After the last record period comes the first: the number `NO_PERIOD`, in which nothing is
    // recorded, is skipped.
    core(&cache).hot.set_record_period(u8::MAX);
    next_record_period(&cache);
    assert_eq!(record_period(&cache), 1);
    cache.audit();
}

/// Ends the record period, however far it had come.
fn next_record_period(cache: &Numbers) {
    let begun = record_period(cache);
    read(cache, inside(cache).into_iter());
    evict(cache, CAPACITY as u32 / 64);
    let mut more = 0..CAPACITY;
    while record_period(cache) == begun {
        assert!(more.next().is_some(), "the record period does not end");
        evict(cache, 1);
    }
}

/// An update counts like a read: it is recorded once per record period.
#[test]
fn updates_of_one_entry_are_one_record_and_of_many_are_many() {
    let cache = full();
    let begun = record_period(&cache);
    evict(&cache, CAPACITY as u32 / 32);
    let keys = inside(&cache);
    let update = |key| {
        cache.insert(key, 1);
        pass(&cache);
    };
    for _ in 0..CAPACITY {
        update(keys[0]);
    }
    read(&cache, keys[..1].iter().copied().cycle().take(CAPACITY as usize));
    assert_eq!(record_period(&cache), begun, "an entry is recorded once, read or updated");
    keys[1..CAPACITY as usize / 4].iter().for_each(|&key| update(key));
    assert_eq!(record_period(&cache), begun, "a quarter is not more than a quarter");
    update(keys[CAPACITY as usize / 4]);
    assert_eq!(record_period(&cache), begun + 1);
    cache.audit();
}

/// A cache with this many entries and no dead nodes.
fn settled(capacity: Option<u64>, entries: u32) -> (Numbers, ManualClock) {
    let (cache, hand) = weighed(capacity);
    settle(&cache, entries);
    (cache, hand)
}

fn settle(cache: &Numbers, entries: u32) {
    (0..entries).for_each(|key| cache.insert(key, 1));
    cache.run_pending_tasks();
    clean(cache);
}

fn clean(cache: &Numbers) {
    let begun = Instant::now();
    while unreclaimed(cache) > 0 || core(cache).index.retired_tables() > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "dead nodes and old tables are not let go of"
        );
        cache.run_pending_tasks();
        std::thread::yield_now();
    }
}

fn unreclaimed(cache: &Numbers) -> usize {
    core(cache).unreclaimed()
}

/// A pass begins a grace period for what has died, however little that is. What dies meanwhile
/// waits for the next one.
#[test]
fn the_dead_wait_for_this_grace_period_or_the_next() {
    let _alone = alone();
    let (cache, _hand) = settled(None, 6400);
    let grace = || core(&cache).upkeep().published.grace();
    let guard = crate::epoch::pin();
    cache.invalidate(&0);
    pass(&cache);
    let first = grace().expect("one is dead");
    assert!(!first.is_over());
    for key in 1..100 {
        cache.invalidate(&key);
        pass(&cache);
        assert_eq!(grace(), Some(first));
    }
    assert_eq!(unreclaimed(&cache), 100, "dead nodes count while they wait");
    let last = last_grace(core(&cache));
    assert!(
        Grace::to_word(Some(last)) <= Grace::to_word(Some(first)) + 1,
        "they wait for a later one than the next"
    );
    let batches = core(&cache).upkeep().lock().dead.len();
    assert!(batches <= 2, "{batches} batches for two grace periods");
    drop(guard);
    clean(&cache);
    assert_eq!(grace(), None);
    cache.audit();
}

/// While a node waits for its grace period, a pass is due 16 ms later.
#[test]
fn who_waits_is_looked_after() {
    let _alone = alone();
    let (cache, _hand) = settled(None, 50);
    let due = |after: u64| {
        let (hot, ticker) = (&core(&cache).hot, &core(&cache).ticker);
        hot.is_pass_due(ticker.now() + Nanos::from_raw(after))
    };
    assert!(!due(1 << 40), "no node waits and no entry expires");
    let guard = crate::epoch::pin();
    cache.invalidate(&0);
    pass(&cache);
    assert_eq!(unreclaimed(&cache), 1);
    assert!(due(16_000_000) && !due(15_999_999));
    drop(guard);
    clean(&cache);
    assert!(!due(1 << 40));
    cache.audit();
}

/// A scheduler comes sooner, but its thread or its runtime may be gone.
#[test]
fn with_a_scheduler_too() {
    let _alone = alone();
    let (clock, _hand) = Clock::manual();
    let cache: Numbers = Cache::builder().clock(clock).scheduler(true).build();
    (0..50).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let guard = crate::epoch::pin();
    cache.invalidate(&0);
    cache.run_pending_tasks();
    assert!(unreclaimed(&cache) > 0);
    let (hot, now) = (&core(&cache).hot, core(&cache).ticker.now());
    assert!(hot.is_pass_due(now + Nanos::from_raw(16_000_000)));
    drop(guard);
    clean(&cache);
    cache.audit();
}

/// Batches of dead nodes, each as large as they get.
const BATCH: u32 = 248;

/// A cache with ten batches of dead nodes whose grace period is over, and as many living entries:
/// the keys from `10 * BATCH` on.
fn with_dead() -> Numbers {
    const DEAD: u32 = 10 * BATCH;
    let cache: Numbers = Cache::builder().clock(Clock::manual().0).build();
    settle(&cache, 2 * DEAD);
    all_die(&cache, DEAD);
    cache
}

/// Removes the keys up to `dead`, and waits until their grace periods are over. No pass follows.
fn all_die<V: Clone + Send + Sync + 'static>(cache: &Cache<u32, V>, dead: u32) {
    let core = &cache.engine().core;
    let guard = crate::epoch::pin();
    (0..dead).for_each(|key| cache.invalidate(&key));
    while !core.upkeep().writes.is_empty() {
        pass_of(core);
    }
    assert_eq!(core.unreclaimed(), dead as usize);
    let last = last_grace(core);
    drop(guard);
    await_grace(last);
}

/// The last grace period that a dead node waits for.
fn last_grace(core: &Core) -> Grace {
    core.upkeep().lock().dead.back().and_then(|batch| batch.grace).expect("some are dead")
}

fn await_grace(grace: Grace) {
    let begun = Instant::now();
    while !crate::epoch::hasten(grace, u32::MAX) {
        assert!(begun.elapsed() < Duration::from_secs(30), "the grace period does not end");
        std::thread::yield_now();
    }
}

/// A pass lets go of at least 512 dead nodes. It exceeds that number by less than a batch of 248.
#[test]
fn a_pass_lets_go_of_so_many() {
    let _alone = alone();
    let cache = with_dead();
    let mut before = unreclaimed(&cache);
    for _ in 0..3 {
        pass(&cache);
        let given_up = before - unreclaimed(&cache);
        assert!((512..512 + BATCH as usize).contains(&given_up), "{given_up}");
        before -= given_up;
    }
    clean(&cache);
    cache.audit();
}

/// A pass that adds more than 512 dead nodes lets go of as many as it adds: they do not pile up.
#[test]
fn a_pass_lets_go_of_as_many_as_it_adds() {
    const ADDED: u32 = 800;
    let _alone = alone();
    let cache = with_dead();
    let before = unreclaimed(&cache);
    let state = core(&cache).upkeep().lock();
    // A stripe has room for fewer events. The others are spilled, since entries weigh 1 here.
    (10 * BATCH..10 * BATCH + ADDED).for_each(|key| cache.insert(key, 1));
    drop(state);
    pass(&cache);
    let added = ADDED as usize;
    let given_up = before + added - unreclaimed(&cache);
    assert!((added..added + BATCH as usize).contains(&given_up), "{given_up}");
    clean(&cache);
    cache.audit();
}

/// A value that counts its drops.
#[derive(Clone)]
struct Counted(&'static AtomicU32);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A caller drops the contents of 16 batches at most, whatever other threads' passes have left.
#[test]
fn a_caller_drops_so_many_values() {
    static DROPS: AtomicU32 = AtomicU32::new(0);
    const BATCHES: u32 = 40;
    let _alone = alone();
    let cache: Cache<u32, Counted> = Cache::builder().clock(Clock::manual().0).build();
    let (engine, core) = (cache.engine(), &cache.engine().core);
    (0..BATCHES * BATCH).for_each(|key| cache.insert(key, Counted(&DROPS)));
    cache.run_pending_tasks();
    all_die(&cache, BATCHES * BATCH);
    // As other threads would, which were preempted before they drop.
    (0..10).for_each(|_| pass_of(core));
    assert_eq!(DROPS.load(Relaxed), 0);
    engine.after_read();
    let dropped = DROPS.load(Relaxed);
    // A batch may be smaller than most.
    assert!((15 * BATCH..=16 * BATCH).contains(&dropped), "{dropped}");
    cache.run_pending_tasks();
    assert_eq!(DROPS.load(Relaxed), BATCHES * BATCH);
    cache.audit();
}

/// Runs a pass, and drops nothing.
fn pass_of(core: &Core) {
    let _left = core.pass_of_units(64);
}

/// A pass grows the index by a few buckets only. A request for all maintenance grows it to the end.
#[test]
fn a_growing_index_has_grown_when_all_is_done() {
    let (cache, _hand) = weighed(None);
    let grows = || core(&cache).index.is_moving(&crate::epoch::pin());
    let mut key = 0;
    while key < 10_000 || !grows() {
        assert!(key < 100_000, "the index does not grow");
        cache.insert(key, 1);
        key += 1;
    }
    pass(&cache);
    assert!(grows(), "the index has grown in one pass");
    cache.run_pending_tasks();
    assert!(!grows());
    cache.audit();
}

/// A pass looks at a limited number of free nodes to give their memory back: 128 in a caller's
/// pass, 1,024 in any other pass.
#[test]
fn memory_is_given_back_in_steps() {
    const FREE: u32 = 20_000;
    let _alone = alone();
    let moved_by = |pass: fn(&Numbers)| {
        let (cache, _hand) = settled(None, 10);
        let draft = |key| cache.engine().pool.draft(Hash32::FIRST.with(key));
        drop((0..FREE).map(draft).collect::<Vec<_>>());
        pass(&cache);
        FREE as usize - core(&cache).pool.shelve(usize::MAX)
    };
    assert_eq!(moved_by(pass), 128);
    assert_eq!(moved_by(|cache| _ = cache.run_pending_tasks_up_to(1)), 1024);
    assert!(moved_by(Numbers::run_pending_tasks) > FREE as usize * 7 / 8);
}

/// A clearing of a cache that is already cleared counts no generation, so such clearings never wait
/// for a sweep.
#[test]
fn clearings_with_nothing_between_them_do_nothing() {
    let (cache, _hand) = weighed(None);
    (0..100).for_each(|key| cache.insert(key, 1));
    (0..100_000).for_each(|_| cache.invalidate_all());
    assert_eq!(core(&cache).hot.generation().raw(), 1);
    cache.insert(1, 1);
    cache.invalidate_all();
    assert_eq!((core(&cache).hot.generation().raw(), cache.get(&1)), (2, None));
    cache.audit();
}

/// If clearings come faster than passes sweep, each clearing sweeps a share, and none sweeps
/// everything.
#[test]
fn clearings_beyond_a_quarter_of_the_marks_sweep_a_share() {
    let (clock, _hand) = Clock::manual();
    let cache: Numbers = Cache::builder().clock(clock).record_stats(true).build();
    let entries = 200_000;
    (0..entries).for_each(|key| cache.insert(key, 1));
    cache.run_pending_tasks();
    let removed = || cache.stats().removed(crate::removal::RemovalCause::Explicit);
    // Count generations as if no thread had run a pass meanwhile.
    while core(&cache).unswept() < 4_200 {
        assert!(core(&cache).next_generation(u64::MAX >> 1));
    }
    let mut before = removed();
    for call in 0..20_000 {
        cache.insert(call, 1);
        cache.invalidate_all();
        let after = removed();
        // One call may sweep a 4,080th of entries and buckets. A few passes in passing add their
        // share, each to the end of a bucket.
        assert!(after - before <= 60 + 5 * (64 + 16), "{} in one call", after - before);
        before = after;
        // The generation marks never run out.
        assert!(core(&cache).unswept() < 8_200, "the sweep makes no progress");
    }
    cache.audit();
}

/// A move of the index ends while the entries go on to become fewer. The pass after it looks again.
#[test]
fn an_index_that_was_emptied_ends_small() {
    let _alone = alone();
    let cache: Numbers = Cache::builder().clock(Clock::manual().0).build();
    (0..200_000).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let buckets = || core(&cache).index.buckets(&crate::epoch::pin());
    let before = buckets();
    cache.invalidate_all();
    (0..5).for_each(|_| cache.run_pending_tasks());
    assert_eq!(cache.entry_count(), 0);
    assert!(buckets() <= 16, "{} of {before} buckets are left", buckets());
}
