//! What callbacks, clearing, computing and ending mean: one test for each question.

use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, SECOND, TICK, Tested, kept, must_end, panic_of, tested};
use cortado::RemovalCause::{Expired, Explicit, Replaced, Size};
use cortado::{Cache, CompResult, Expiry, Op, RemovalCause};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Panics when told to.
#[derive(Default)]
struct Brittle {
    breaks: AtomicBool,
}

impl Brittle {
    fn answer(&self) -> Option<Duration> {
        assert!(!self.breaks.load(SeqCst), "hook");
        Some(MINUTE)
    }
}

impl Expiry<u32, u64> for &'static Brittle {
    fn expire_after_create(&self, _: &u32, _: &u64, _: Instant) -> Option<Duration> {
        self.answer()
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u64,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        self.answer()
    }
}

#[test]
fn a_hook_that_panics_leaves_the_operation_without_effect() {
    let hooks: &'static Brittle = kept(Default::default());
    let cache = tested(|builder| builder.expire_after(hooks));
    cache.insert(1, 10);
    cache.hand.advance(30 * SECOND);
    hooks.breaks.store(true, SeqCst);
    assert_eq!(panic_of(|| cache.insert(1, 11)), "hook");
    assert_eq!(panic_of(|| cache.insert(2, 20)), "hook");
    assert_eq!(panic_of(|| cache.get(&1)), "hook");
    assert_eq!(panic_of(|| cache.get_with(3, || 30)), "hook");
    assert_eq!(panic_of(|| cache.entry(1).and_compute_with(|_| Op::Put(12))), "hook");
    hooks.breaks.store(false, SeqCst);
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(30 * SECOND)));
    assert_eq!(cache.entries().map(|entry| (*entry.key(), *entry)).collect::<Vec<_>>(), [(1, 10)]);
    assert_eq!(cache.told(), []);
    cache.audit();
    assert_eq!(cache.get_with(3, || 31), 31);
    cache.insert(2, 21);
    cache.audit();
    assert_eq!(cache.entry_count(), 3);
}

#[test]
fn a_listener_that_panics_is_caught_and_counted_and_hears_of_the_next_removal() {
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let cache: Audited<u32, u32> = audited(
        Cache::builder()
            .record_stats(true)
            .removal_listener(move |_| {
                assert!(count.fetch_add(1, SeqCst) % 2 == 1, "every other time");
            })
            .build(),
    );
    (0..1000).for_each(|n| cache.insert(n, n));
    (0..1000).for_each(|n| cache.invalidate(&n));
    cache.run_pending_tasks();
    assert_eq!(heard.load(SeqCst), 1000);
    assert_eq!(cache.stats().listener_panics, 500);
}

#[test]
fn a_listener_may_call_anything_on_the_cache() {
    static CACHE: OnceLock<Cache<u32, u32>> = OnceLock::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let cache = CACHE.get_or_init(|| {
        Cache::builder()
            .max_capacity(100)
            .removal_listener(move |removed| {
                let cache = CACHE.get().expect("set before the first removal");
                let key = *removed.key();
                log.lock().unwrap().push((key, *removed.value(), removed.cause()));
                cache.run_pending_tasks();
                cache.get(&key);
                if key < 10 {
                    cache.insert(key + 10, 1);
                    cache.insert(key + 10, 2);
                    cache.get_with(key + 20, || 3);
                    cache.entry(key + 10).and_compute_with(|_| Op::Remove);
                    assert_eq!(cache.entries().filter(|entry| *entry.key() == key + 20).count(), 1);
                }
                cache.retain(|_, _| true);
            })
            .build()
    });
    must_end(move || {
        cache.insert(1, 0);
        cache.remove(&1);
        cache.run_pending_tasks();
    });
    let told = told.lock().unwrap();
    assert_eq!(*told, [(1, 0, Explicit), (11, 1, Replaced), (11, 2, Explicit)]);
    drop(told);
    cache.audit();
}

#[test]
fn invalidate_all_is_complete_at_once_and_announces_each_entry_once() {
    let cache: Tested<u32, u32> = tested(|builder| builder);
    (0..5000).for_each(|n| cache.insert(n, n));
    cache.invalidate_all();
    assert!((0..5000).all(|n| cache.get(&n).is_none() && !cache.contains_key(&n)));
    assert_eq!(cache.entries().count(), 0);
    assert_eq!(cache.remove(&7), None);
    assert_eq!(cache.expires_in(&7).into_options(), None);
    assert!(!cache.set_ttl(&7, SECOND) && !cache.persist(&7) && !cache.touch(&7));
    cache.insert(7, 77);
    assert_eq!(cache.get(&7), Some(77));
    let told = cache.causes();
    assert_eq!(told, (0..5000).map(|n| (n, Explicit)).collect::<Vec<_>>());
    assert_eq!(cache.entry_count(), 1);
    cache.audit();
}

#[test]
fn a_computation_is_atomic_against_plain_inserts_and_removals() {
    let cache: Audited<u32, u64> = audited(Cache::new(100));
    let (threads, rounds) = (4, 2000);
    let barrier = Barrier::new(threads);
    let added = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..rounds {
                    // Between the look and the write nothing may come in.
                    cache.entry(1).and_compute_with(|entry| {
                        added.fetch_add(1, SeqCst);
                        Op::Put(entry.map_or(1, |n| *n + 1))
                    });
                    cache.insert(2, 0);
                    cache.remove(&2);
                }
            });
        }
    });
    assert_eq!(cache.get(&1), Some((threads * rounds) as u64));
    assert_eq!(added.load(SeqCst), threads * rounds);
}

#[test]
fn an_insert_waits_for_the_computation_of_its_key() {
    let cache: Audited<u32, u64> = audited(Cache::new(100));
    cache.insert(1, 1);
    let inserting = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let result = cache.entry(1).and_compute_with(|entry| {
            scope.spawn(|| {
                inserting.store(true, SeqCst);
                cache.insert(1, 100);
            });
            while !inserting.load(SeqCst) {
                std::thread::yield_now();
            }
            // However long this takes, the insert is not seen before it has ended.
            (0..100).for_each(|_| std::thread::yield_now());
            assert_eq!(cache.get(&1), Some(1));
            Op::Put(entry.map_or(0, |n| *n + 1))
        });
        assert!(matches!(result, CompResult::ReplacedWith(n) if *n == 2));
    });
    assert_eq!(cache.get(&1), Some(100));
}

#[test]
fn capacity_zero_turns_caching_off() {
    let cache: Tested<u32, u32> = tested(|builder| builder.max_capacity(0));
    cache.insert(1, 1);
    assert_eq!(cache.get(&1), None);
    assert_eq!(cache.get_with(2, || 22), 22);
    assert_eq!(cache.get_with(2, || 23), 23);
    let inserted = cache.entry(3).and_compute_with(|_| Op::Put(3));
    assert!(matches!(inserted, CompResult::Inserted(three) if *three == 3));
    assert_eq!(cache.entries().count(), 0);
    assert_eq!(cache.causes(), [(1, Size), (2, Size), (2, Size), (3, Size)]);
    assert_eq!((cache.entry_count(), cache.weighted_size()), (0, 0));
    cache.audit();
}

#[test]
fn dropping_the_last_handle_announces_nothing_and_close_announces_each() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let build = |told: &Arc<Mutex<Vec<(u32, RemovalCause)>>>| -> Audited<u32, Arc<()>> {
        let log = Arc::clone(told);
        let listener = move |removed: cortado::Removed<u32, Arc<()>>| {
            log.lock().unwrap().push((*removed.key(), removed.cause()));
        };
        audited(Cache::builder().removal_listener(listener).build())
    };
    let value = Arc::new(());
    let cache = build(&told);
    (0..100).for_each(|n| cache.insert(n, Arc::clone(&value)));
    let other = cache.clone();
    drop(cache);
    assert_eq!(Arc::strong_count(&value), 101);
    drop(other);
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(told.lock().unwrap().len(), 0);

    let cache = build(&told);
    (0..100).for_each(|n| cache.insert(n, Arc::clone(&value)));
    cache.close();
    let mut seen = std::mem::take(&mut *told.lock().unwrap());
    seen.sort();
    assert_eq!(seen, (0..100).map(|n| (n, Explicit)).collect::<Vec<_>>());
    // From now on nothing is kept, and still everything is announced.
    cache.insert(1, Arc::clone(&value));
    assert!(cache.get(&1).is_none());
    cache.run_pending_tasks();
    assert_eq!(*told.lock().unwrap(), [(1, Explicit)]);
    drop(cache);
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(told.lock().unwrap().len(), 1);
}

#[test]
fn a_load_over_an_expired_entry_announces_that_as_expired() {
    let cache: Tested<u32, u32> = tested(|builder| builder.time_to_live(SECOND));
    cache.insert(1, 1);
    cache.hand.advance(SECOND);
    assert_eq!(cache.get_with(1, || 2), 2);
    assert_eq!(cache.causes(), [(1, Expired)]);
    cache.hand.advance(SECOND);
    let result = cache.entry(1).and_compute_with(|entry| {
        assert!(entry.is_none(), "a computation sees no expired entry");
        Op::Put(3)
    });
    assert!(matches!(result, CompResult::Inserted(_)));
    assert_eq!(cache.causes(), [(1, Expired)]);
    cache.hand.advance(SECOND);
    let removed = cache.entry(1).and_compute_with(|_| Op::Remove);
    assert!(matches!(removed, CompResult::StillNone(_)));
    cache.pass(TICK);
    assert_eq!(cache.causes(), [(1, Expired)]);
    cache.audit();
}
