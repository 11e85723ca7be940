//! Reads, iteration and what can be asked about a cache, in every configuration.

use crate::common::{Bench, Bound, CAPACITY, LIFE, Life, SECOND, TICK, for_each_config};
use cortado::RemovalCause::{Expired, Explicit, Replaced};

#[test]
fn every_way_of_reading_sees_the_same_value() {
    for_each_config(|bench| {
        bench.insert(1, 10);
        assert_eq!(bench.get(&1), Some(10));
        assert_eq!(bench.get_entry(&1).as_deref(), Some(&10));
        assert_eq!(bench.peek(&1).as_deref(), Some(&10));
        assert_eq!(bench.pin().get(&1), Some(&10));
        assert_eq!(bench.pin().get(&1), Some(&10));
        assert_eq!(bench.get_with(1, || unreachable!()), 10);
        assert!(bench.contains_key(&1) && bench.touch(&1));
        assert_eq!(
            bench.entries().map(|entry| (*entry.key(), *entry)).collect::<Vec<_>>(),
            [(1, 10)]
        );
        assert!(bench.get(&2).is_none() && bench.get_entry(&2).is_none());
        assert!(bench.peek(&2).is_none() && bench.pin().get(&2).is_none());
        assert!(!bench.contains_key(&2) && !bench.touch(&2));
        assert!(bench.pin().get(&2).is_none());
    });
}

#[test]
fn no_way_of_reading_sees_an_expired_value() {
    for_each_config(|bench| {
        if bench.lives().is_none() {
            return;
        }
        bench.insert(1, 10);
        bench.settle();
        let pinned = bench.pin();
        let iter = bench.entries();
        bench.hand.advance(LIFE);
        assert!(pinned.get(&1).is_none());
        assert_eq!(iter.count(), 0);
        assert!(bench.get(&1).is_none() && bench.get_entry(&1).is_none());
        assert!(bench.peek(&1).is_none() && !bench.contains_key(&1) && !bench.touch(&1));
        assert_eq!(bench.entries().count() + bench.keys().count() + bench.values().count(), 0);
        assert!(
            bench.expires_in(&1).into_options().is_none()
                && bench.expires_at(&1).into_options().is_none()
        );
        assert!(!bench.set_ttl(&1, SECOND) && !bench.persist(&1));
        drop(pinned);
        bench.pass(TICK);
        assert_eq!(bench.causes(), [(1, Expired)]);
    });
}

/// The life that is left after half of it has gone and then something was done.
fn left_after(bench: &Bench, what: impl Fn(&Bench)) -> Option<Option<std::time::Duration>> {
    bench.insert(1, 10);
    bench.hand.advance(LIFE / 2);
    what(bench);
    bench.expires_in(&1).into_options()
}

#[test]
fn reads_prolong_an_idle_life_and_no_other() {
    let reads: [fn(&Bench); 7] = [
        |bench| assert!(bench.get(&1).is_some()),
        |bench| drop(bench.get_entry(&1)),
        |bench| assert!(bench.pin().get(&1).is_some()),
        |bench| assert!(bench.get_if(&1, |_, _| true).is_some()),
        |bench| assert!(bench.touch(&1)),
        |bench| assert_eq!(bench.get_with(1, || unreachable!()), 10),
        |bench| drop(bench.entry(1).or_insert_with(|| unreachable!())),
    ];
    let quiet: [fn(&Bench); 7] = [
        |bench| drop(bench.peek(&1)),
        |bench| assert!(bench.contains_key(&1)),
        |bench| assert_eq!(bench.entries().count(), 1),
        |bench| assert_eq!(bench.keys().count() + bench.values().count(), 2),
        |bench| assert!(bench.expires_at(&1).into_options().is_some()),
        |bench| assert_eq!(bench.remove_if(&1, |_, _| false), None),
        |bench| bench.retain(|_, _| true),
    ];
    for_each_config(|bench| {
        for read in reads {
            let lives =
                bench.lives().map(|_| if bench.life == Life::Access { LIFE } else { LIFE / 2 });
            assert_eq!(left_after(bench, read), Some(lives));
        }
        for read in quiet {
            assert_eq!(left_after(bench, read), Some(bench.lives().map(|_| LIFE / 2)));
        }
    });
}

#[test]
fn an_entry_that_is_read_in_time_lives_on_and_is_gone_when_reads_cease() {
    for_each_config(|bench| {
        bench.insert(1, 10);
        let mut reads = 0;
        for _ in 0..5 {
            bench.pass(LIFE - SECOND);
            reads += u64::from(bench.get(&1).is_some());
        }
        let alive = match bench.life {
            Life::None | Life::Access => 5,
            Life::Write | Life::Variable => 1,
        };
        assert_eq!(reads, alive);
        bench.pass(LIFE + TICK);
        let expected = if bench.life == Life::None { vec![] } else { vec![(1, Expired)] };
        assert_eq!(bench.causes(), expected);
    });
}

#[test]
fn iteration_returns_each_living_entry_once() {
    for_each_config(|bench| {
        (0..300).for_each(|key| bench.insert(key, key + 1000));
        (0..300).filter(|key| key % 2 == 0).for_each(|key| bench.invalidate(&key));
        let odd = || (0..300u64).filter(|key| key % 2 == 1);
        let mut entries: Vec<_> = bench.entries().map(|entry| (*entry.key(), *entry)).collect();
        entries.sort();
        assert_eq!(entries, odd().map(|key| (key, key + 1000)).collect::<Vec<_>>());
        let mut keys: Vec<_> = bench.keys().collect();
        keys.sort();
        assert_eq!(keys, odd().collect::<Vec<_>>());
        let mut values: Vec<_> = bench.values().collect();
        values.sort();
        assert_eq!(values, odd().map(|key| key + 1000).collect::<Vec<_>>());
        let again: usize = (&bench.cache).into_iter().map(|_| 1).sum();
        assert_eq!(again, 150);
    });
}

#[test]
fn handles_and_iterators_survive_what_happens_meanwhile() {
    for_each_config(|bench| {
        (0..100).for_each(|key| bench.insert(key, key));
        let handle = bench.get_entry(&50).unwrap();
        let mut iter = bench.entries();
        let first = iter.next().unwrap();
        bench.invalidate_all();
        bench.pass(10 * LIFE);
        // What is gone is not returned, what is in hand stays.
        assert_eq!(iter.count(), 0);
        assert_eq!((*handle.key(), *handle.value()), (50, 50));
        assert_eq!(first.key(), first.value());
        assert_eq!(bench.entry_count(), 0);
    });
}

#[test]
fn statistics_count_what_was_done() {
    for_each_config(|bench| {
        bench.insert(1, 1);
        bench.insert(1, 2);
        bench.insert(2, 2);
        bench.get(&1);
        bench.get_entry(&1);
        bench.touch(&1);
        bench.pin().get(&1);
        bench.get(&9);
        bench.touch(&9);
        bench.peek(&1);
        bench.contains_key(&9);
        bench.get_with(3, || 3);
        bench.remove(&2);
        bench.insert_with_ttl(4, 4, std::time::Duration::ZERO);
        bench.settle();
        let stats = bench.stats();
        assert_eq!((stats.hits, stats.misses), (4, 3));
        assert_eq!((stats.insertions, stats.loads, stats.load_failures), (5, 1, 0));
        assert_eq!((stats.removed(Replaced), stats.removed(Explicit)), (1, 1));
        assert_eq!(stats.removed(Expired), 1);
        assert_eq!((stats.entries, stats.weight), (2, bench.weighted_size()));
        assert_eq!((stats.listener_panics, stats.drop_panics), (0, 0));
        assert!((stats.hit_ratio() - 4.0 / 7.0).abs() < 1e-9);
        bench.pass(LIFE + TICK);
        let stats = bench.stats();
        assert_eq!(stats.removed(Expired), if bench.lives().is_some() { 3 } else { 1 });
        let lateness = stats.expiry_lateness();
        assert_eq!(lateness.count(), stats.removed(Expired));
        assert!(
            lateness.max() <= TICK
                && lateness.quantile(0.5) <= lateness.quantile(0.99)
                && lateness.quantile(0.99) <= lateness.max()
        );
    });
}

#[test]
fn a_clone_is_the_same_cache() {
    for_each_config(|bench| {
        let other = bench.cache.clone();
        bench.insert(1, 10);
        assert_eq!(other.get(&1), Some(10));
        other.insert(2, 20);
        assert_eq!(bench.get(&2), Some(20));
        drop(other);
        assert_eq!(bench.entries().count(), 2);
    });
}

#[test]
fn debug_of_a_cache_shows_entries_and_that_of_views_none() {
    for_each_config(|bench| {
        bench.insert(1, 424_242);
        bench.settle();
        let shown = format!("{:?}", bench.cache);
        assert!(shown.starts_with("Cache") && shown.contains("entry_count: 1"), "{shown}");
        assert!(shown.contains("{1: 424242}"), "{shown}");
        let entry = format!("{:?}", bench.get_entry(&1).unwrap());
        assert!(entry.contains("key: 1") && entry.contains("value: 424242"), "{entry}");
        for shown in [
            format!("{:?}", bench.pin()),
            format!("{:?} {:?}", bench.entries(), bench.iter()),
            format!("{:?}", bench.entry(1)),
        ] {
            assert!(!shown.is_empty() && !shown.contains("424242"), "{shown}");
        }
    });
}

#[test]
fn the_bound_can_be_asked_for_and_holds_after_each_pass() {
    for_each_config(|bench| {
        let bounded = bench.bound != Bound::None;
        assert_eq!(bench.policy().max_capacity(), bounded.then_some(CAPACITY));
        (0..3 * CAPACITY).for_each(|key| bench.insert(key, key));
        bench.settle();
        let (count, weight) = (bench.entry_count(), bench.weighted_size());
        if bounded {
            assert!(weight <= CAPACITY && weight > CAPACITY - 10, "{weight}");
        } else {
            assert_eq!(count, 3 * CAPACITY);
        }
        let told = bench.told();
        assert!(told.iter().all(|told| told.cause == cortado::RemovalCause::Size));
        assert_eq!(told.len() as u64 + count, 3 * CAPACITY);
        assert_eq!(bench.entries().count() as u64, count);
        assert_eq!(bench.entries().map(|entry| u64::from(entry.weight())).sum::<u64>(), weight);
    });
}
