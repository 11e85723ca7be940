//! The figures by which passes decide, each at its edge: how long an era of the policy is, how long
//! the dead wait for more of them, and how many are let go of at once. By a clock that stands
//! unless it is moved; each pass is one that a caller runs in passing.

use super::Cache;
use crate::clock::{Clock, ManualClock};
use crate::engine::Core;
use crate::node::NO_ERA;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

type Numbers = Cache<u32, u32>;

/// Values are weights.
fn weighed(capacity: Option<u64>) -> (Numbers, ManualClock) {
    let (clock, hand) = Clock::manual();
    let mut builder = Cache::builder().clock(clock).weigher(|_, &weight| weight);
    if let Some(capacity) = capacity {
        builder = builder.max_capacity(capacity);
    }
    (builder.build(), hand)
}

fn core(cache: &Numbers) -> &Core {
    &cache.engine().core
}

/// Runs a pass.
fn pass(cache: &Numbers) {
    cache.engine().attend();
}

const CAPACITY: u64 = 1600;

/// Full, at the beginning of an era.
fn full() -> Numbers {
    let (cache, _) = weighed(Some(CAPACITY));
    for key in 0..CAPACITY as u32 {
        cache.insert(key, 1);
        pass(&cache);
    }
    assert_eq!(cache.entry_count(), CAPACITY);
    next_era(&cache);
    cache
}

fn era(cache: &Numbers) -> u8 {
    core(cache).hot.era.load(Relaxed)
}

/// Reads those of the keys that are there, each for the first time in the era.
fn read(cache: &Numbers, keys: impl Iterator<Item = u32>) {
    for key in keys {
        let _ = cache.get(&key);
        pass(cache);
    }
}

/// Gives the cache so many entries more than it has room for.
fn evict(cache: &Numbers, entries: u32) {
    static NEXT: AtomicU32 = AtomicU32::new(1 << 20);
    for _ in 0..entries {
        cache.insert(NEXT.fetch_add(1, Relaxed), 1);
        pass(cache);
    }
}

/// Keys that are there.
fn inside(cache: &Numbers) -> Vec<u32> {
    let mut keys: Vec<u32> = cache.iter().map(|entry| *entry.key()).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn nothing_is_recorded_with_more_than_an_eighth_of_the_room_free() {
    let (cache, _) = weighed(Some(800));
    cache.insert(1, 699);
    pass(&cache);
    assert_eq!(era(&cache), NO_ERA, "101 of 800 free");
    cache.insert(2, 1);
    pass(&cache);
    assert_eq!(era(&cache), 1, "100 of 800 free");
    cache.invalidate(&2);
    pass(&cache);
    assert_eq!(era(&cache), NO_ERA);
    cache.audit();
}

/// An era ends when more than a quarter as many reads were recorded as there are entries, and more
/// than a 64th as many entries evicted.
#[test]
fn an_era_ends_by_reads_and_evictions() {
    let cache = full();
    let (quarter, share) = (CAPACITY as usize / 4, CAPACITY as u32 / 64);
    let begun = era(&cache);
    evict(&cache, share + 1);
    let keys = inside(&cache);
    read(&cache, keys[..quarter].iter().copied());
    assert_eq!(era(&cache), begun, "a quarter is not more than a quarter");
    read(&cache, keys[..quarter].iter().copied());
    assert_eq!(era(&cache), begun, "read again in the same era, they are not recorded");
    read(&cache, keys[quarter..=quarter].iter().copied());
    assert_eq!(era(&cache), begun + 1);

    let begun = era(&cache);
    read(&cache, inside(&cache)[..2 * quarter].iter().copied());
    evict(&cache, share);
    assert_eq!(era(&cache), begun, "a 64th is not more than a 64th");
    evict(&cache, 1);
    assert_eq!(era(&cache), begun + 1);

    // After the last one comes the first: none is the one in which nothing is recorded.
    core(&cache).hot.era.store(u8::MAX, Relaxed);
    next_era(&cache);
    assert_eq!(era(&cache), 1);
    cache.audit();
}

/// Ends the era, however much of it there was.
fn next_era(cache: &Numbers) {
    let begun = era(cache);
    read(cache, inside(cache).into_iter());
    evict(cache, CAPACITY as u32 / 64);
    let mut more = 0..CAPACITY;
    while era(cache) == begun {
        assert!(more.next().is_some(), "it does not end");
        evict(cache, 1);
    }
}

/// An update counts as a read does: once per era.
#[test]
fn updates_of_one_entry_are_one_record_and_of_many_are_many() {
    let cache = full();
    let begun = era(&cache);
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
    assert_eq!(era(&cache), begun, "one entry, again and again");
    keys[1..CAPACITY as usize / 4].iter().for_each(|&key| update(key));
    assert_eq!(era(&cache), begun, "a quarter");
    update(keys[CAPACITY as usize / 4]);
    assert_eq!(era(&cache), begun + 1);
    cache.audit();
}

/// Those who wait for the epoch are not to have each other's guards in the way.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

/// Waits for the grace period of what was handed to the epoch; false if nothing was.
fn ripens(cache: &Numbers, was_handed_over: bool) -> bool {
    let begun = Instant::now();
    // What was not handed over does not ripen, however often the epoch moves on.
    let rounds = if was_handed_over { u32::MAX } else { 64 };
    for _ in 0..rounds {
        crate::epoch::pin().flush();
        if core(cache).grace_ended.load(Relaxed) > 0 {
            return true;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it was not handed over");
        std::thread::yield_now();
    }
    false
}

/// With so many entries, and nothing dead.
fn settled(capacity: Option<u64>, entries: u32) -> (Numbers, ManualClock) {
    let (cache, hand) = weighed(capacity);
    (0..entries).for_each(|key| cache.insert(key, 1));
    cache.run_pending_tasks();
    clean(&cache);
    (cache, hand)
}

fn clean(cache: &Numbers) {
    let begun = Instant::now();
    while undropped(cache) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is not let go of");
        cache.run_pending_tasks();
        std::thread::yield_now();
    }
}

fn undropped(cache: &Numbers) -> usize {
    core(cache).undropped.load(Relaxed)
}

#[test]
fn the_dead_wait_for_sixteen_passes() {
    let _alone = alone();
    let (cache, _hand) = settled(None, 6400);
    cache.invalidate(&0);
    for n in 1..=16 {
        pass(&cache);
        assert!(!ripens(&cache, false), "handed over by pass {n}");
    }
    assert_eq!(undropped(&cache), 1, "they count while they wait");
    pass(&cache);
    assert!(ripens(&cache, true));
    assert_eq!(undropped(&cache), 1);
    clean(&cache);
    cache.audit();
}

#[test]
fn or_for_a_millisecond() {
    let _alone = alone();
    let (cache, hand) = settled(None, 6400);
    hand.advance(Duration::from_nanos(999_999));
    cache.invalidate(&0);
    pass(&cache);
    assert!(!ripens(&cache, false));
    hand.advance(Duration::from_nanos(1));
    pass(&cache);
    assert!(ripens(&cache, true));
    clean(&cache);
    cache.audit();
}

#[test]
fn or_until_they_are_more_than_a_64th_of_the_entries() {
    let _alone = alone();
    // Of 6302 entries that are left 98 are a 64th, as of 6301.
    for (dead, are_many) in [(98, false), (99, true)] {
        let (cache, _hand) = settled(None, 6400);
        (0..dead).for_each(|key| cache.invalidate(&key));
        pass(&cache);
        assert_eq!(undropped(&cache), dead as usize);
        assert_eq!(ripens(&cache, are_many), are_many, "{dead}");
        clean(&cache);
        cache.audit();
    }
}

#[test]
fn or_weigh_more_than_a_64th_of_the_capacity() {
    let _alone = alone();
    for (weight, is_much) in [(100, false), (101, true)] {
        let (cache, _hand) = settled(Some(6400), 3000);
        cache.insert(10_000, weight);
        cache.run_pending_tasks();
        cache.invalidate(&10_000);
        pass(&cache);
        assert_eq!(undropped(&cache), 1);
        assert_eq!(ripens(&cache, is_much), is_much, "{weight}");
        clean(&cache);
        cache.audit();
    }
}

/// While something waits for its grace period, and nobody looks after the cache, a pass is due 16
/// ms later.
#[test]
fn who_waits_is_looked_after() {
    let _alone = alone();
    let (cache, _hand) = settled(None, 50);
    let due = |after: u64| core(&cache).is_due(core(&cache).ticker.now() + after);
    assert!(!due(1 << 40), "nothing waits and nothing ends");
    let guard = crate::epoch::pin();
    cache.invalidate(&0);
    pass(&cache);
    assert_eq!(undropped(&cache), 1);
    assert!(due(16_000_000) && !due(15_999_999));
    drop(guard);
    clean(&cache);
    assert!(!due(1 << 40));
    cache.audit();
}

#[test]
fn with_a_scheduler_operations_need_not() {
    let _alone = alone();
    let (clock, _hand) = Clock::manual();
    let cache: Numbers = Cache::builder().clock(clock).scheduler(true).build();
    (0..50).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    let guard = crate::epoch::pin();
    cache.invalidate(&0);
    cache.run_pending_tasks();
    assert!(undropped(&cache) > 0);
    assert!(!core(&cache).is_due(core(&cache).ticker.now() + (1 << 40)));
    drop(guard);
    clean(&cache);
    cache.audit();
}

/// A pass lets go of 512 of the dead, or of some more, which are less than a batch of 256.
#[test]
fn a_pass_lets_go_of_so_many() {
    const DEAD: u32 = 10 * 256;
    let _alone = alone();
    let (cache, _hand) = settled(None, 2 * DEAD);
    let guard = crate::epoch::pin();
    (0..DEAD).for_each(|key| cache.invalidate(&key));
    // Those at the end of the last batch as well.
    (0..17).for_each(|_| pass(&cache));
    assert_eq!(undropped(&cache), DEAD as usize);
    drop(guard);
    let begun = Instant::now();
    while core(&cache).grace_ended.load(Relaxed) < 10 {
        assert!(begun.elapsed() < Duration::from_secs(30), "they do not ripen");
        crate::epoch::pin().flush();
        std::thread::yield_now();
    }
    let mut before = undropped(&cache);
    for _ in 0..3 {
        pass(&cache);
        let given_up = before - undropped(&cache);
        assert!((512..768).contains(&given_up), "{given_up}");
        before -= given_up;
    }
    clean(&cache);
    cache.audit();
}

/// An index grows a few buckets at a time, and to its end when all maintenance is asked for.
#[test]
fn a_growing_index_has_grown_when_all_is_done() {
    let (cache, _hand) = weighed(None);
    let grows = || core(&cache).index.is_moving(&crate::epoch::pin());
    let mut key = 0;
    while key < 10_000 || !grows() {
        assert!(key < 100_000, "it does not grow");
        cache.insert(key, 1);
        key += 1;
    }
    pass(&cache);
    assert!(grows(), "it has grown in one pass");
    cache.run_pending_tasks();
    assert!(!grows());
    cache.audit();
}

/// Free nodes that were not needed for a while are looked at for giving their memory back: 128 in a
/// pass beside another operation, 1,024 in any other.
#[test]
fn memory_is_given_back_in_steps() {
    const WINDOW: Duration = Duration::from_millis(250);
    let _alone = alone();
    // How many passes that are asked for it takes after so many in passing.
    let passes = |in_passing: u32| {
        let (cache, hand) = settled(None, 20_000);
        cache.invalidate_all();
        clean(&cache);
        // The index has shrunk as well, and its old tables are gone: that is other work, too.
        let begun = Instant::now();
        while cache.run_pending_tasks_within(4096).other {
            assert!(begun.elapsed() < Duration::from_secs(30), "tables are kept");
            std::thread::yield_now();
        }
        // Free for a window, and known to be.
        hand.advance(WINDOW);
        pass(&cache);
        hand.advance(WINDOW);
        (0..in_passing).for_each(|_| pass(&cache));
        let mut others = 1;
        while cache.run_pending_tasks_within(1).other {
            others += 1;
        }
        assert!(core(&cache).pool.parked() > 10_000);
        cache.audit();
        others
    };
    // On average: in which order ids become free depends on the hasher, which is another each time.
    const TIMES: u32 = 10;
    let all = |in_passing| (0..TIMES).map(|_| passes(in_passing)).sum::<u32>();
    let saved = (all(0) - all(64)) / TIMES;
    // An eighth of 64, or somewhat more: where blocks are complete a pass does less than it might.
    assert!((4..=24).contains(&saved), "64 in passing saved {saved} others");
}

/// Clearings of what is cleared already count nothing, so that they never have to wait for a sweep.
#[test]
fn clearings_with_nothing_between_them_do_nothing() {
    let (cache, _hand) = weighed(None);
    (0..100).for_each(|key| cache.insert(key, 1));
    (0..100_000).for_each(|_| cache.invalidate_all());
    assert_eq!(core(&cache).full_generation(), 1);
    cache.insert(1, 1);
    cache.invalidate_all();
    assert_eq!((core(&cache).full_generation(), cache.get(&1)), (2, None));
    cache.audit();
}

/// Clearings that come faster than passes sweep: each sweeps a share, none all of it.
#[test]
fn clearings_beyond_a_quarter_of_the_marks_sweep_a_share() {
    let (clock, _hand) = Clock::manual();
    let cache: Numbers = Cache::builder().clock(clock).record_stats(true).build();
    let entries = 200_000;
    (0..entries).for_each(|key| cache.insert(key, 1));
    cache.run_pending_tasks();
    let removed = || cache.stats().removed(crate::removal::RemovalCause::Explicit);
    // As if nobody had run a pass meanwhile.
    while core(&cache).unswept() < 4_200 {
        assert!(core(&cache).next_generation(u64::MAX >> 1));
    }
    let mut before = removed();
    for call in 0..20_000 {
        cache.insert(call, 1);
        cache.invalidate_all();
        let after = removed();
        // A 4,080th of entries and buckets, and what a few passes in passing do, to the end of a
        // bucket each.
        assert!(after - before <= 60 + 5 * (64 + 16), "{} in one call", after - before);
        before = after;
        // They never run out of marks.
        assert!(core(&cache).unswept() < 8_200, "the sweep does not get on");
    }
    cache.audit();
}
