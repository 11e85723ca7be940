//! Hit ratios on synthetic loads: what the policy is there for. Same seeds, same figures in each
//! run.

use crate::store::{Random, Sim, hit_ratio};
use cortado::internals::policy::Policy;
use std::collections::BTreeMap;

const CAPACITY: u64 = 500;

fn adaptive() -> Policy {
    Policy::new(CAPACITY, 11)
}

fn lru() -> Policy {
    Policy::with_fixed_window(CAPACITY, 11, 1.0)
}

fn one_percent_window() -> Policy {
    Policy::with_fixed_window(CAPACITY, 11, 0.01)
}

/// Keys below `keys`, the n-th with a probability proportional to n^-skew.
fn zipf(keys: u64, skew: f64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random(seed);
    let mut sums: Vec<f64> = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += (rank as f64).powf(-skew);
        sums.push(sum);
    }
    std::iter::repeat_with(move || {
        let at = random.unit() * sum;
        sums.partition_point(|&sum| sum <= at) as u64
    })
}

/// Each key comes twice, at a distance of up to 400 new keys, and never again.
fn echo() -> impl Iterator<Item = u64> {
    let mut due = BTreeMap::<u64, Vec<u64>>::new();
    let mut random = Random(6);
    (0u64..).flat_map(move |now| {
        due.entry(now + 1 + random.below(400)).or_default().push(now);
        let again = due.remove(&now).unwrap_or_default();
        std::iter::once(now).chain(again)
    })
}

#[test]
fn skewed_loads_beat_lru() {
    let requests = || zipf(20_000, 0.9, 5).take(200_000);
    let (ours, lru) = (hit_ratio(adaptive(), requests()), hit_ratio(lru(), requests()));
    assert!(ours > lru + 8.0, "{ours:.1} %, LRU {lru:.1} %");
}

/// Loops of so many keys, of which the cache has room for 50, 80, 90 and 95 %:
/// `docs/notes/2026-11-29-eviction.md` has what they hit.
#[test]
fn loops_larger_than_the_cache_hit() {
    for (keys, least) in [(1_000, 40.0), (625, 58.0), (556, 72.0), (526, 80.0)] {
        let requests = || (0..keys).cycle().take(100_000);
        let (ours, lru) = (hit_ratio(adaptive(), requests()), hit_ratio(lru(), requests()));
        assert_eq!(lru, 0.0);
        assert!(ours > least, "{ours:.1} % of at most {}", 50_000 / keys);
    }
}

/// Keys that come twice at short distance and never again: only a large window hits.
#[test]
fn the_window_grows_where_recency_counts() {
    let requests = || echo().take(150_000);
    let narrow = hit_ratio(one_percent_window(), requests());
    let mut sim = Sim::new(adaptive());
    let before = sim.policy.window_target();
    let ours = sim.run(requests()).hit_ratio();
    assert!(sim.policy.window_target() > before * 2, "window {}", sim.policy.window_target());
    assert!(ours > narrow + 20.0, "{ours:.1} %, with a window of 1 % {narrow:.1} %");
}

/// Two requests in five are for one of as many keys as fit, the others for keys never asked for
/// again.
fn residents_and_scan() -> impl Iterator<Item = u64> {
    let mut random = Random(8);
    (1u64 << 40..).map(move |stranger| match random.below(5) {
        0..2 => (1 << 39) + random.below(CAPACITY * 9 / 10),
        _ => stranger,
    })
}

/// When the load turns from recency to frequency, the window goes back.
#[test]
fn the_window_shrinks_where_frequency_counts() {
    let mut sim = Sim::new(adaptive());
    sim.run(echo().take(150_000));
    let wide = sim.policy.window_target();
    sim.run(residents_and_scan().take(300_000));
    assert!(sim.policy.window_target() < wide / 2, "{} of {wide}", sim.policy.window_target());
}

/// A set of popular keys that moves on: the old favourites do not stay for ever.
#[test]
fn old_favourites_give_way() {
    let mut sim = Sim::new(adaptive());
    sim.run(zipf(400, 0.5, 1).take(100_000));
    sim.run(zipf(400, 0.5, 2).map(|key| key + 10_000).take(20_000));
    (sim.hits, sim.requests) = (0, 0);
    sim.run(zipf(400, 0.5, 3).map(|key| key + 10_000).take(20_000));
    assert!(sim.hit_ratio() > 90.0, "{:.1} %", sim.hit_ratio());
}

/// Popular keys of one weight in every second request, strangers of another in between: the hit
/// ratio of the popular ones in percent, once they are known.
fn popular_among_strangers(keys: u64, weight: u32, strangers: u32) -> f64 {
    let mut sim = Sim::new(adaptive());
    let mut random = Random(9);
    let (mut hits, mut lookups) = (0, 0);
    for round in 0..40_000 {
        let stranger = (1 << 40) + round;
        // Others after a while: they have to get into a cache that is full.
        let key = random.below(keys) + if round < 10_000 { 0 } else { 1 << 30 };
        let hit = sim.request_of(key, weight);
        if round > 20_000 {
            lookups += 1;
            hits += u32::from(hit);
        }
        sim.request_of(stranger, strangers);
        assert!(sim.policy.weight() <= CAPACITY);
    }
    sim.policy.validate(&sim.store).unwrap();
    f64::from(hits) / f64::from(lookups) * 100.0
}

/// Popular keys stay, be they a tenth of the cache each among light strangers, or light among
/// strangers that are a tenth of the cache each.
#[test]
fn neither_heavy_nor_light_entries_starve() {
    for (keys, weight, strangers) in [(8, 50, 1), (8, 50, 50), (300, 1, 50), (150, 2, 50)] {
        let ratio = popular_among_strangers(keys, weight, strangers);
        assert!(ratio > 90.0, "{keys} of {weight} among {strangers}: {ratio:.1} %");
    }
}
