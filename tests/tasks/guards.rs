//! Load guards of tasks, and those that tasks and threads hand to each other.

use crate::common::audited::tasks_audited;
use crate::common::must_end;
use crate::hand::{Task, at_once};
use cortado::future::Cache;
use cortado::{Expiration, LoadGuard, Loaded, Overflow};
use std::time::Duration;

type Guard = LoadGuard<u64, u64>;

fn guard(cache: &Cache<u64, u64>, key: u64) -> Guard {
    at_once(cache.get_value_or_guard(&key)).expect_err("the key has no value")
}

#[test]
fn a_task_loads_by_a_guard() {
    let cache = tasks_audited(Cache::new(10));
    let minute = Duration::from_secs(60);
    let entry = guard(&cache, 1).insert(Loaded::with_ttl(7, minute));
    assert!(entry.is_fresh());
    assert!(matches!(at_once(cache.get_value_or_guard(&1)), Ok(7)));
    assert!(cache.sync().expires_in(&1).due() <= Some(minute));
    drop(guard(&cache, 2));
    assert_eq!(cache.sync().expires_in(&2), Expiration::NoEntry);
}

/// Whoever comes for the key waits: tasks by their wakers.
#[test]
fn loads_of_the_key_wait_for_the_guard() {
    must_end(|| {
        let cache = tasks_audited(Cache::new(10));
        let held = guard(&cache, 1);
        let guarded = Task::waiting(cache.get_value_or_guard(&1));
        let loading = Task::waiting(cache.get_with(1, async { 8 }));
        assert_eq!(at_once(cache.get_with(2, async { 2 })), 2, "of another key");
        std::thread::spawn(move || drop(held.insert(7))).join().unwrap();
        assert!(matches!(guarded.end(), Ok(7)));
        assert_eq!(loading.end(), 7);
    });
}

/// A guard that is dropped leaves the load to one of those who wait.
#[test]
fn a_guard_that_is_given_up_goes_to_a_waiter() {
    must_end(|| {
        let cache = tasks_audited(Cache::new(10));
        let held = guard(&cache, 1);
        let next = Task::waiting(cache.get_value_or_guard(&1));
        drop(held);
        let next: Guard = next.end().expect_err("there is no value yet");
        // One that is dropped before it has ended has begun nothing.
        drop(Task::waiting(cache.get_value_or_guard(&1)));
        let last = Task::waiting(cache.get_with(1, async { 9 }));
        drop(next);
        assert_eq!(last.end(), 9);
    });
}

/// The limit of waiting notices holds a task back before it gets the guard; the guard never blocks.
#[test]
fn the_limit_of_notices_comes_before_the_guard() {
    must_end(|| {
        let builder = Cache::builder().removals(true).notification_limit(1, Overflow::Wait);
        let cache = tasks_audited(builder.build());
        let mut removals = cache.removals().unwrap();
        let held = guard(&cache, 9);
        at_once(cache.insert(1, 1));
        at_once(cache.insert(1, 2));
        let over = Task::waiting(cache.insert(1, 3));
        // Whoever has a guard ends the load although too many notices wait.
        drop(held.insert(9));
        assert_eq!(at_once(cache.get(&9)), Some(9));
        let late = Task::waiting(cache.get_value_or_guard(&8));
        assert_eq!(removals.waiting(), 2);
        assert!(removals.try_recv().is_some() && removals.try_recv().is_some());
        over.end();
        drop(late.end().expect_err("the key has no value").insert(8));
        assert_eq!(at_once(cache.get(&8)), Some(8));
    });
}
