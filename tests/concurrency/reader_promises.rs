//! Promises to those who look while others write, checked from outside.
//!
//! `CORTADO_PROMISE_OPS` sets the number of operations per thread.

use crate::common::audited::{Audited, audited};
use crate::common::crowd::{counted, draw, seed, stripes};
use crate::common::effort::{scale, share};
use cortado::{Cache, Clock, ManualClock, RemovalCause};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn operations() -> u64 {
    scale("CORTADO_PROMISE_OPS", 300_000)
}

/// Sets it when dropped: also if its thread panics.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A value that knows when it is to end.
#[derive(Clone, Copy, Debug)]
struct Doomed {
    deadline: Duration,
}

/// The lookups, each as a function from a key to what it finds, and what is left of its life if the
/// lookup tells.
type Lookup = fn(&Cache<u64, Doomed>, u64) -> Option<(Doomed, Option<Duration>)>;

const LOOKUPS: [Lookup; 5] = [
    |cache, key| cache.get(&key).map(|value| (value, None)),
    |cache, key| cache.pin().get(&key).map(|value| (*value, None)),
    |cache, key| cache.peek(&key).map(|entry| (*entry, entry.expires_in())),
    |cache, key| cache.get_entry(&key).map(|entry| (*entry, entry.expires_in())),
    |cache, key| cache.entries().find(|entry| *entry.key() == key).map(|entry| (*entry, None)),
];

/// Deadlines are given as instants, so each value knows its own exactly; the clock is moved by the
/// writers all the time. What a lookup finds ends after the time that the clock showed before it.
#[test]
fn no_value_is_seen_at_its_deadline() {
    const KEYS: u64 = 32;
    let (clock, hand) = Clock::manual();
    let cache: Audited<u64, Doomed> =
        audited(Cache::builder().clock(clock).expiry_resolution(Duration::from_millis(1)).build());
    cache.insert_with_ttl(0, Doomed { deadline: Duration::ZERO }, Duration::from_secs(1));
    let origin = cache.expires_at(&0).into_options().flatten().expect("it has a term")
        - Duration::from_secs(1);
    cache.invalidate(&0);
    let over = AtomicBool::new(false);
    let write = |thread: u64| {
        let _finish = Finish(&over);
        let mut state = seed(thread);
        for _ in 0..operations() {
            let random = draw(&mut state);
            let deadline = hand.now() + Duration::from_nanos(random >> 32 & 0xff);
            cache.insert_until(random % KEYS, Doomed { deadline }, origin + deadline);
            if random >> 48 & 3 == 0 {
                hand.advance(Duration::from_nanos(random >> 50 & 0x3f));
            }
        }
    };
    let (mut state, mut found) = (seed(77), 0);
    std::thread::scope(|scope| {
        let write = &write;
        (0..2).for_each(|thread| drop(scope.spawn(move || write(thread))));
        let _finish = Finish(&over);
        while !over.load(Ordering::Acquire) {
            let random = draw(&mut state);
            let lookup = LOOKUPS[(random >> 32) as usize % LOOKUPS.len()];
            let before = hand.now();
            if let Some((value, left)) = lookup(&cache, random % KEYS) {
                assert!(value.deadline > before, "{value:?} was seen after {before:?}");
                assert!(
                    left.is_none_or(|left| before + left <= value.deadline),
                    "{left:?} is left"
                );
                found += 1;
            }
        }
    });
    assert!(found > 0);
    cache.audit();
    counted(found, "reads");
}

/// Keys that always have a value are always found, while others come and go, the index grows, time
/// passes and the values themselves are replaced. What is found never goes back to an older value.
fn always_found(cache: &Cache<u64, u64>, hand: &ManualClock) {
    const STEADY: u64 = 16;
    const BUSY: u64 = 4;
    (0..STEADY + BUSY).for_each(|key| cache.insert(key, 0));
    let over = AtomicBool::new(false);
    let write = |thread: u64| {
        let _finish = Finish(&over);
        let mut state = seed(thread);
        for n in 0..operations() {
            let random = draw(&mut state);
            let other = 1000 + (random >> 16) % (1 + n);
            match random % 16 {
                // One writer for each of the busy keys, so that its values are in order.
                0..6 => cache.insert(STEADY + random / 16 % 2 + 2 * thread, n),
                6..10 => cache.insert(other, n),
                10..12 => cache.insert_with_ttl(other, n, Duration::from_nanos(random >> 48)),
                12 => cache.invalidate(&other),
                13 => drop(cache.set_ttl(&other, Duration::from_nanos(random >> 48))),
                14 => hand.advance(Duration::from_nanos(random >> 52)),
                _ if n.is_multiple_of(1 << 12) => {
                    cache.retain(|key, _| *key < 1000 || key % 2 == 0)
                }
                _ => drop(cache.get(&other)),
            }
        }
    };
    let read = |thread: u64| {
        let mut state = seed(77 + thread);
        let mut last = [0; (STEADY + BUSY) as usize];
        let mut reads = 0;
        while !over.load(Ordering::Acquire) {
            let random = draw(&mut state);
            let key = random % (STEADY + BUSY);
            let value = match random >> 32 & 3 {
                0 => cache.get(&key),
                1 => cache.pin().get(&key).copied(),
                2 => cache.peek(&key).map(|entry| *entry),
                _ => cache.get_entry(&key).map(|entry| *entry),
            };
            let value = value.unwrap_or_else(|| panic!("key {key} was not found"));
            let newest = &mut last[key as usize];
            assert!(value >= *newest, "key {key}: {value} was found after {newest}");
            *newest = value;
            reads += 1;
        }
        reads
    };
    std::thread::scope(|scope| {
        let (write, read, over) = (&write, &read, &over);
        let writers: Vec<_> = (0..2).map(|thread| scope.spawn(move || write(thread))).collect();
        let reader = scope.spawn(move || {
            let _finish = Finish(over);
            read(1)
        });
        let reads = read(0) + reader.join().unwrap();
        counted(reads, "reads");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn a_key_that_is_there_is_found() {
    for scheduled in [false, true] {
        let (clock, hand) = Clock::manual();
        always_found(&audited(Cache::builder().clock(clock).scheduler(scheduled).build()), &hand);
    }
}

/// With an idle time each read moves the deadline.
#[test]
fn a_key_that_is_there_is_found_and_prolonged() {
    let (clock, hand) = Clock::manual();
    let idle = Duration::from_secs(1 << 40);
    always_found(&audited(Cache::builder().clock(clock).time_to_idle(idle).build()), &hand);
}

/// What is in the index when all writers pause, without any maintenance asked for, is within the
/// bound and the slack that the builder's documentation states: a sixteenth, or an entry per stripe
/// of the write buffer. While they write it is an entry more for each.
#[test]
fn the_bound_holds_between_passes() {
    const THREADS: u64 = 4;
    for (capacity, heaviest) in [(1, 1), (10, 1), (1000, 1), (20_000, 1), (100, 20), (5000, 300)] {
        let builder = Cache::builder().max_capacity(capacity).weigher(|_, &weight| weight);
        let cache: Audited<u64, u32> = audited(builder.record_stats(true).build());
        let slack = (capacity / 16).max(stripes() * u64::from(heaviest));
        let (pause, most) = (Barrier::new(THREADS as usize), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let work = |thread: u64| {
                let (cache, pause, most) = (&cache, &pause, &most);
                move || {
                    let mut state = seed(thread);
                    for round in 0..share(20).max(5) + operations() / 5000 + capacity / 300 {
                        for n in 0..200 {
                            let random = draw(&mut state);
                            let key = thread << 48 | round << 16 | n;
                            let weight = 1 + (random >> 32) as u32 % heaviest;
                            match random % 8 {
                                0 => drop(cache.get(&(random >> 8))),
                                1 => cache.invalidate(&(key - n / 2)),
                                2 => drop(cache.entry(key).or_insert_with(|| weight)),
                                _ => cache.insert(key, weight),
                            }
                        }
                        if pause.wait().is_leader() {
                            let held: u64 =
                                cache.entries().map(|entry| u64::from(entry.weight())).sum();
                            most.fetch_max(held, Ordering::Relaxed);
                        }
                        pause.wait();
                    }
                }
            };
            (0..THREADS).for_each(|thread| drop(scope.spawn(work(thread))));
        });
        let most = most.into_inner();
        assert!(cache.stats().removed(RemovalCause::Size) > 0, "never full: {most} of {capacity}");
        assert!(most <= capacity + slack, "{most} of {capacity}, with a slack of {slack}");
        cache.audit();
        assert!(cache.weighted_size() <= capacity);
    }
}
