//! What the three eviction policies promise: who is refused, and who leaves first.

use crate::common::audited::audited;
use crate::common::crowd::draw;
use crate::common::effort::share;
use crate::common::{Tested, tested};
use cortado::{Builder, Cache, EvictionPolicy, Op, Overflow, RemovalCause};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

fn bounded(policy: EvictionPolicy, capacity: u64) -> Tested<u64, u64> {
    tested(|builder: Builder<u64, u64>| builder.max_capacity(capacity).eviction_policy(policy))
}

/// Fills the cache with entries that are asked for again and again.
fn with_hot_entries(policy: EvictionPolicy, capacity: u64) -> Tested<u64, u64> {
    let tested = bounded(policy, capacity);
    (0..capacity).for_each(|key| tested.insert(key, key));
    for _ in 0..30 {
        (0..capacity).for_each(|key| assert!(tested.get(&key).is_some()));
        tested.run_pending_tasks();
    }
    tested
}

/// Inserts new keys, one by one, and asks after each whether the lately inserted ones are all
/// there: as many of them as the policy keeps. Tells which were missing.
fn missing(tested: &Tested<u64, u64>, keys: std::ops::Range<u64>, kept: u64) -> Vec<u64> {
    let mut missing = Vec::new();
    for key in keys.clone() {
        tested.insert(key, key);
        tested.run_pending_tasks();
        let lately = keys.start.max((key + 1).saturating_sub(kept.max(1)))..=key;
        missing.extend(lately.filter(|key| !tested.contains_key(key)));
    }
    missing
}

/// How many of the latest entries are there whatever else was asked for. An LRU keeps all. The
/// protected segment of the other may have four fifths of the capacity.
fn keeps(policy: &EvictionPolicy, capacity: u64) -> u64 {
    if *policy == EvictionPolicy::lru() { capacity } else { capacity / 8 }
}

#[test]
fn lru_and_segmented_lru_never_refuse_a_new_entry() {
    for policy in [EvictionPolicy::lru(), EvictionPolicy::segmented_lru()] {
        for capacity in [1, 2, 3, 7, 100, 500] {
            let tested = with_hot_entries(policy.clone(), capacity);
            let news = 10_000..10_000 + 3 * capacity;
            let missing = missing(&tested, news, keeps(&policy, capacity));
            assert_eq!(missing, [], "{policy:?} of {capacity}");
            assert_eq!(tested.entry_count(), capacity);
            assert!(tested.told().iter().all(|told| told.cause == RemovalCause::Size));
        }
    }
}

/// The others would not be worth a test if this one did the same.
#[test]
fn tiny_lfu_refuses_new_entries_for_the_sake_of_hot_ones() {
    let tested = with_hot_entries(EvictionPolicy::tiny_lfu(), 100);
    assert!(missing(&tested, 10_000..10_300, 12).len() > 200);
    assert!((0..100).filter(|key| tested.contains_key(key)).count() > 80);
}

/// Also after a change of the bound.
#[test]
fn they_refuse_none_after_the_bound_was_changed() {
    for policy in [EvictionPolicy::lru(), EvictionPolicy::segmented_lru()] {
        let tested = with_hot_entries(policy.clone(), 100);
        for (bound, first) in [(10, 10_000), (300, 20_000), (50, 30_000)] {
            assert!(tested.set_max_capacity(bound));
            let news = first..first + 2 * bound;
            let missing = missing(&tested, news, keeps(&policy, bound));
            assert_eq!(missing, [], "{policy:?} of {bound}");
            assert_eq!(tested.entry_count(), bound);
        }
    }
}

/// A heavy entry, too, is there though many must go for it, and though the maintenance comes only
/// after several of them.
#[test]
fn they_refuse_no_heavy_entry() {
    for policy in [EvictionPolicy::lru(), EvictionPolicy::segmented_lru()] {
        let builder = Cache::builder().max_capacity(100).eviction_policy(policy.clone());
        let cache = audited(builder.weigher(|_: &u64, &weight: &u32| weight).build());
        (0..100).for_each(|key| cache.insert(key, 1));
        for (key, weight) in [(1_000, 100), (1_001, 60), (1_002, 60), (1_003, 3), (1_004, 97)] {
            cache.insert(key, weight);
            cache.run_pending_tasks();
            assert!(cache.contains_key(&key), "{policy:?}: {key} of {weight}");
            assert!(cache.weighted_size() <= 100);
        }
        for weight in [40, 60, 7] {
            (2_000..2_010).for_each(|key| cache.insert(key, weight));
            cache.run_pending_tasks();
            let there: Vec<u64> = (2_000..2_010).filter(|key| cache.contains_key(key)).collect();
            let fits = u64::from(100 / weight).min(10);
            assert_eq!(there, (2_010 - fits..2_010).collect::<Vec<_>>(), "{policy:?}: {weight}");
            cache.invalidate_all();
        }
    }
}

/// Whatever was read or written again before, the entry that was written last is there.
#[test]
fn they_keep_what_was_written_last() {
    let mut state = 7;
    let mut below = |bound: u64| draw(&mut state) % bound;
    for policy in [EvictionPolicy::lru(), EvictionPolicy::segmented_lru()] {
        for round in 0..600 {
            let (weighs, resizes) = (round % 2 == 0, round % 4 < 2);
            let mut capacity = [1, 2, 3, 10, 100, 1_000][below(6) as usize];
            let builder = Cache::builder().max_capacity(capacity).eviction_policy(policy.clone());
            let weigher = move |_: &u64, &weight: &u32| if weighs { weight } else { 1 };
            let cache = audited(builder.weigher(weigher).build());
            let keys = 2 + below(8);
            let mut program = Vec::new();
            for _ in 0..40 {
                let (op, key, weight) = (below(8), below(keys), below(capacity + 2) as u32);
                match op {
                    0 | 1 => drop(cache.get(&key)),
                    2 => cache.invalidate(&key),
                    3 if resizes => {
                        capacity = 1 + below(2 * capacity);
                        cache.set_max_capacity(capacity);
                    }
                    _ => cache.insert(key, weight),
                }
                program.push((op, key, weight, capacity));
                if op > 4 {
                    cache.run_pending_tasks();
                    let fits = !weighs || u64::from(weight) <= capacity;
                    let is_there = cache.contains_key(&key);
                    assert_eq!(is_there, fits, "{policy:?}: {key} after {program:?}");
                }
            }
        }
    }
}

/// The keys that left, in the order of their removals.
fn evicted(tested: &Tested<u64, u64>) -> Vec<u64> {
    tested.told().iter().map(|told| told.key).collect()
}

#[test]
fn lru_evicts_in_the_order_of_the_last_use() {
    let tested = bounded(EvictionPolicy::lru(), 100);
    (0..100).for_each(|key| tested.insert(key, key));
    tested.run_pending_tasks();
    assert_eq!(evicted(&tested), []);
    // Each is used once at most, so that each use is recorded.
    for key in [3, 1, 4, 15, 9, 2, 6] {
        tested.get(&key);
        tested.run_pending_tasks();
    }
    tested.insert(5, 50);
    tested.insert_many((0..100).map(|key| (1000 + key, key)));
    let unused = (0..100).filter(|key| ![3, 1, 4, 15, 9, 2, 6, 5].contains(key));
    let used = [3, 1, 4, 15, 9, 2, 6];
    let told = tested.told();
    let (replaced, sized): (Vec<_>, Vec<_>) =
        told.iter().partition(|told| told.cause == RemovalCause::Replaced);
    assert_eq!(replaced.iter().map(|told| told.value).collect::<Vec<_>>(), [5]);
    let order: Vec<u64> = sized.iter().map(|told| told.key).collect();
    assert_eq!(order, unused.chain(used).chain([5]).collect::<Vec<_>>());
}

#[test]
fn segmented_lru_evicts_what_was_never_read_first() {
    let tested = bounded(EvictionPolicy::segmented_lru(), 100);
    (0..100).for_each(|key| tested.insert(key, key));
    tested.run_pending_tasks();
    let read = [90, 10, 50, 30, 70];
    for key in read {
        tested.get(&key);
        tested.run_pending_tasks();
    }
    for key in 1000..1095 {
        tested.insert(key, key);
        tested.run_pending_tasks();
    }
    let unread: Vec<u64> = (0..100).filter(|key| !read.contains(key)).collect();
    assert_eq!(evicted(&tested), unread);
    assert!(read.iter().all(|key| tested.contains_key(key)));
}

#[test]
fn all_of_them_hold_the_bound_by_weight() {
    let policies =
        [EvictionPolicy::tiny_lfu(), EvictionPolicy::segmented_lru(), EvictionPolicy::lru()];
    for policy in policies {
        let builder = Cache::builder().max_capacity(1_000).eviction_policy(policy.clone());
        let cache = audited(builder.weigher(|_: &u64, &weight: &u32| weight).build());
        assert_eq!(cache.policy().eviction_policy(), policy);
        let mut state = 1;
        for n in 0..20_000 {
            let random = draw(&mut state);
            let (key, weight) = (random % 500, (random >> 32) as u32 % 300);
            match random >> 60 {
                0..4 => drop(cache.get(&key)),
                4 => cache.invalidate(&key),
                _ => cache.insert(key, weight),
            }
            if n % 64 == 0 {
                cache.run_pending_tasks();
                let held: u64 = cache.entries().map(|entry| u64::from(entry.weight())).sum();
                assert!(held <= 1_000 && cache.weighted_size() == held, "{policy:?}: {held}");
            }
        }
        // What is heavier than the capacity is refused by all of them.
        cache.insert(1, 1_001);
        cache.run_pending_tasks();
        assert!(!cache.contains_key(&1));
    }
}

/// Entries of weight 0 are never evicted for want of room.
#[test]
fn none_of_them_evicts_what_weighs_nothing() {
    for policy in [EvictionPolicy::segmented_lru(), EvictionPolicy::lru()] {
        let builder = Cache::builder().max_capacity(10).eviction_policy(policy);
        let cache = audited(builder.weigher(|_: &u64, &weight: &u32| weight).build());
        (0..20).for_each(|key| cache.insert(key, 0));
        (100..200).for_each(|key| cache.insert(key, 3));
        cache.run_pending_tasks();
        assert!((0..20).all(|key| cache.contains_key(&key)));
        assert_eq!((cache.weighted_size(), cache.entry_count()), (9, 23));
    }
}

/// The order in which entries would leave, as the cache tells it.
#[test]
fn the_coldest_are_those_that_leave_next() {
    for policy in [EvictionPolicy::lru(), EvictionPolicy::segmented_lru()] {
        let tested = bounded(policy.clone(), 50);
        (0..50).for_each(|key| tested.insert(key, key));
        tested.run_pending_tasks();
        for key in [7, 3, 30] {
            tested.get(&key);
            tested.run_pending_tasks();
        }
        let keys = |entries: Vec<cortado::Entry<u64, u64>>| -> Vec<u64> {
            entries.iter().map(|entry| *entry.key()).collect()
        };
        let order = keys(tested.coldest(usize::MAX));
        assert_eq!(order.len(), 50);
        assert_eq!(order[47..], [7, 3, 30]);
        assert_eq!(keys(tested.hottest(3)), [30, 3, 7]);
        assert_eq!(keys(tested.coldest(2)), [0, 1]);
        (100..110).for_each(|key| {
            tested.insert(key, key);
            tested.run_pending_tasks();
        });
        assert_eq!(evicted(&tested), order[..10], "{policy:?}");
    }
    let unbounded = audited(Cache::<u64, u64>::builder().build());
    unbounded.insert(1, 1);
    unbounded.run_pending_tasks();
    assert!(unbounded.coldest(9).is_empty() && unbounded.hottest(9).is_empty());
}

/// The weight that exceeds the bound does not grow with the number of heavy newcomers.
#[test]
fn heavy_newcomers_do_not_pile_up() {
    const BOUND: u64 = 100_000;
    for (policy, heavy) in [
        (EvictionPolicy::lru(), 50_000),
        (EvictionPolicy::segmented_lru(), 50_000),
        // Each is less than a stripe of the write buffer may hold, and more than a pass evicts.
        (EvictionPolicy::lru(), 1_500),
    ] {
        let builder = Cache::<u32, u32>::builder().max_capacity(BOUND);
        let cache = audited(builder.eviction_policy(policy).weigher(|_, weight| *weight).build());
        (0..BOUND as u32).for_each(|key| cache.insert(key, 1));
        cache.run_pending_tasks();
        for n in 0..share(40).max(4) as u32 {
            cache.insert(1_000_000 + n, heavy);
            let held: u64 = cache.entries().map(|entry| u64::from(entry.weight())).sum();
            assert!(held <= BOUND + BOUND / 16 + u64::from(heavy), "{held} after {n} of {heavy}");
        }
    }
}

/// A lower capacity is no reason to make one writer evict all that is beyond it.
#[test]
fn a_writer_does_not_wait_for_a_lower_capacity() {
    let cache =
        audited(Cache::<u32, u32>::builder().max_capacity(100_000).weigher(|_, w| *w).build());
    (0..100_000).for_each(|key| cache.insert(key, 1));
    cache.run_pending_tasks();
    cache.set_max_capacity(1_000);
    cache.insert(0, 900);
    cache.insert(1, 900);
    assert!(cache.entry_count() > 50_000, "{}", cache.entry_count());
    cache.run_pending_tasks();
    assert!(cache.weighted_size() <= 1_000);
}

fn put(cache: &Cache<u32, u32>, key: u32, value: u32) {
    cache.insert(key, value);
    cache.run_pending_tasks();
}

#[test]
fn an_lru_keeps_what_was_written_last() {
    let lru = || {
        audited(Cache::builder().max_capacity(100).eviction_policy(EvictionPolicy::lru()).build())
    };
    let cache = lru();
    (0..100).for_each(|key| put(&cache, key, 0));
    put(&cache, 0, 1);
    (1000..1099).for_each(|key| put(&cache, key, 0));
    put(&cache, 0, 2);
    put(&cache, 2000, 0);
    assert_eq!(cache.get(&0), Some(2));
    // Written while there was room.
    let cache = lru();
    (0..80).for_each(|key| put(&cache, key, 0));
    put(&cache, 0, 1);
    (100..121).for_each(|key| put(&cache, key, 0));
    assert!(cache.contains_key(&0) && !cache.contains_key(&1));
}

/// Nothing else is read, so reads alone do not end the periods in which a read counts once.
#[test]
fn an_lru_keeps_the_one_key_that_is_read() {
    let cache =
        audited(Cache::builder().max_capacity(100).eviction_policy(EvictionPolicy::lru()).build());
    put(&cache, 0, 0);
    for n in 1..1000 {
        put(&cache, n, 0);
        assert!(cache.get(&0).is_some(), "gone at {n}");
        cache.run_pending_tasks();
    }
}

/// The entry was named as a victim while it was computed, and is the newest afterwards: with a new
/// value, and as it was before.
#[test]
fn an_lru_keeps_what_was_computed_last() {
    for puts in [true, false] {
        let cache = audited(
            Cache::builder().max_capacity(10).eviction_policy(EvictionPolicy::lru()).build(),
        );
        (0..10).for_each(|key| put(&cache, key, key));
        let _ = cache.entry(0).and_compute_with(|_| {
            put(&cache, 100, 0);
            if puts { Op::Put(1_000) } else { Op::Nop }
        });
        (101..105).for_each(|key| put(&cache, key, 0));
        assert_eq!(cache.peek(&0).map(|entry| *entry), Some(if puts { 1_000 } else { 0 }));
    }
}

#[test]
fn a_segmented_lru_knows_a_read_that_follows_the_insert() {
    let policy = EvictionPolicy::segmented_lru();
    let cache = audited(Cache::builder().max_capacity(100).eviction_policy(policy).build());
    (0..100).for_each(|key| put(&cache, key, 0));
    put(&cache, 500, 0);
    assert!(cache.get(&500).is_some());
    cache.run_pending_tasks();
    for key in 1000..1200 {
        put(&cache, key, 0);
        assert!(cache.contains_key(&500), "it went before unread ones, at {key}");
    }
}

/// One insert that makes much room delivers what it removes: a limit that discards is for listeners
/// that are slow.
#[test]
fn a_heavy_insert_discards_no_notification() {
    let told = Arc::new(AtomicU64::new(0));
    let tells = Arc::clone(&told);
    let builder = Cache::<u32, u32>::builder().max_capacity(100_000).weigher(|_, w| *w);
    let builder = builder.eviction_policy(EvictionPolicy::lru()).record_stats(true);
    let builder = builder.removal_listener(move |_| _ = tells.fetch_add(1, SeqCst));
    let cache = audited(builder.notification_limit(10_000, Overflow::Discard).build());
    (0..100_000).for_each(|key| cache.insert(key, 1));
    cache.run_pending_tasks();
    cache.insert(1_000_000, 50_000);
    assert_eq!(cache.stats().discarded_notifications, 0);
    assert!(told.load(SeqCst) > 40_000);
}

#[test]
fn a_segmented_lru_knows_a_placeholder_that_got_its_value() {
    let policy = EvictionPolicy::segmented_lru();
    let builder = Cache::<u32, u32>::builder().max_capacity(100).eviction_policy(policy);
    let cache = audited(builder.weigher(|_, value| *value).build());
    put(&cache, 500, 0);
    put(&cache, 500, 1);
    for key in 1000..1300 {
        put(&cache, key, 1);
        assert!(cache.contains_key(&500), "it went before what was written once, at {key}");
    }
}
