//! What expires when, who is told, and lifetimes by key, in every configuration.

use crate::common::{LIFE, Life, MINUTE, SECOND, TICK, for_each_config};
use cortado::RemovalCause::{Expired, Explicit, Replaced};
use std::time::Duration;

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_value_expires_at_its_deadline_and_is_announced_with_the_facts() {
    for_each_config(|bench| {
        bench.hand.advance(7 * SECOND);
        bench.insert(1, 10);
        assert_eq!(bench.expires_in(&1).into_options(), Some(bench.lives()));
        let Some(life) = bench.lives() else { return };
        let deadline = bench.expires_at(&1).into_options().unwrap().unwrap();
        bench.pass(life - NANO);
        assert_eq!(bench.peek(&1).as_deref(), Some(&10));
        assert_eq!(bench.told(), []);
        bench.hand.advance(NANO);
        assert!(bench.peek(&1).is_none());
        bench.pass(TICK);
        let told = bench.told();
        assert_eq!(told.len(), 1);
        let told = &told[0];
        assert_eq!((told.key, told.value, told.cause), (1, 10, Expired));
        assert_eq!(told.deadline, Some(deadline));
        let late = told.late_by.unwrap();
        assert!(late <= TICK, "{late:?}");
        assert_eq!(told.age, life + late);
        assert_eq!(told.weight, bench.weight(10));
    });
}

#[test]
fn a_value_that_leaves_before_its_deadline_is_not_late() {
    for_each_config(|bench| {
        (1..=3).for_each(|key| bench.insert(key, key));
        let deadline = bench.expires_at(&1).into_options().unwrap();
        assert_eq!(deadline.is_some(), bench.lives().is_some());
        bench.hand.advance(SECOND);
        bench.insert(1, 10);
        bench.remove(&2);
        bench.invalidate_all();
        let mut told = bench.told();
        told.sort_by_key(|told| told.value);
        let causes: Vec<_> = told.iter().map(|told| (told.value, told.cause)).collect();
        assert_eq!(causes, [(1, Replaced), (2, Explicit), (3, Explicit), (10, Explicit)]);
        assert!(told.iter().all(|told| told.late_by.is_none()));
        assert!(told[..3].iter().all(|told| told.deadline == deadline && told.age == SECOND));
        assert_eq!(told[3].age, Duration::ZERO);
    });
}

#[test]
fn set_ttl_makes_a_life_longer_or_shorter() {
    for_each_config(|bench| {
        // The idle time still applies.
        let capped = |ttl: Duration| if bench.life == Life::Access { ttl.min(LIFE) } else { ttl };
        bench.insert(1, 1);
        bench.insert(2, 2);
        bench.hand.advance(10 * SECOND);
        assert!(bench.set_ttl(&1, 5 * SECOND) && bench.set_ttl(&2, 10 * MINUTE));
        assert!(!bench.set_ttl(&3, SECOND));
        assert_eq!(bench.expires_in(&1).into_options(), Some(Some(5 * SECOND)));
        assert_eq!(bench.expires_in(&2).into_options(), Some(Some(capped(10 * MINUTE))));
        bench.pass(5 * SECOND + TICK);
        assert_eq!(bench.causes(), [(1, Expired)]);
        bench.hand.advance(capped(10 * MINUTE) - 5 * SECOND - TICK - NANO);
        assert!(bench.contains_key(&2));
        bench.hand.advance(NANO);
        assert!(!bench.contains_key(&2));
        bench.pass(TICK);
        assert_eq!(bench.causes(), [(2, Expired)]);
    });
}

#[test]
fn set_expires_at_sets_the_instant() {
    for_each_config(|bench| {
        bench.insert_with_ttl(1, 1, 30 * SECOND);
        let at = bench.expires_at(&1).into_options().unwrap().unwrap() - 10 * SECOND;
        assert!(bench.set_expires_at(&1, at));
        assert_eq!(bench.expires_at(&1).into_options(), Some(Some(at)));
        assert_eq!(bench.expires_in(&1).into_options(), Some(Some(20 * SECOND)));
        assert!(!bench.set_expires_at(&2, at));
        bench.hand.advance(20 * SECOND);
        assert_eq!(bench.get(&1), None);
        assert!(
            !bench.set_expires_at(&1, at + MINUTE),
            "an entry whose deadline came stays expired"
        );
        bench.pass(TICK);
        assert_eq!(bench.causes(), [(1, Expired)]);
    });
}

#[test]
fn a_ttl_of_zero_and_an_instant_in_the_past_end_a_life_now() {
    for_each_config(|bench| {
        bench.hand.advance(MINUTE);
        bench.insert_with_ttl(1, 1, 30 * SECOND);
        bench.insert(2, 2);
        let past = bench.expires_at(&1).into_options().unwrap().unwrap() - 50 * SECOND;
        assert!(bench.set_ttl(&1, Duration::ZERO) && bench.set_expires_at(&2, past));
        assert!(bench.get(&1).is_none() && bench.get(&2).is_none());
        assert_eq!(bench.entries().count(), 0);
        assert_eq!(bench.causes(), [(1, Expired), (2, Expired)]);
        assert_eq!(bench.entry_count(), 0);
    });
}

#[test]
fn persist_takes_the_end_away() {
    for_each_config(|bench| {
        bench.insert(1, 1);
        bench.insert_with_ttl(2, 2, SECOND);
        assert!(bench.persist(&1) && bench.persist(&2) && !bench.persist(&3));
        let lives = (bench.life == Life::Access).then_some(LIFE);
        assert_eq!(
            (bench.expires_in(&1).into_options(), bench.expires_in(&2).into_options()),
            (Some(lives), Some(lives))
        );
        bench.pass(1000 * LIFE);
        let alive = bench.life != Life::Access;
        assert_eq!((bench.contains_key(&1), bench.contains_key(&2)), (alive, alive));
        bench.settle();
        assert_eq!(bench.entry_count(), if alive { 2 } else { 0 });
        // And it can be given one again.
        if alive {
            assert!(bench.set_ttl(&1, 3 * SECOND));
            bench.pass(3 * SECOND + TICK);
            assert_eq!(bench.causes(), [(1, Expired)]);
        }
    });
}

#[test]
fn lives_that_end_at_different_times_end_in_order() {
    for_each_config(|bench| {
        // From a second to three hours, over several levels of the wheel, in no order.
        let ttl = |key: u64| Duration::from_millis(1000 + key * 7919 % 331 * 30_000);
        let capped = |key| if bench.life == Life::Access { ttl(key).min(LIFE) } else { ttl(key) };
        (0..331).for_each(|key| bench.insert_with_ttl(key, key, ttl(key)));
        let mut told = Vec::new();
        let mut elapsed = Duration::ZERO;
        while told.len() < 331 {
            bench.pass(MINUTE);
            elapsed += MINUTE;
            let now = bench.told();
            for told in &now {
                assert_eq!(told.cause, Expired);
                assert_eq!(told.age, capped(told.key) + told.late_by.unwrap());
                assert!(told.late_by.unwrap() <= MINUTE + TICK, "{told:?}");
            }
            told.extend(now);
            assert_eq!(bench.entries().count(), (0..331).filter(|&k| capped(k) > elapsed).count());
            assert!(elapsed < 200 * MINUTE, "{} have expired", told.len());
        }
    });
}

#[test]
fn next_expiration_tells_when_to_look_again() {
    for_each_config(|bench| {
        bench.settle();
        assert_eq!(bench.next_expiration(), None);
        bench.insert_with_ttl(1, 1, 30 * SECOND);
        bench.settle();
        let mut rounds = 0;
        // Looking exactly when it says must come to the end, and not a tick too late.
        while let Some(wait) = bench.next_expiration() {
            bench.pass(wait);
            rounds += 1;
            assert!(rounds < 100, "it never comes to an end");
        }
        let told = bench.told();
        assert_eq!(told.len(), 1);
        assert!(told[0].late_by.unwrap() <= TICK, "{:?}", told[0]);
    });
}

#[test]
fn expiration_of_everything_at_once_announces_each_value_once() {
    for_each_config(|bench| {
        (0..300).for_each(|key| bench.insert(key, key));
        bench.pass(LIFE + TICK);
        let cause = bench.lives().map(|_| Expired);
        let expected: Vec<_> = (0..300).filter_map(|key| cause.map(|cause| (key, cause))).collect();
        assert_eq!(bench.causes(), expected);
        assert_eq!(bench.entry_count(), 300 - expected.len() as u64);
        assert_eq!(bench.next_expiration(), None);
    });
}
