//! The weight that the cache reports is the weight that is in it, however it came and went, and no
//! part of the capacity is lost on the way.
//!
//! `CORTADO_WEIGHT_OPS` sets the number of operations per round, of which each test has three.

use crate::common::audited::{Audited, audited};
use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use cortado::{Cache, Clock, ManualClock, Op};
use std::time::Duration;

const CAPACITY: u64 = 10_000;
const KEYS: u64 = 2000;
const HEAVIEST: u64 = 20;

fn operations() -> u64 {
    scale("CORTADO_WEIGHT_OPS", 200_000)
}

/// The value is its weight.
fn step(cache: &Cache<u64, u32>, hand: &ManualClock, random: u64) {
    let key = (random >> 8) % KEYS;
    let weight = ((random >> 24) % (HEAVIEST + 1)) as u32;
    let life = Duration::from_millis((random >> 40) % 3000);
    match random % 64 {
        0..20 => cache.insert(key, weight),
        20..28 => cache.insert_with_ttl(key, weight, life),
        28..36 => cache.invalidate(&key),
        36..40 => drop(cache.remove_if(&key, |_, there| *there == weight)),
        40..46 => drop(cache.entry(key).and_compute_with(|_| Op::Put(weight))),
        46..48 => drop(cache.entry(key).and_compute_with(|_| Op::Remove)),
        48..52 => drop(cache.get_with(key, || weight)),
        52..55 => drop(cache.set_ttl(&key, life)),
        55..60 => drop(cache.get(&key)),
        60 => hand.advance(Duration::from_millis(20)),
        61 => cache.run_pending_tasks(),
        62 if random >> 48 & 0xff == 0 => cache.invalidate_all(),
        _ => cache.insert(KEYS + (random >> 16), weight),
    }
}

/// Whether what is reported is what is there.
fn check(cache: &Cache<u64, u32>) {
    // Until the last tick in which something ends is over.
    cache.audit();
    let (mut count, mut weight) = (0, 0);
    for entry in cache.entries() {
        assert_eq!(entry.weight(), *entry);
        count += 1;
        weight += u64::from(entry.weight());
    }
    assert_eq!((cache.entry_count(), cache.weighted_size()), (count, weight));
    assert!(weight <= CAPACITY);
}

fn mixed(threads: u64) {
    let (clock, hand) = Clock::manual();
    let cache: Audited<u64, u32> = audited(
        Cache::builder()
            .max_capacity(CAPACITY)
            .weigher(|_, &weight| weight)
            .clock(clock)
            .expiry_resolution(Duration::from_millis(1))
            .build(),
    );
    for round in 0..3 {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (cache, hand) = (&cache, &hand);
                scope.spawn(move || {
                    let mut state = seed(round << 8 | thread);
                    for _ in 0..operations() / threads {
                        step(cache, hand, draw(&mut state));
                    }
                });
            }
        });
        // What ends is gone when its tick is over; then all that is counted can be found.
        hand.advance(Duration::from_secs(10));
        check(&cache);
        // Whatever is left of them, there is room for others.
        let fresh = |n: u64| (1 + round) << 56 | n;
        (0..4 * CAPACITY).for_each(|n| cache.insert(fresh(n), 1));
        check(&cache);
        assert!(cache.weighted_size() * 100 >= CAPACITY * 99, "{} usable", cache.weighted_size());
        cache.invalidate_all();
        check(&cache);
        assert_eq!((cache.entry_count(), cache.weighted_size()), (0, 0));
        (0..2 * CAPACITY).for_each(|n| cache.insert(fresh(n), 1));
        check(&cache);
        assert!(cache.entry_count() * 100 >= CAPACITY * 99, "{} usable", cache.entry_count());
        counted(operations() / threads * threads, "operations");
    }
}

#[test]
fn on_one_thread() {
    mixed(1);
}

#[test]
fn on_two_threads() {
    mixed(2);
}

#[test]
fn on_four_threads() {
    mixed(4);
}

#[test]
fn on_eight_threads() {
    mixed(8);
}
