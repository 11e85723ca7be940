//! Caches that a background thread tends. What is waited for must come; how soon is not measured.

use crate::common::audited::{Audited, audited};
use crate::common::effort::share;
use crate::common::{HANG, MINUTE, SECOND};
use cortado::RemovalCause::{self, Expired, Explicit, Size};
use cortado::{Builder, Cache, Clock, Removed};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MILLI: Duration = Duration::from_millis(1);

/// A scheduled cache that sends what its listener is told.
fn scheduled(
    configure: impl FnOnce(Builder<u32, u32>) -> Builder<u32, u32>,
) -> (Audited<u32, u32>, Receiver<Removed<u32, u32>>) {
    let (sender, receiver) = channel();
    let builder = Cache::builder()
        .scheduler(true)
        .expiry_resolution(MILLI)
        .removal_listener(move |removed| _ = sender.send(removed));
    (audited(configure(builder).build()), receiver)
}

fn next(receiver: &Receiver<Removed<u32, u32>>) -> (u32, RemovalCause) {
    let removed = receiver.recv_timeout(HANG).expect("nobody tends the cache");
    (*removed.key(), removed.cause())
}

fn eventually(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < HANG, "it never holds");
        std::thread::yield_now();
    }
}

#[test]
fn an_idle_cache_expires_and_announces_by_itself() {
    let (cache, receiver) = scheduled(|builder| builder);
    for (key, millis) in [(1, 40), (2, 20), (3, 1)] {
        cache.insert_with_ttl(key, key, millis * MILLI);
    }
    let mut told: Vec<_> = (0..3).map(|_| next(&receiver)).collect();
    told.sort();
    assert_eq!(told, [(1, Expired), (2, Expired), (3, Expired)]);
    eventually(|| cache.entry_count() == 0);
    cache.audit();
}

/// Jobs drop the values after the pass that took their nodes out, so the nodes become free when no
/// pass is to come.
#[test]
fn an_idle_cache_gives_memory_back_by_itself() {
    const ENTRIES: usize = 20_000;
    #[derive(Clone)]
    struct Slow;
    impl Drop for Slow {
        fn drop(&mut self) {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(40) {}
        }
    }
    // Often a last pass, for nodes whose grace period has just ended, comes after the job.
    for _ in 0..share(8) {
        let mut life = 300 * MILLI;
        let (cache, made) = loop {
            let cache = audited(Cache::builder().scheduler(true).build());
            (0..ENTRIES).for_each(|key| cache.insert_with_ttl(key, Slow, life));
            let made = cache.pool().ids().count();
            if made >= ENTRIES {
                break (cache, made);
            }
            // On a busy machine the first lives end before the last ones begin.
            life *= 4;
        };
        // As many as are kept at hand stay, and as many in blocks that are not complete.
        eventually(|| made - cache.pool().parked() <= 4096);
    }
}

/// A cache so small that each write is applied at once, by whoever makes it: the thread has to hear
/// of it all the same.
#[test]
fn a_tiny_cache_expires_by_itself() {
    for capacity in [3, 10, 40, 100, 700] {
        let (cache, receiver) = scheduled(|builder| builder.max_capacity(capacity));
        cache.run_pending_tasks();
        cache.insert_with_ttl(1, 1, 20 * MILLI);
        assert_eq!(next(&receiver), (1, Expired), "capacity {capacity}");
        eventually(|| cache.entry_count() == 0);
    }
}

/// Nor does it go unheard of if a single write is more than a write buffer is to hold.
#[test]
fn a_heavy_entry_expires_by_itself() {
    let heavy = |builder: Builder<u32, u32>| builder.max_capacity(10_000).weigher(|_, _| 9_000);
    let (cache, receiver) = scheduled(heavy);
    cache.run_pending_tasks();
    cache.insert_with_ttl(1, 1, 20 * MILLI);
    assert_eq!(next(&receiver), (1, Expired));
    eventually(|| cache.entry_count() == 0);
}

#[test]
fn never_before_the_deadline() {
    let (cache, receiver) = scheduled(|builder| builder);
    let started = Instant::now();
    cache.insert_with_ttl(1, 1, 30 * MILLI);
    let removed = receiver.recv_timeout(HANG).unwrap();
    assert!(started.elapsed() >= 30 * MILLI);
    assert!(removed.age() >= 30 * MILLI && removed.deadline().unwrap() <= Instant::now());
    assert_eq!(removed.age(), 30 * MILLI + removed.late_by().unwrap());
    cache.audit();
}

#[test]
fn a_shorter_life_wakes_the_thread_earlier() {
    let (cache, receiver) = scheduled(|builder| builder);
    cache.insert_with_ttl(1, 1, 600 * MINUTE);
    cache.insert(2, 2);
    cache.insert_with_ttl(3, 3, 600 * MINUTE);
    cache.run_pending_tasks();
    // It sleeps for hours now.
    assert!(cache.set_ttl(&1, MILLI));
    assert_eq!(next(&receiver), (1, Expired));
    assert!(cache.set_ttl(&2, MILLI));
    assert_eq!(next(&receiver), (2, Expired));
    cache.insert_with_ttl(4, 4, MILLI);
    assert_eq!(next(&receiver), (4, Expired));
    assert!(cache.contains_key(&3));
    cache.audit();
}

#[test]
fn removals_and_evictions_are_announced_without_further_calls() {
    let (cache, receiver) = scheduled(|builder| builder.max_capacity(2));
    cache.insert(1, 1);
    cache.invalidate(&1);
    assert_eq!(next(&receiver), (1, Explicit));
    (10..15).for_each(|key| cache.insert(key, key));
    (0..3).for_each(|_| assert_eq!(next(&receiver).1, Size));
    cache.invalidate_all();
    (0..2).for_each(|_| assert_eq!(next(&receiver).1, Explicit));
    eventually(|| cache.entry_count() == 0);
    cache.audit();
}

#[test]
fn values_are_dropped_without_further_calls() {
    let value = Arc::new(());
    let cache: Audited<u32, Arc<()>> =
        audited(Cache::builder().scheduler(true).expiry_resolution(MILLI).build());
    (0..100).for_each(|key| cache.insert_with_ttl(key, Arc::clone(&value), 5 * MILLI));
    (100..200).for_each(|key| cache.insert(key, Arc::clone(&value)));
    (100..200).for_each(|key| cache.invalidate(&key));
    eventually(|| Arc::strong_count(&value) == 1);
}

#[test]
fn a_clock_of_the_users_is_looked_at_now_and_then() {
    let (clock, hand) = Clock::manual();
    let (cache, receiver) = scheduled(|builder| builder.clock(clock));
    cache.insert_with_ttl(1, 1, 600 * MINUTE);
    hand.advance(600 * MINUTE + SECOND);
    assert_eq!(next(&receiver), (1, Expired));
    cache.audit();
}

#[test]
fn many_caches_come_and_go() {
    let mut caches: Vec<_> = (0..50).map(|_| scheduled(|builder| builder)).collect();
    for (cache, _) in &caches {
        cache.insert_with_ttl(1, 1, 2 * MILLI);
    }
    // Half of them go while they are due.
    caches.truncate(25);
    for (cache, receiver) in &caches {
        assert_eq!(next(receiver), (1, Expired));
        cache.audit();
    }
    caches.clear();
    let (cache, receiver) = scheduled(|builder| builder);
    cache.insert_with_ttl(1, 1, MILLI);
    assert_eq!(next(&receiver), (1, Expired));
}

#[test]
fn the_last_handle_may_be_dropped_by_the_listener_on_the_background_thread() {
    let value = Arc::new(());
    type Slot = Mutex<Option<Cache<u32, Arc<()>>>>;
    let slot: Arc<Slot> = Arc::default();
    let (hand, dropped) = (Arc::clone(&slot), Arc::new(AtomicBool::new(false)));
    let done = Arc::clone(&dropped);
    let cache: Cache<u32, Arc<()>> = Cache::builder()
        .scheduler(true)
        .expiry_resolution(MILLI)
        .removal_listener(move |_| {
            drop(hand.lock().unwrap().take());
            done.store(true, SeqCst);
        })
        .build();
    cache.insert(2, Arc::clone(&value));
    cache.insert_with_ttl(1, Arc::clone(&value), 20 * MILLI);
    *slot.lock().unwrap() = Some(cache);
    eventually(|| dropped.load(SeqCst) && Arc::strong_count(&value) == 1);
    // The thread lives on, for others.
    let (cache, receiver) = scheduled(|builder| builder);
    cache.insert_with_ttl(1, 1, MILLI);
    assert_eq!(next(&receiver), (1, Expired));
}

#[test]
fn panics_on_the_background_thread_do_not_end_it() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let listening: Audited<u32, u32> = audited(
        Cache::builder()
            .scheduler(true)
            .expiry_resolution(MILLI)
            .record_stats(true)
            .removal_listener(move |_| {
                count.fetch_add(1, SeqCst);
                panic!("of the listener");
            })
            .build(),
    );
    let reading = Arc::new(AtomicBool::new(false));
    let breaks = Arc::clone(&reading);
    let started = Instant::now();
    let clock = Clock::custom(move || {
        assert!(!breaks.load(SeqCst), "of the clock");
        started.elapsed()
    });
    let (timed, receiver) = scheduled(|builder| builder.clock(clock));
    timed.insert_with_ttl(1, 1, 10 * MILLI);
    reading.store(true, SeqCst);
    (0..10).for_each(|key| listening.insert_with_ttl(key, key, MILLI));
    eventually(|| calls.load(SeqCst) == 10);
    eventually(|| listening.stats().listener_panics == 10);
    let (cache, other) = scheduled(|builder| builder);
    cache.insert_with_ttl(1, 1, MILLI);
    assert_eq!(next(&other), (1, Expired));
    // The clock works again, and its cache is tended again once it is used.
    reading.store(false, SeqCst);
    timed.insert_with_ttl(2, 2, MILLI);
    let mut told = [next(&receiver), next(&receiver)];
    told.sort();
    assert_eq!(told, [(1, Expired), (2, Expired)]);
    timed.audit();
}

#[test]
fn a_scheduled_cache_under_use_keeps_its_books() {
    let (cache, receiver) = scheduled(|builder| builder.max_capacity(100).record_stats(true));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let cache = &cache;
            scope.spawn(move || {
                for n in 0..3000 {
                    let key = thread * 10_000 + n % 200;
                    cache.insert_with_ttl(key, n, (n % 5) * MILLI);
                    cache.get(&key);
                    if n % 7 == 0 {
                        cache.entry(key).and_compute_with(|_| cortado::Op::Put(n));
                    }
                    if n % 500 == 0 {
                        cache.invalidate_all();
                    }
                }
            });
        }
    });
    cache.close();
    let stats = cache.stats();
    for _ in 0..stats.insertions {
        next(&receiver);
    }
    assert!(receiver.try_recv().is_err(), "announced twice");
    cache.audit();
}

/// The executor drops the job when the scheduler has come to rest. Nobody else uses the cache.
#[test]
fn a_job_that_was_dropped_is_submitted_again() {
    let jobs = AtomicUsize::new(0);
    let (cache, told) = scheduled(|builder| {
        builder.executor(move |job: cortado::Job| {
            if jobs.fetch_add(1, SeqCst) > 0 {
                job();
            }
        })
    });
    cache.insert_with_ttl(7, 1, MILLI);
    assert_eq!(next(&told), (7, Expired));
}
