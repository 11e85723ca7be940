//! How far the cache is over its bound at any moment, counted from outside: while the writers are
//! held up between operations or in the listener, the weight of all that can be found is summed up.
//!
//! `CORTADO_OVERSHOOT_LOOKS` sets the number of moments per configuration.

use crate::common::audited::{Audited, audited};
use crate::common::crowd::{Crowd, Ending, counted, draw, seed, stripes};
use crate::common::effort::{is_sampled, scale};
use cortado::{Cache, Clock, Op};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
struct Case {
    threads: u64,
    capacity: u64,
    heaviest: u32,
    scheduled: bool,
}

impl Case {
    /// What the builder's documentation allows beyond the capacity: a sixteenth of it, or an entry
    /// per stripe of the write buffer. (The entry more for each writer is for those in the
    /// middle of a write. Here none is: a callback before the end of a write may keep others
    /// waiting for its key.)
    fn slack(self) -> u64 {
        let heaviest = u64::from(self.heaviest);
        (self.capacity / 16).max(stripes() * heaviest)
    }

    fn build(self, crowd: &Arc<Crowd>) -> (Audited<u64, u32>, cortado::ManualClock) {
        let (clock, hand) = Clock::manual();
        let telling = Arc::clone(crowd);
        let builder = Cache::builder()
            .max_capacity(self.capacity)
            .clock(clock)
            .scheduler(self.scheduled)
            .expiry_resolution(Duration::from_millis(1))
            .removal_listener(move |_| telling.rest());
        let weighed = self.heaviest > 1;
        let builder = if weighed { builder.weigher(|_, &weight| weight) } else { builder };
        (audited(builder.build()), hand)
    }
}

/// A capacity with which writes may be spilled: a quarter of its sixteenth is what stripes of 512
/// hold.
fn large() -> u64 {
    64 * 512 * stripes()
}

fn held(cache: &Cache<u64, u32>) -> u64 {
    cache.entries().map(|entry| u64::from(entry.weight())).sum()
}

fn write(
    cache: &Cache<u64, u32>,
    hand: &cortado::ManualClock,
    case: Case,
    thread: u64,
    crowd: &Crowd,
) {
    let _membership = crowd.join();
    let mut state = seed(thread);
    let mut fresh = 0;
    while !crowd.is_over() {
        let random = draw(&mut state);
        let weight = 1 + (random >> 32) as u32 % case.heaviest;
        // Mostly keys that were never there; some that others write too.
        fresh += 1;
        let key =
            if random.is_multiple_of(4) { random >> 8 & 0xff } else { thread << 48 | fresh << 8 };
        let life = Duration::from_millis((random >> 40) % 100);
        match random >> 56 & 15 {
            0 => cache.invalidate(&key),
            1 => drop(cache.entry(key).or_insert_with(|| weight)),
            2 => drop(cache.entry(key).and_compute_with(|_| Op::Put(weight))),
            3 => drop(cache.get(&(random >> 8 & 0xff))),
            4 => drop(cache.set_ttl(&key, life)),
            5 => cache.insert_with_ttl(key, weight, life),
            6 if random & 0xff00 == 0 => hand.advance(Duration::from_millis(1)),
            _ => cache.insert(key, weight),
        }
        crowd.rest();
    }
}

fn check(case: Case) {
    let crowd = Arc::new(Crowd::default());
    let (cache, hand) = case.build(&crowd);
    let mut most = 0;
    std::thread::scope(|scope| {
        let _ending = Ending(&crowd);
        for thread in 0..case.threads {
            let (cache, hand, crowd) = (&cache, &hand, &*crowd);
            scope.spawn(move || write(cache, hand, case, thread, crowd));
        }
        let mut state = seed(case.capacity);
        let mut looks = 0;
        while looks < scale("CORTADO_OVERSHOOT_LOOKS", 25) {
            let held = crowd.observe(|| held(&cache));
            let allowed = case.capacity + case.slack();
            assert!(held <= allowed, "{case:?}: {held} at one moment, {allowed} allowed");
            most = most.max(held);
            // While it fills there is nothing to see.
            looks += u64::from(most >= case.capacity);
            (0..draw(&mut state) % 4096).for_each(|_| std::hint::spin_loop());
        }
    });
    eprintln!("{case:?}: {most} at most, {} over", most.saturating_sub(case.capacity));
    counted(scale("CORTADO_OVERSHOOT_LOOKS", 25), "moments");
    cache.run_pending_tasks();
    assert!(held(&cache) <= case.capacity && cache.weighted_size() <= case.capacity);
    cache.audit();
}

/// Four, and in a whole run others too.
fn threads() -> impl Iterator<Item = u64> {
    [4, 1, 2, 8].into_iter().filter(|threads| *threads == 4 || is_sampled(threads))
}

#[test]
fn of_entries() {
    for threads in threads() {
        for (capacity, scheduled) in
            [(1, false), (64, true), (1000, false), (20_000, false), (large(), false)]
        {
            check(Case { threads, capacity, heaviest: 1, scheduled });
        }
    }
}

#[test]
fn of_weight() {
    for threads in threads() {
        for (capacity, heaviest, scheduled) in
            [(100, 20, false), (5000, 300, false), (5000, 3, true)]
        {
            check(Case { threads, capacity, heaviest, scheduled });
        }
    }
}
