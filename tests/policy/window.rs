//! The window's target: what moves it, how far, and how often.

use crate::heap::memory;
use crate::store::{Random, Sim, Store, hit_ratio};
use cortado::internals::policy::{Policy, PolicyStore, Region};

const CAPACITY: u64 = 100;

/// Full of keys that were asked for once. The window has room for two entries.
fn full(policy: Policy) -> Sim {
    let mut sim = Sim::new(policy);
    sim.run(0..CAPACITY);
    sim
}

/// Has a key asked for so often, and then so many others that it is a candidate no longer.
fn pass(sim: &mut Sim, key: u64, times: usize) -> Region {
    sim.run(std::iter::repeat_n(key, times));
    sim.run((key + 1)..(key + 4));
    sim.region(key)
}

/// A key that comes back after its rejection widens the window by its weight, and goes to the main
/// region. A victim that comes back narrows it by its weight, and goes to the window. Each does so
/// once.
#[test]
fn who_comes_back_moves_the_target_by_its_weight() {
    let mut sim = full(Policy::new(CAPACITY, 1));
    let target = |sim: &Sim| sim.policy.window_target();
    assert_eq!(target(&sim), 2);
    assert_eq!(pass(&mut sim, 1_000, 1), Region::None, "rejected");
    assert_eq!(target(&sim), 2, "a rejection by itself moves nothing");
    sim.request_of(1_000, 7);
    assert_eq!((target(&sim), sim.region(1_000)), (9, Region::Probation));
    sim.request(1_000);
    assert_eq!(target(&sim), 9, "nor does a hit");
    sim.remove(1_000);
    sim.request_of(1_000, 7);
    assert_eq!((target(&sim), sim.region(1_000)), (9, Region::Window), "nor who was removed");
    // The oldest of the main region gives way to more frequent ones.
    let mut key = 2_000;
    while sim.contains(5) {
        pass(&mut sim, key, 5);
        key += 100;
    }
    let before = target(&sim);
    sim.request_of(5, 3);
    assert_eq!((target(&sim), sim.region(5)), (before - 3, Region::Window));
    sim.policy.validate(&sim.store).unwrap();
}

/// Strangers move nothing, but for one in some thousands that is taken for another key.
#[test]
fn strangers_move_nothing() {
    let mut sim = full(Policy::new(CAPACITY, 1));
    let mut moves = 0;
    for stranger in 1_000..21_000 {
        let before = sim.policy.window_target();
        sim.request(stranger);
        moves += u32::from(sim.policy.window_target() != before);
    }
    assert!(moves < 20, "{moves} moves by 20,000 strangers");
}

/// Where the least and the greatest target of a maximum are.
fn bounds(max: u64) -> [u64; 2] {
    let least = (max / 100).max(1).min(max);
    [least, (max - max / 50).max(least)]
}

/// Whatever comes back, and whatever it weighs.
#[test]
fn the_target_stays_within_its_bounds() {
    let mut random = Random(3);
    for max in (1..=64).chain([100, 999, 1 << 40]) {
        let mut sim = Sim::new(Policy::new(max, max));
        let [mut least, mut greatest] = [u64::MAX, 0];
        let wide = max.min(u64::from(u32::MAX)) as u32;
        for round in 0..6_000 {
            // Scans that come back, and then popular keys among strangers.
            let key = if round < 3_000 { round % (2 * max.min(200)) } else { random.below(max) };
            sim.request_of(key, if max > 64 { wide / 3 } else { 1 });
            let target = sim.policy.window_target();
            [least, greatest] = [least.min(target), greatest.max(target)];
        }
        let [lowest, highest] = bounds(max);
        assert!(least >= lowest && greatest <= highest, "{least} to {greatest} of {max}");
        sim.policy.validate(&sim.store).unwrap();
    }
    for max in [0, 1, 2, 50, 100, u64::MAX] {
        let policy = Policy::new(max, 1);
        let [lowest, highest] = bounds(max);
        assert!((lowest..=highest).contains(&policy.window_target()), "of {max}");
    }
}

/// The window keeps its share when the maximum changes.
#[test]
fn the_share_of_the_window_stays() {
    let mut sim = Sim::new(Policy::new(1_000, 1));
    sim.run((0..1_200).cycle().take(20_000));
    // A stretch of keys that come twice widens it.
    sim.run((10_000..40_000).flat_map(|key| [key, key - 300]));
    let share = sim.policy.window_target() as f64 / 1_000.0;
    assert!(share > 0.1, "{share}");
    for max in [100, 100_000, u64::MAX, 1_000] {
        sim.policy.set_max_weight(max);
        let now = sim.policy.window_target() as f64 / max as f64;
        assert!((now - share).abs() < 0.02, "{now} of {max}, not {share}");
        sim.policy.validate(&sim.store).unwrap();
    }
}

/// Somebody asks again and again for what was just evicted, so that the window grows as fast as it
/// can: each eviction moves the target once, and no hit does.
#[test]
fn an_adversary_moves_the_target_once_for_each_eviction() {
    let mut sim = full(Policy::new(CAPACITY, 1));
    let (mut moves, mut evictions, mut requests) = (0, 0, 0);
    // Those who were in the window, of which the adversary has made sure.
    let mut gone = Vec::new();
    let mut fresh = 1_000;
    while sim.policy.window_target() < CAPACITY * 9 / 10 {
        let key = gone.pop().unwrap_or_else(|| {
            fresh += 1;
            fresh
        });
        let target = sim.policy.window_target();
        let held: Vec<(u64, Region)> =
            sim.keys().into_iter().map(|key| (key, sim.region(key))).collect();
        let is_hit = sim.request(key);
        let moved = sim.policy.window_target().abs_diff(target);
        assert!(moved <= 1 && !(is_hit && moved > 0), "{moved} for {key}");
        let evicted = held.into_iter().filter(|&(key, _)| !sim.contains(key));
        for (key, region) in evicted {
            evictions += 1;
            gone.extend((region == Region::Window).then_some(key));
        }
        (moves, requests) = (moves + moved, requests + 1);
        assert!(requests < 10_000, "it never grows");
    }
    assert!(moves <= evictions && moves <= requests, "{moves}, {evictions}, {requests}");
    // The bound leaves room for the main region, and honest keys move the window back.
    let mut random = Random(5);
    let honest = std::iter::repeat_with(|| match random.below(4) {
        0 => random.next() | 1 << 63,
        _ => random.below(CAPACITY * 4 / 5),
    });
    sim.run(honest.take(40_000));
    assert!(sim.policy.window_target() < CAPACITY / 2, "{}", sim.policy.window_target());
}

/// A window of a fixed share stays as it is.
#[test]
fn a_fixed_window_is_fixed() {
    let mut random = Random(1);
    for share in [0.01, 0.2, 1.0] {
        let mut sim = Sim::new(Policy::with_fixed_window(CAPACITY, 1, share));
        let target = sim.policy.window_target();
        for _ in 0..20_000 {
            sim.request(random.below(2 * CAPACITY));
            assert_eq!(sim.policy.window_target(), target);
        }
    }
}

/// Where the first target is the right one, following others costs little.
#[test]
fn to_follow_costs_little() {
    for seed in [11, 12] {
        let mut random = Random(seed);
        let keys: Vec<u64> = (1u64 << 40..)
            .map(|stranger| match random.below(5) {
                0..2 => random.below(450),
                _ => stranger,
            })
            .take(100_000)
            .collect();
        let ours = hit_ratio(Policy::new(500, seed), keys.iter().copied());
        let fixed = Policy::with_fixed_window(500, seed, 0.02);
        let fixed = hit_ratio(fixed, keys.iter().copied());
        assert!(ours > fixed - 0.5, "seed {seed}: {ours:.2} %, {fixed:.2} % if fixed");
    }
}

/// What the policy itself allocates: 8 bytes for the sketch and 1.03 for the memory of leavers, per
/// entry, and no more than a quarter of that for growth.
#[test]
fn the_policy_takes_nine_bytes_per_entry() {
    for entries in [1_000, 100_000] {
        let mut store = Store::new();
        let ids: Vec<_> = (0..2 * entries).map(|key| store.alloc(key, 1)).collect();
        let [before, _] = memory();
        let mut policy = Policy::new(entries, 1);
        for &id in &ids {
            policy.add(&store, id.with(store.node(id)));
            if let Some(victim) = policy.take_victim(&store).map(|it| it.id) {
                assert_ne!(victim, id, "it is in the window");
            }
        }
        let each = (memory()[0] - before) as f64 / entries as f64;
        assert!((9.0..12.5).contains(&each), "{each:.2} bytes for each of {entries}");
    }
}

/// Where a hundredth of the maximum rounds to nothing, both sides have room for an entry, and a new
/// maximum does not take the rounding for a share.
#[test]
fn a_small_maximum_leaves_both_sides_room() {
    let mut reached = 0;
    for max in 2..50 {
        let mut sim = Sim::new(Policy::new(max, 1));
        let (mut most, mut gone) = (0, Vec::new());
        // Whoever was evicted from the window comes back.
        for fresh in 0..2_000 {
            let before: Vec<(u64, Region)> =
                sim.keys().into_iter().map(|key| (key, sim.region(key))).collect();
            sim.request(gone.pop().unwrap_or(fresh));
            let evicted = before.into_iter().filter(|&(key, _)| !sim.contains(key));
            gone.extend(evicted.filter(|it| it.1 == Region::Window).map(|it| it.0));
            most = most.max(sim.policy.window_target());
        }
        assert!(most < max, "{most} of {max}");
        reached += u32::from(most == max - 1);
        sim.policy.validate(&sim.store).unwrap();
    }
    assert!(reached > 20, "{reached} of 48 have been pumped up");
    let mut policy = Policy::new(1, 1);
    assert_eq!(policy.window_target(), 1);
    policy.set_max_weight(100_000);
    assert_eq!(policy.window_target(), 2_000);
    policy.set_max_weight(0);
    policy.set_max_weight(100_000);
    assert_eq!(policy.window_target(), 2_000);
}

/// In a full cache without an entry in probation, a rejected key that comes back is not the next
/// victim.
#[test]
fn who_comes_back_stays_for_a_while() {
    let mut sim = Sim::new(Policy::new(1, 1));
    sim.run([1, 2, 1].into_iter());
    let mut stays = 0;
    for key in 10..200 {
        sim.run([key, key + 1_000, key].into_iter());
        stays += u32::from(sim.contains(key));
    }
    assert!(stays > 50, "{stays} of 190");
}
