//! The sample of the keys by which the rules are chosen: how large it is, which requests count in
//! it, and that it keeps no keys that it has no use for. In loads that only a wide window serves,
//! the time until the rules change tells when there was a verdict.

use crate::store::Sim;
use cortado::internals::policy::Policy;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

/// Each key comes twice, the second time after so many others have come, and never again.
fn echo(lag: u64) -> impl Iterator<Item = u64> {
    (1u64 << 32..).flat_map(move |now| [now, now - lag])
}

/// The cache is full, of keys that never come again.
fn full(capacity: u64, seed: u64) -> Sim {
    let mut sim = Sim::new(Policy::new(capacity, seed));
    sim.run(0..capacity + 1);
    sim
}

/// Requests until there is a wide window, if that comes within so many.
fn until_wide(sim: &mut Sim, keys: impl Iterator<Item = u64>, most: usize) -> Option<usize> {
    let wide = sim.policy.max_weight() / 8;
    assert!(sim.policy.window_target() < wide);
    let before = keys.take(most).take_while(|&key| {
        sim.request(key);
        sim.policy.window_target() < wide
    });
    Some(before.count() + 1).filter(|&requests| requests <= most)
}

/// One request in 2^n is in the sample, so that a shadow has a 64th of the entries, but 32 to 256
/// (or all); each has its verdict after as many sampled requests as that, and no fewer than 64.
#[test]
fn verdicts_come_after_so_many_requests() {
    // Entries, the load's lag, the sample's share, and sampled requests. Where a verdict takes so
    // few that the shadows' first keys have just come back by then, there are two.
    for (entries, lag, share, sampled) in [
        (20, 6, 1, 64),
        (100, 30, 4, 64),
        (512, 150, 16, 64),
        (1_024, 300, 32, 64),
        (2_112, 400, 64, 64),
        (4_096, 1_200, 64, 2 * 64),
        (16_384, 4_900, 64, 2 * 256),
    ] {
        const SEEDS: u64 = 8;
        let requests = (0..SEEDS).map(|seed| {
            let mut sim = full(entries, seed);
            until_wide(&mut sim, echo(lag), 200_000).expect("a window serves it best")
        });
        let mean = requests.sum::<usize>() as f64 / SEEDS as f64;
        let expected = f64::from(share * sampled);
        assert!((0.85..1.15).contains(&(mean / expected)), "{mean} for {entries}, not {expected}");
    }
}

/// The shadows follow a cache that is made smaller, and have their verdicts sooner.
#[test]
fn the_sample_follows_the_entries_down() {
    for seed in 0..4 {
        let mut sim = full(16_384, seed);
        sim.policy.set_max_weight(100);
        sim.run((0..200).map(|key| key + (1 << 20)));
        assert_eq!(sim.policy.len(), 100);
        sim.policy.validate(&sim.store).unwrap();
        let requests = until_wide(&mut sim, echo(30), 200_000).expect("a window serves it best");
        assert!(requests < 2_000, "{requests} with seed {seed}");
    }
}

/// Entries that have become heavier are fewer: what a cache of so many could not hold counts for no
/// rules.
#[test]
fn the_shadows_hold_no_more_than_the_cache() {
    for seed in 0..4 {
        let mut sim = full(5_000, seed);
        (0..=5_000).for_each(|key| sim.remove(key));
        for key in 10_000..11_000 {
            sim.request_of(key, 10);
        }
        assert_eq!(sim.policy.len(), 500);
        let before = sim.policy.window_target();
        for key in echo(450).take(20_000) {
            sim.request_of(key, 10);
        }
        assert_eq!(sim.policy.window_target(), before, "seed {seed}");
        sim.policy.validate(&sim.store).unwrap();
    }
}

/// What has left the cache by another way than eviction, and would have come back, is a hit under
/// no rules.
#[test]
fn what_was_removed_is_no_hit() {
    for seed in 0..4 {
        let mut sim = full(500, seed);
        let before = sim.policy.window_target();
        let mut held = VecDeque::new();
        for key in echo(150).take(60_000) {
            assert!(!sim.request(key));
            held.push_back(key);
            if held.len() > 5 {
                sim.remove(held.pop_front().unwrap());
            }
        }
        assert_eq!(sim.policy.window_target(), before, "seed {seed}");
        sim.policy.validate(&sim.store).unwrap();
    }
}

/// What was counted before the bound changed does not count any more once the cache is full again.
#[test]
fn a_new_bound_begins_anew() {
    for seed in 0..8 {
        let expected = until_wide(&mut full(500, seed), echo(150), 10_000).unwrap();
        let mut sim = full(500, seed);
        let mut keys = echo(150);
        for key in keys.by_ref().take(expected - 100) {
            sim.request(key);
        }
        sim.policy.set_max_weight(600);
        let requests = until_wide(&mut sim, keys, 10_000).unwrap();
        assert!(requests > 500, "{requests} with seed {seed}, {expected} without a new bound");
    }
}

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// All bytes that it has allocated.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

/// The bytes that this thread has allocated and not freed, and all that it has allocated.
pub fn memory() -> [isize; 2] {
    [HELD.get(), ALLOCATED.get()]
}

struct Counting;

impl Counting {
    fn count(bytes: isize) {
        HELD.set(HELD.get() + bytes);
        ALLOCATED.set(ALLOCATED.get() + bytes.max(0));
    }
}

#[expect(unsafe_code, reason = "an allocator can only be replaced by unsafe code")]
// SAFETY: the system's allocator does it all; beside it a number is kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size().cast_signed());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::count(-layout.size().cast_signed());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The memory of a policy, and of all that belongs to it, is that of its entries, however many keys
/// there are.
#[test]
fn keys_that_are_gone_take_no_memory() {
    let mut sim = full(500, 1);
    let mut keys = echo(150);
    sim.run(keys.by_ref().take(20_000));
    let before = HELD.get();
    sim.run(keys.by_ref().take(200_000));
    let more = HELD.get() - before;
    assert!(more < 4_096, "{more} bytes more after 100,000 keys");
    // Nor do those that leave the sample as the cache grows.
    sim.policy.set_max_weight(20_000);
    sim.run(keys.take(60_000));
    sim.policy.validate(&sim.store).unwrap();
}
