//! The policies that refuse nothing keep what was written last, though all else was used more.

use crate::store::{Random, Sim};
use cortado::internals::policy::{Policy, Region};

/// Makes a policy of a maximum weight and a seed.
type New = fn(u64, u64) -> Policy;

const POLICIES: [(&str, New); 2] = [
    ("lru", |max, seed| Policy::with_fixed_window(max, seed, 1.0)),
    ("segmented lru", Policy::segmented_lru),
];

/// A random program on a few keys. Other operations may come between a write and the search for
/// room, but not between the last write and that.
fn run(name: &str, policy: Policy, random: &mut Random, weighs: bool, resizes: bool) {
    let mut max = policy.max_weight();
    let mut sim = Sim::new(policy);
    let keys = 2 + random.below(8);
    let mut program = Vec::new();
    for _ in 0..40 {
        let key = random.below(keys);
        let weight = if weighs { random.below(max + 1) } else { 1 };
        let op = random.below(8);
        match op {
            0 | 1 if sim.contains(key) => _ = sim.request(key),
            2 => sim.remove(key),
            3 if resizes => {
                max = random.below(2 * max) + 1;
                sim.policy.set_max_weight(max);
            }
            _ => sim.write(key, weight as u32),
        }
        program.push((op, key, weight, max));
        if op > 4 {
            sim.evict();
            assert!(sim.contains(key), "{name}: {key} is gone after {program:?}");
        }
        sim.policy.validate(&sim.store).unwrap();
    }
}

#[test]
fn what_was_written_last_stays() {
    let mut random = Random(11);
    for (name, policy) in POLICIES {
        for round in 0..4_000 {
            let max = [1, 2, 3, 10, 100, 1_000][random.below(6) as usize];
            run(name, policy(max, round), &mut random, round % 2 == 0, round % 4 < 2);
        }
    }
}

/// A reload is no use of the entry. The entry stays what was written last all the same.
#[test]
fn a_reload_of_what_was_written_last_does_not_give_it_up() {
    for (name, policy) in POLICIES {
        for weight in [1, 2] {
            let mut sim = Sim::new(policy(10, 1));
            [1, 2, 1].into_iter().for_each(|key| sim.write(key, 1));
            sim.reload(1, weight);
            sim.policy.set_max_weight(2);
            sim.reload(1, 2);
            sim.evict();
            assert!(sim.contains(1) && !sim.contains(2), "{name}");
        }
    }
}

/// Also if what was written last is the next victim by its place.
#[test]
fn a_segmented_lru_evicts_what_was_used_once_before_the_others() {
    let mut sim = Sim::new(Policy::segmented_lru(100, 1));
    let [used, heavy, first, second] = [1, 2, 3, 4];
    sim.write(used, 1);
    sim.request(used);
    for (key, weight) in [(heavy, 65), (first, 1), (second, 1), (heavy, 65)] {
        sim.write(key, weight);
    }
    sim.request(used);
    // The protected region is too small for both.
    sim.policy.set_max_weight(80);
    sim.evict();
    assert_eq!([used, heavy].map(|key| sim.region(key)), [Region::Protected, Region::Probation]);
    // The window is too small for both.
    sim.policy.set_max_weight(70);
    sim.evict();
    assert_eq!([first, second].map(|key| sim.region(key)), [Region::Probation, Region::Window]);
    for (max, left) in [(67, 1), (66, 0)] {
        sim.policy.set_max_weight(max);
        sim.evict();
        assert!(sim.contains(used) && sim.contains(heavy));
        assert_eq!([first, second].map(|key| sim.contains(key)), [false, left == 1]);
    }
    sim.policy.set_max_weight(65);
    sim.evict();
    assert!(sim.contains(heavy) && !sim.contains(used));
}
