//! A first look at the whole: each operation once, audited.

use cortado::{Cache, Clock, CompResult, Op, RemovalCause};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_value_goes_in_and_comes_out() {
    let cache: Cache<String, u32> = Cache::new(100);
    cache.insert("a".into(), 1);
    assert_eq!(cache.get("a"), Some(1));
    cache.insert("a".into(), 2);
    assert_eq!(cache.get("a"), Some(2));
    assert_eq!(cache.remove("a"), Some(2));
    assert_eq!(cache.get("a"), None);
    cache.audit();
    assert_eq!(cache.entry_count(), 0);
}

#[test]
fn the_bound_holds_and_everything_leaves_once() {
    let (clock, hand) = Clock::manual();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let cache: Cache<u32, u32> = Cache::builder()
        .max_capacity(100)
        .clock(clock)
        .record_stats(true)
        .removal_listener(move |removed| {
            log.lock().unwrap().push((*removed.key(), removed.cause()));
        })
        .build();
    (0..1000).for_each(|n| cache.insert_with_ttl(n, n, 10 * SECOND));
    cache.audit();
    assert_eq!(cache.entry_count(), 100);
    hand.advance(60 * SECOND);
    cache.audit();
    assert_eq!(cache.entry_count(), 0);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1000);
    assert_eq!(seen.iter().filter(|(_, cause)| *cause == RemovalCause::Expired).count(), 100);
    assert_eq!(cache.stats().evicted(), 1000);
}

#[test]
fn loads_and_computations() {
    let cache: Cache<u32, u32> = Cache::new(10);
    assert_eq!(cache.get_with(1, || 5), 5);
    assert_eq!(cache.get_with(1, || unreachable!()), 5);
    let add = |entry: Option<cortado::Entry<u32, u32>>| Op::Put(entry.map_or(1, |n| *n + 1));
    assert!(matches!(cache.entry(1).and_compute_with(add), CompResult::ReplacedWith(n) if *n == 6));
    assert!(matches!(cache.entry(2).and_compute_with(add), CompResult::Inserted(n) if *n == 1));
    cache.audit();
    cache.invalidate_all();
    assert_eq!(cache.iter().count(), 0);
    cache.audit();
}

#[test]
fn a_scheduled_cache_expires_on_its_own() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let cache: Cache<u32, u32> = Cache::builder()
        .scheduler(true)
        .expiry_resolution(Duration::from_millis(1))
        .removal_listener(move |removed| sender.send(removed.late_by()).unwrap())
        .build();
    cache.insert_with_ttl(1, 1, Duration::from_millis(20));
    let late = receiver.recv_timeout(60 * SECOND).unwrap();
    assert!(late.is_some());
    cache.audit();
}
