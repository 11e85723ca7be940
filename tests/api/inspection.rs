//! Looks at the whole cache: the entries that expire first or last, and the cache's settings.

use crate::common::audited::audited;
use crate::common::{MINUTE, SECOND, tested};
use cortado::{Builder, Cache, EvictionPolicy, sync};
use std::ops::Deref;
use std::time::Duration;

type Build = Builder<u32, u32>;

/// Keys in the order of a list of entries.
fn keys(entries: &[cortado::Entry<u32, u32>]) -> Vec<u32> {
    entries.iter().map(|entry| *entry.key()).collect()
}

#[test]
fn the_soonest_and_the_latest_come_in_order() {
    let tested = tested(|builder: Build| builder);
    // In an order of insertion that is not that of the deadlines.
    for n in 0..500 {
        let key = n * 211 % 500;
        tested.insert_with_ttl(key, key, (key + 1) * SECOND);
    }
    tested.insert(1_000, 0);
    tested.insert(1_001, 0);
    let all = || (0..500).collect::<Vec<u32>>();
    for limit in [0, 1, 2, 31, 32, 33, 63, 64, 65, 499, 500, 501, usize::MAX] {
        let soonest = tested.soonest_to_expire(limit);
        assert_eq!(keys(&soonest), all()[..limit.min(500)]);
        let latest = keys(&tested.latest_to_expire(limit));
        assert_eq!(latest.len(), limit.min(502));
        let (never, last) = latest.split_at(limit.min(2));
        assert!(never.iter().all(|key| *key >= 1_000), "those that never expire come first");
        assert!(last.iter().eq(all().iter().rev().take(last.len())));
    }
}

#[test]
fn expired_entries_and_removed_ones_are_left_out() {
    let tested = tested(|builder: Build| builder);
    (1..=5).for_each(|key| tested.insert_with_ttl(key, key, key * SECOND));
    tested.hand.advance(2 * SECOND);
    tested.invalidate(&4);
    assert_eq!(keys(&tested.soonest_to_expire(9)), [3, 5]);
    assert_eq!(keys(&tested.latest_to_expire(9)), [5, 3]);
    tested.set_ttl(&5, SECOND / 2);
    assert_eq!(keys(&tested.soonest_to_expire(1)), [5]);
    tested.persist(&5);
    assert_eq!(keys(&tested.soonest_to_expire(9)), [3]);
    assert_eq!(keys(&tested.latest_to_expire(9)), [5, 3]);
    tested.invalidate_all();
    assert!(tested.soonest_to_expire(9).is_empty() && tested.latest_to_expire(9).is_empty());
}

/// Looks are no reads: an idle time goes on.
#[test]
fn looks_count_as_no_reads() {
    let tested = tested(|builder: Build| builder.time_to_idle(10 * SECOND));
    tested.insert(1, 1);
    tested.hand.advance(5 * SECOND);
    assert_eq!(keys(&tested.soonest_to_expire(1)), [1]);
    assert_eq!(keys(&tested.latest_to_expire(1)), [1]);
    assert_eq!(tested.entries().count(), 1);
    assert_eq!(tested.expires_in(&1).due(), Some(5 * SECOND));
    assert_eq!((tested.stats().hits, tested.stats().misses), (0, 0));
}

#[test]
fn a_policy_says_how_the_cache_was_built() {
    let plain = audited(Cache::<u32, u32>::builder().build());
    let policy = plain.policy();
    assert_eq!((policy.max_capacity(), policy.num_segments()), (None, 1));
    assert_eq!((policy.time_to_live(), policy.time_to_idle()), (None, None));
    assert_eq!(policy.eviction_policy(), EvictionPolicy::default());
    let builder = Cache::<u32, u32>::builder()
        .max_capacity(7)
        .time_to_live(MINUTE)
        .time_to_idle(SECOND)
        .eviction_policy(EvictionPolicy::lru());
    let set = audited(builder.build()).policy();
    assert_eq!((set.max_capacity(), set.eviction_policy()), (Some(7), EvictionPolicy::lru()));
    assert_eq!((set.time_to_live(), set.time_to_idle()), (Some(MINUTE), Some(SECOND)));
    assert_ne!(EvictionPolicy::lru(), EvictionPolicy::segmented_lru());
    assert_eq!(EvictionPolicy::tiny_lfu(), EvictionPolicy::default());
}

#[test]
fn entries_for_which_a_predicate_holds_go_at_once() {
    let tested = tested(|builder: Build| builder.support_invalidation_closures());
    (0..100).for_each(|key| tested.insert(key, key % 10));
    tested.insert_with_ttl(200, 3, SECOND);
    tested.hand.advance(SECOND);
    let mut asked = 0;
    let done = tested.invalidate_entries_if(|key, value| {
        asked += 1;
        assert_eq!(key % 10, *value);
        *value == 3
    });
    assert!(done.is_ok());
    assert_eq!(asked, 100, "an expired entry is not asked about");
    assert_eq!(tested.entries().count(), 90);
    tested.insert(3, 3);
    assert_eq!(tested.get(&3), Some(3), "it holds for what was there, not for what comes");
    let gone: Vec<_> = tested.causes().into_iter().filter(|(key, _)| *key < 100).collect();
    let expected = (0..10).map(|n| (n * 10 + 3, cortado::RemovalCause::Explicit));
    assert_eq!(gone, expected.collect::<Vec<_>>());
}

#[test]
fn a_segmented_cache_is_one_cache_under_another_name() {
    let segmented = sync::SegmentedCache::<u8, u8>::new(9, 4);
    let one = audited(segmented.deref().clone());
    segmented.insert(1, 1);
    let other = segmented.clone();
    assert_eq!((other.get(&1), one.get(&1)), (Some(1), Some(1)));
    assert_eq!((segmented.policy().num_segments(), one.policy().max_capacity()), (1, Some(9)));
    assert_eq!(format!("{segmented:?}"), format!("{:?}", *one));
    let builder = sync::SegmentedCache::<u8, u8>::builder(8).max_capacity(5);
    let built = audited(builder.build().deref().clone());
    built.insert_with_ttl(1, 1, Duration::ZERO);
    assert_eq!((built.policy().max_capacity(), built.get(&1)), (Some(5), None));
}

#[test]
fn debug_shows_some_living_entries() {
    let tested = tested(|builder: Build| builder.name("squares"));
    tested.insert_with_ttl(3, 9, MINUTE);
    tested.insert_with_ttl(4, 16, SECOND);
    tested.hand.advance(2 * SECOND);
    let shown = format!("{:?}", tested.cache);
    assert!(shown.starts_with(r#"Cache { name: Some("squares"), entry_count: "#), "{shown}");
    assert!(shown.ends_with("entries: {3: 9} }"), "{shown}");
    assert!(format!("{:?}", tested.cache.future()).ends_with("entries: {3: 9} }"));
    // At 16 entries all are shown, beyond them a mark that there are more.
    tested.insert_many((100..115).map(|n| (n, n)));
    let sixteen = format!("{:?}", tested.cache);
    assert_eq!(sixteen.matches(": ").count(), 4 + 16, "{sixteen}");
    assert!(!sixteen.contains(".."), "{sixteen}");
    tested.insert_many((100..1_000).map(|n| (n, n)));
    let shown = format!("{:?}", tested.cache);
    assert_eq!(shown.matches(": ").count(), 4 + 16, "{shown}");
    assert!(shown.ends_with(", ..} }"), "{shown}");
}
