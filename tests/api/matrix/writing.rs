//! Writes and removals, in every configuration.

use crate::common::{LIFE, SECOND, TICK, for_each_config};
use cortado::RemovalCause::{Expired, Explicit, Replaced};
use std::time::{Duration, Instant};

#[test]
fn an_inserted_value_is_there_until_it_is_removed() {
    for_each_config(|bench| {
        assert_eq!(bench.get(&1), None);
        bench.insert(1, 10);
        assert_eq!(bench.get(&1), Some(10));
        assert_eq!(bench.remove(&1), Some(10));
        assert_eq!(bench.get(&1), None);
        assert_eq!(bench.remove(&1), None);
        let told = bench.told();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].key, told[0].value, told[0].cause), (1, 10, Explicit));
        assert_eq!(told[0].weight, bench.weight(10));
        assert_eq!(bench.entry_count(), 0);
        assert_eq!(bench.weighted_size(), 0);
    });
}

#[test]
fn an_update_replaces_the_value_and_gives_it_a_life_and_a_weight_of_its_own() {
    for_each_config(|bench| {
        bench.insert(1, 10);
        bench.hand.advance(LIFE / 2);
        bench.insert(1, 11);
        assert_eq!(bench.get(&1), Some(11));
        assert_eq!(bench.expires_in(&1).into_options(), Some(bench.lives()));
        let told = bench.told();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].key, told[0].value, told[0].cause), (1, 10, Replaced));
        assert_eq!((told[0].age, told[0].late_by), (LIFE / 2, None));
        assert_eq!(told[0].deadline.is_some(), bench.lives().is_some());
        assert_eq!(bench.entry_count(), 1);
        assert_eq!(bench.weighted_size(), u64::from(bench.weight(11)));
    });
}

#[test]
fn values_that_are_replaced_many_times_leave_one_by_one_in_order() {
    for_each_config(|bench| {
        (0..500).for_each(|value| bench.insert(7, value));
        bench.invalidate(&7);
        let told: Vec<_> = bench.told().iter().map(|told| (told.value, told.cause)).collect();
        let expected: Vec<_> =
            (0..499).map(|value| (value, Replaced)).chain([(499, Explicit)]).collect();
        assert_eq!(told, expected);
    });
}

#[test]
fn remove_returns_what_was_there_and_remove_entry_a_handle_on_it() {
    for_each_config(|bench| {
        bench.insert(1, 10);
        bench.hand.advance(SECOND);
        let entry = bench.remove_entry(&1).unwrap();
        assert_eq!((*entry.key(), *entry.value(), entry.age()), (1, 10, SECOND));
        assert_eq!(entry.expires_in(), bench.lives().map(|life| life - SECOND));
        assert_eq!(entry.weight(), bench.weight(10));
        assert!(bench.remove_entry(&1).is_none());
        assert_eq!(bench.causes(), [(1, Explicit)]);
        // The handle outlives the entry.
        assert_eq!(*entry, 10);
    });
}

#[test]
fn remove_if_removes_what_it_has_judged() {
    for_each_config(|bench| {
        bench.insert(1, 10);
        assert_eq!(bench.remove_if(&1, |key, value| (*key, *value) != (1, 10)), None);
        assert_eq!(bench.get(&1), Some(10));
        assert_eq!(bench.remove_if(&1, |key, value| (*key, *value) == (1, 10)), Some(10));
        assert_eq!(bench.remove_if(&1, |_, _| panic!("there is nothing to judge")), None);
        assert_eq!(bench.causes(), [(1, Explicit)]);
    });
}

#[test]
fn invalidate_removes_one_key_and_leaves_the_others() {
    for_each_config(|bench| {
        (0..10).for_each(|key| bench.insert(key, key));
        bench.invalidate(&3);
        bench.invalidate(&100);
        assert!(!bench.contains_key(&3));
        assert_eq!(bench.entries().count(), 9);
        assert_eq!(bench.causes(), [(3, Explicit)]);
        assert_eq!(bench.entry_count(), 9);
    });
}

#[test]
fn invalidate_all_removes_what_was_there_and_not_what_comes_after() {
    for_each_config(|bench| {
        (0..100).for_each(|key| bench.insert(key, key));
        bench.invalidate_all();
        (50..60).for_each(|key| bench.insert(key, 1000 + key));
        assert!((0..50).all(|key| bench.get(&key).is_none()));
        assert!((50..60).all(|key| bench.get(&key) == Some(1000 + key)));
        let told = bench.told();
        assert_eq!(told.len(), 100);
        assert!(told.iter().all(|told| told.cause == Explicit && told.value < 100));
        assert_eq!(bench.entry_count(), 10);
    });
}

#[test]
fn retain_removes_what_does_not_pass() {
    for_each_config(|bench| {
        (0..200).for_each(|key| bench.insert(key, key + 1));
        bench.retain(|key, value| {
            assert_eq!(*value, key + 1);
            key % 3 == 0
        });
        let mut keys: Vec<_> = bench.keys().collect();
        keys.sort();
        assert_eq!(keys, (0..200).filter(|key| key % 3 == 0).collect::<Vec<_>>());
        let gone: Vec<_> = (0..200).filter(|key| key % 3 != 0).map(|key| (key, Explicit)).collect();
        assert_eq!(bench.causes(), gone);
        // Entries whose life is over are not judged.
        bench.hand.advance(LIFE);
        if bench.lives().is_some() {
            bench.retain(|_, _| panic!("asked about an expired entry"));
        }
    });
}

#[test]
fn insert_with_ttl_and_insert_until_set_the_end_of_one_entry() {
    for_each_config(|bench| {
        bench.insert_with_ttl(1, 1, 10 * SECOND);
        assert_eq!(bench.expires_in(&1).into_options(), Some(Some(10 * SECOND)));
        // The end of another entry is an instant of the cache's clock.
        let at = bench.expires_at(&1).into_options().unwrap().unwrap() + 5 * SECOND;
        bench.insert_until(2, 2, at);
        assert_eq!(bench.expires_in(&2).into_options(), Some(Some(15 * SECOND)));
        assert_eq!(bench.expires_at(&2).into_options(), Some(Some(at)));
        bench.hand.advance(10 * SECOND);
        assert!(!bench.contains_key(&1) && bench.contains_key(&2));
        bench.hand.advance(5 * SECOND);
        assert!(!bench.contains_key(&2));
        bench.pass(TICK);
        assert_eq!(bench.causes(), [(1, Expired), (2, Expired)]);
        // None is left: not stored.
        bench.insert_with_ttl(3, 3, Duration::ZERO);
        bench.insert_until(4, 4, at);
        assert!(!bench.contains_key(&3) && !bench.contains_key(&4));
        assert_eq!(bench.causes(), [(3, Expired), (4, Expired)]);
        bench.insert_until(5, 5, Instant::now() - 1000 * SECOND);
        assert_eq!(bench.causes(), [(5, Expired)]);
    });
}

#[test]
fn a_lifetime_at_the_call_may_be_longer_than_that_of_the_cache() {
    use crate::common::Life;
    for_each_config(|bench| {
        bench.insert_with_ttl(1, 1, 10 * LIFE);
        // An idle time applies to every entry.
        let lives = if bench.life == Life::Access { LIFE } else { 10 * LIFE };
        assert_eq!(bench.expires_in(&1).into_options(), Some(Some(lives)));
        bench.hand.advance(lives - SECOND);
        assert_eq!(bench.peek(&1).as_deref(), Some(&1));
        bench.pass(SECOND + TICK);
        assert_eq!(bench.causes(), [(1, Expired)]);
        // An update without one goes back to that of the cache.
        bench.insert_with_ttl(1, 1, 10 * LIFE);
        bench.insert(1, 2);
        assert_eq!(bench.expires_in(&1).into_options(), Some(bench.lives()));
    });
}

#[test]
fn writes_over_an_entry_whose_life_is_over_announce_it_as_expired() {
    for_each_config(|bench| {
        (0..4).for_each(|key| bench.insert(key, key));
        bench.hand.advance(LIFE);
        bench.insert(0, 100);
        let removed = bench.remove(&1);
        bench.invalidate(&2);
        bench.invalidate_all();
        assert_eq!(removed, if bench.lives().is_none() { Some(1) } else { None });
        let causes = bench.causes();
        // What `invalidate_all` ended is announced as its doing, found expired or not.
        let (third, hundredth) = (causes[4], causes[1]);
        assert_eq!(third.0, 3);
        assert_eq!(hundredth, (0, Explicit));
        assert_eq!(causes[0], (0, bench.cause_if_over(Replaced)));
        assert_eq!(causes[2], (1, bench.cause_if_over(Explicit)));
        assert_eq!(causes[3], (2, bench.cause_if_over(Explicit)));
        assert_eq!(causes.len(), 5);
        assert_eq!(bench.entry_count(), 0);
    });
}

#[test]
fn close_announces_every_entry_and_stores_nothing_afterwards() {
    for_each_config(|bench| {
        (0..100).for_each(|key| bench.insert(key, key));
        bench.close();
        assert_eq!(bench.entries().count(), 0);
        assert_eq!(bench.causes(), (0..100).map(|key| (key, Explicit)).collect::<Vec<_>>());
        bench.insert(1, 1);
        assert_eq!(bench.get(&1), None);
        assert_eq!(bench.get_with(2, || 20), 20);
        assert_eq!(bench.get(&2), None);
        assert_eq!(bench.causes(), [(1, Explicit), (2, Explicit)]);
        bench.close();
        assert_eq!(bench.causes(), []);
        assert_eq!((bench.entry_count(), bench.weighted_size()), (0, 0));
    });
}
