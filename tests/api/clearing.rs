//! `invalidate_all`, maintenance in slices, and promises about memory and bounds.

use crate::common::audited::{Audited, audited};
use crate::common::effort::share;
use crate::common::{MINUTE, SECOND, TICK, Tested, must_end, tested};
use cortado::RemovalCause::{Expired, Explicit, Size};
use cortado::{Cache, Clock, Pending};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

#[test]
fn three_hundred_clearings_in_a_row() {
    must_end(|| {
        let cache: Tested<u32, u32> = tested(|builder| builder);
        // Some entries meet all of them, some only the last.
        for clearing in 0..300 {
            (0..10).for_each(|n| cache.insert(clearing * 10 + n, clearing));
            cache.invalidate_all();
            assert_eq!(cache.entries().count(), 0, "after {clearing}");
            assert!((0..10).all(|n| cache.get(&(clearing * 10 + n)).is_none()));
            assert!((0..10).all(|n| !cache.contains_key(&n)));
        }
        let told = cache.causes();
        assert_eq!(told, (0..3000).map(|key| (key, Explicit)).collect::<Vec<_>>());
        cache.audit();
        assert_eq!(cache.entry_count(), 0);
    });
}

#[test]
fn clearings_of_nothing_bring_nothing_back() {
    let cache: Tested<u32, u32> = tested(|builder| builder);
    (0..1000).for_each(|key| cache.insert(key, key));
    cache.settle();
    for clearing in 0..600 {
        cache.invalidate_all();
        assert!(!cache.contains_key(&(clearing % 1000)), "after {clearing}");
    }
    assert_eq!(cache.causes().len(), 1000);
    cache.audit();
}

/// More of them than can wait for their sweep: the bits by which an entry knows its clearing come
/// round, and what an earlier one took must not come back with them.
#[test]
fn clearings_that_run_ahead_of_their_sweep() {
    const ENTRIES: u32 = 100_000;
    must_end(|| {
        let cache: Tested<u32, u32> = tested(|builder| builder);
        (0..ENTRIES).for_each(|key| cache.insert(key, key));
        cache.settle();
        for clearing in 0..200 {
            cache.invalidate_all();
            let old = (0..ENTRIES).step_by(997).find(|key| cache.contains_key(key));
            assert_eq!(old, None, "after {clearing} more");
        }
        assert!(cache.causes().into_iter().eq((0..ENTRIES).map(|key| (key, Explicit))));
    });
}

/// Clearings that come faster than passes sweep do shares of the sweep. None of them does all that
/// is left, as it would if the generations ran out.
#[test]
fn clearings_share_the_sweep_of_a_large_cache() {
    const ENTRIES: u64 = 20_000;
    /// As many as nodes can tell apart.
    const CLEARINGS: u64 = 1 << 14;
    must_end(|| {
        // A sweep visits each bucket of the index: so many that passes do not come round in time.
        let entries = share(8).max(3) as usize * (1 << 20);
        let builder = Cache::builder().initial_capacity(entries).clock(Clock::manual().0);
        let cache: Audited<u64, u64> = audited(builder.build());
        (0..ENTRIES).for_each(|key| cache.insert(key, key));
        cache.run_pending_tasks();
        let (mut before, mut most) = (cache.entry_count(), 0);
        assert_eq!(before, ENTRIES);
        for clearing in 0..CLEARINGS {
            // A clearing of nothing does not count.
            cache.insert(ENTRIES + clearing, clearing);
            cache.invalidate_all();
            assert!(!cache.contains_key(&(ENTRIES + clearing)), "after {clearing}");
            assert!(!cache.contains_key(&(clearing % ENTRIES)), "after {clearing}");
            let after = cache.entry_count();
            most = most.max(before.saturating_sub(after));
            before = after;
        }
        assert!(most > 0 && most < ENTRIES / 100, "one clearing removed {most} of {ENTRIES}");
        cache.run_pending_tasks();
        assert_eq!(cache.entry_count(), 0);
    });
}

#[test]
fn clearings_among_inserts_from_several_threads() {
    must_end(|| {
        let cache: Tested<u32, u32> = tested(|builder| builder.max_capacity(500));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..5000 {
                        let key = thread * 100_000 + n;
                        cache.insert(key, n);
                        if n % 100 == 99 {
                            cache.invalidate_all();
                            // What this thread has put in before is gone.
                            assert!(
                                (n - 99..=n).all(|n| !cache.contains_key(&(thread * 100_000 + n)))
                            );
                        }
                    }
                });
            }
        });
        cache.audit();
        let told = cache.causes();
        assert_eq!(told.len() as u64 + cache.entry_count(), 15_000);
        assert!(told.windows(2).all(|pair| pair[0].0 != pair[1].0), "one announced twice");
        assert!(told.iter().all(|told| told.1 == Explicit || told.1 == Size));
    });
}

/// Whether nothing is left but what has to wait for the guards of other threads, such as those of
/// other tests.
fn is_idle(pending: &Pending) -> bool {
    !pending.expirations
        && pending.notifications == 0
        && !pending.other
        && pending.excess_weight == 0
}

#[test]
fn slices_of_maintenance_say_what_is_left_and_come_to_an_end() {
    let cache: Tested<u32, u32> = tested(|builder| builder.time_to_live(MINUTE));
    cache.settle();
    assert!(cache.run_pending_tasks_up_to(1).is_done());
    (0..2000).for_each(|key| cache.insert(key, key));
    cache.settle();
    cache.hand.advance(MINUTE + TICK);
    let mut before = cache.entry_count();
    let (mut slices, mut due) = (0, 0);
    let started = std::time::Instant::now();
    loop {
        let pending = cache.run_pending_tasks_up_to(100);
        slices += 1;
        let after = cache.entry_count();
        assert!(before - after <= 100, "{} in a slice of 100", before - after);
        before = after;
        due += usize::from(pending.expirations);
        if is_idle(&pending) {
            break;
        }
        assert!(slices < 10_000 && started.elapsed() < crate::common::HANG, "{pending:?}");
    }
    assert!(slices >= 20 && due >= 18, "{slices} slices, {due} of them left something due");
    assert!(slices <= 100, "{slices} slices: most of the units were for nothing");
    assert_eq!(cache.causes(), (0..2000).map(|key| (key, Expired)).collect::<Vec<_>>());
    // A clearing is swept in slices, too.
    (0..2000).for_each(|key| cache.insert(key, key));
    cache.settle();
    cache.invalidate_all();
    let pending = cache.run_pending_tasks_up_to(10);
    assert!(pending.other && !pending.is_done(), "{pending:?}");
    assert!(cache.entry_count() > 1000);
    while !is_idle(&cache.run_pending_tasks_up_to(50)) {}
    assert_eq!(cache.entry_count(), 0);
    assert_eq!(cache.causes().len(), 2000);
    cache.audit();
    let started = std::time::Instant::now();
    while !cache.run_pending_tasks_up_to(50).is_done() {
        assert!(started.elapsed() < crate::common::HANG, "it never comes to an end");
        std::thread::yield_now();
    }
}

#[test]
fn what_waits_for_readers_alone_is_no_other_work() {
    let cache: Tested<u32, u32> = tested(|builder| builder);
    let pinned = cache.pin();
    (0..2000).for_each(|key| cache.insert(key, key));
    // Outgrown tables of the index stay for the sake of the reader.
    let mut pending = cache.run_pending_tasks_up_to(1000);
    for _ in 0..1000 {
        if is_idle(&pending) {
            break;
        }
        pending = cache.run_pending_tasks_up_to(1000);
    }
    assert!(is_idle(&pending) && pending.reclamations > 0, "{pending:?}");
    drop(pinned);
    let started = std::time::Instant::now();
    while !cache.run_pending_tasks_up_to(1000).is_done() {
        assert!(started.elapsed() < crate::common::HANG, "it never comes to an end");
        std::thread::yield_now();
    }
}

#[test]
fn a_slice_of_nothing_does_nothing_but_tell() {
    let cache: Tested<u32, u32> = tested(|builder| builder.time_to_live(MINUTE));
    (0..100).for_each(|key| cache.insert(key, key));
    cache.settle();
    cache.hand.advance(MINUTE + TICK);
    let pending = cache.run_pending_tasks_up_to(0);
    assert!(pending.expirations && !pending.is_done(), "{pending:?}");
    assert_eq!(cache.entry_count(), 100);
    assert_eq!(cache.stats().removed(Expired), 0);
    cache.audit();
}

#[test]
fn notifications_are_delivered_in_slices() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let (clock, hand) = Clock::manual();
    let cache: Audited<u32, u32> = audited(
        Cache::builder()
            .clock(clock)
            .removal_listener(move |_| {
                count.fetch_add(1, SeqCst);
            })
            .build(),
    );
    (0..3000).for_each(|key| cache.insert_with_ttl(key, key, SECOND));
    cache.run_pending_tasks();
    hand.advance(10 * SECOND);
    let mut heard = 0;
    let mut left = Vec::new();
    loop {
        let pending = cache.run_pending_tasks_up_to(64);
        let now = told.load(SeqCst);
        assert!(now - heard <= 64, "{} in a slice of 64", now - heard);
        heard = now;
        left.push(pending.notifications);
        if is_idle(&pending) {
            break;
        }
    }
    assert_eq!(heard, 3000);
    assert_eq!(left.last(), Some(&0));
}

#[test]
fn no_operation_expires_more_than_its_share() {
    let cache: Tested<u32, u32> = tested(|builder| builder);
    (0..50_000).for_each(|key| cache.insert_with_ttl(key, key, SECOND));
    cache.insert(100_000, 1);
    cache.settle();
    cache.hand.advance(10 * SECOND);
    let mut before = 0;
    for n in 0..500 {
        match n % 4 {
            0 => assert_eq!(cache.get(&100_000), Some(1)),
            1 => cache.insert(200_000 + n, n),
            2 => assert!(!cache.contains_key(&n)),
            _ => cache.invalidate(&(200_000 + n)),
        }
        let expired = cache.stats().removed(Expired);
        assert!(expired - before <= 256, "{} at once", expired - before);
        before = expired;
    }
    assert!(before > 0, "operations take part");
    assert_eq!(cache.causes().iter().filter(|told| told.1 == Expired).count(), 50_000);
    cache.audit();
}

#[test]
fn between_passes_the_bound_is_exceeded_by_a_sixteenth_at_most() {
    for capacity in [100, 1000, 10_000] {
        let alive = Arc::new(());
        let cache: Audited<u32, Arc<()>> = audited(Cache::new(capacity));
        let mut most = 0;
        for key in 0..3 * capacity as u32 {
            cache.insert(key, Arc::clone(&alive));
            if u64::from(key).is_multiple_of(97.max(capacity / 16)) {
                most = most.max(cache.entries().count());
            }
        }
        // One entry more for each stripe of the write buffer, and for the thread that writes.
        let slack = capacity / 16 + 17;
        assert!(most as u64 <= capacity + slack, "{most} of {capacity}");
    }
}

#[test]
fn values_are_dropped_when_they_are_gone_and_nobody_holds_them() {
    let cache: Tested<u32, Arc<u32>> = tested(|builder| builder.max_capacity(100));
    let values: Vec<Weak<u32>> = (0..300)
        .map(|n| {
            let value = Arc::new(n);
            let weak = Arc::downgrade(&value);
            cache.insert_with_ttl(n, value, MINUTE);
            weak
        })
        .collect();
    cache.invalidate(&299);
    drop(cache.told());
    let alive = || values.iter().filter(|value| value.strong_count() > 0).count();
    eventually(&cache, || alive() as u64 == cache.entry_count());
    let held = cache.entries().next().unwrap();
    cache.hand.advance(2 * MINUTE);
    drop(cache.told());
    eventually(&cache, || alive() == 1);
    drop(held);
    eventually(&cache, || alive() == 0);
}

/// Other tests of the process may hold a guard for a moment.
fn eventually(cache: &Tested<u32, Arc<u32>>, holds: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < crate::common::HANG, "it never holds");
        cache.cache.run_pending_tasks();
        std::thread::yield_now();
    }
}
