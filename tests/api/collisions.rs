//! Keys that share a hash, and computations among them.

use crate::common::audited::{Audited, audited};
use crate::common::same_hash::Same;
use crate::common::{MINUTE, SECOND, must_end, yield_a_while};
use cortado::{Cache, Clock, Op};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn colliding(capacity: u64) -> Audited<u32, u32, Same> {
    audited(Cache::builder().max_capacity(capacity).build_with_hasher(Same))
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let cache = colliding(1000);
    (0..500).for_each(|key| cache.insert(key, key + 1));
    (0..500).filter(|key| key % 2 == 0).for_each(|key| cache.invalidate(&key));
    (0..500).for_each(|key| assert_eq!(cache.get(&key), (key % 2 == 1).then_some(key + 1)));
    assert_eq!(cache.entries().count(), 250);
    cache.audit();
    cache.invalidate_all();
    assert_eq!(cache.entries().count(), 0);
    cache.audit();
    assert_eq!(cache.entry_count(), 0);
}

#[test]
fn the_bound_holds_over_keys_of_one_hash() {
    let cache = colliding(100);
    (0..1000).for_each(|key| cache.insert(key, key));
    cache.audit();
    assert_eq!(cache.entry_count(), 100);
}

#[test]
fn a_computation_may_do_anything_to_other_keys_of_its_hash() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let (clock, hand) = Clock::manual();
    let cache: Audited<u32, u32, Same> = audited(
        Cache::builder()
            .max_capacity(10)
            .clock(clock)
            .time_to_live(MINUTE)
            .removal_listener(move |_| {
                count.fetch_add(1, SeqCst);
            })
            .build_with_hasher(Same),
    );
    must_end(move || {
        for key in 0..6 {
            let clears = key % 2 == 1;
            (0..10).for_each(|key| cache.insert(key, key));
            let inner = cache.clone();
            let hand = hand.clone();
            cache.entry(key).and_compute_with(move |_| {
                inner.insert(20, 20);
                inner.insert(20, 21);
                assert_eq!(inner.get(&20), Some(21));
                inner.remove(&20);
                inner.get_with(21, || 21);
                inner.entry(22).and_compute_with(|_| Op::Put(22));
                (100..200).for_each(|key| inner.insert(key, key));
                inner.run_pending_tasks();
                inner.retain(|other, _| *other == key);
                inner.set_ttl(&100, SECOND);
                hand.advance(2 * MINUTE);
                inner.run_pending_tasks();
                if clears {
                    inner.invalidate_all();
                }
                inner.run_pending_tasks();
                // Inside of a computation nothing is delivered.
                let _ = inner.run_pending_tasks_up_to(10);
                Op::Put(key)
            });
            // What it was computed from was cleared, and so is what came of it.
            assert_eq!(cache.get(&key), (!clears).then_some(key));
            cache.audit();
            assert_eq!(cache.entry_count(), u64::from(!clears));
        }
    });
}

#[test]
fn retain_does_not_remove_an_entry_in_the_middle_of_its_computation() {
    let cache: Audited<u32, u32> = audited(Cache::new(100));
    cache.insert(1, 1);
    let retaining = AtomicBool::new(false);
    std::thread::scope(|scope| {
        cache.entry(1).and_compute_with(|entry| {
            scope.spawn(|| {
                retaining.store(true, SeqCst);
                cache.retain(|_, value| *value != 1);
            });
            while !retaining.load(SeqCst) {
                std::thread::yield_now();
            }
            yield_a_while();
            assert_eq!(cache.get(&1), Some(1));
            Op::Put(entry.map_or(100, |n| *n + 1))
        });
    });
    // What it judged is no longer there.
    assert_eq!(cache.get(&1), Some(2));
}

/// The maintenance must get past computations of other keys, wherever these are on the board.
#[test]
fn computations_among_evictions_hold_nobody_up() {
    must_end(|| {
        let cache: Audited<u32, u32> = audited(Cache::new(64));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..5000 {
                        let key = thread * 10_000 + n;
                        cache.entry(key).and_compute_with(|_| {
                            if n % 16 == 0 {
                                cache.run_pending_tasks();
                            }
                            cache.insert(key + 100_000, n);
                            Op::Put(n)
                        });
                    }
                });
            }
        });
        cache.audit();
        assert!(cache.entry_count() <= 64);
    });
}

#[test]
fn many_clearings_during_a_computation_bring_nothing_back() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let cache: Audited<u32, u32> = audited(
        Cache::builder()
            .removal_listener(move |removed| log.lock().unwrap().push(*removed.key()))
            .build(),
    );
    let inner = cache.clone();
    must_end(move || {
        for rounds in [1, 100, 253, 254, 255, 256, 257, 300, 600] {
            (0..50).for_each(|key| inner.insert(key, key));
            inner.entry(7).and_compute_with(|entry| {
                assert!(entry.is_some());
                for round in 0..rounds {
                    inner.invalidate_all();
                    assert!((0..50).all(|key| !inner.contains_key(&key)), "round {round}");
                }
                Op::Nop
            });
            assert!((0..50).all(|key| !inner.contains_key(&key)), "{rounds} rounds");
            inner.audit();
            assert_eq!(inner.entry_count(), 0);
        }
    });
    let mut told = told.lock().unwrap();
    assert_eq!(told.len(), 9 * 50);
    told.sort();
    assert!((0..450).all(|n| told[n as usize] == n / 9));
}
