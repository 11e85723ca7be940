//! The policy's rules one by one: bounded work, weights, weightless entries, second chances.

use crate::store::{Random, Sim, Store};
use cortado::internals::links::NodeId;
use cortado::internals::list::End;
use cortado::internals::policy::{Policy, PolicyStore, Region};
use std::collections::{BTreeMap, BTreeSet};

/// More calls of `links` than any call of the policy may make: five nodes moved, each unlinked and
/// linked with two neighbours.
const VISITS: usize = 5 * 12;

fn add(store: &mut Store, policy: &mut Policy, key: u64, weight: u32) -> NodeId {
    let id = store.alloc(key, weight);
    policy.add(store, id.with(store.node(id)));
    id
}

fn evict_all(store: &mut Store, policy: &mut Policy) -> Vec<NodeId> {
    let victims: Vec<NodeId> =
        std::iter::from_fn(|| policy.take_victim(store).map(|it| it.id)).collect();
    victims.iter().for_each(|&id| store.free(id));
    victims
}

/// Each call does a bounded amount of work, when the capacity collapses as well as while the
/// window of a large cache grows.
#[test]
fn every_call_is_bounded() {
    const MAX: u64 = 20_000;
    let (mut store, mut policy) = (Store::new(), Policy::new(MAX, 1));
    let mut random = Random(1);
    let mut alive = BTreeMap::new();
    let mut keys = BTreeMap::new();
    let mut worst = 0;
    let mut windows = BTreeSet::new();
    let mut bounded = |store: &Store| worst = worst.max(store.take_visits());
    for round in 0..600_000u64 {
        // Every second request is for a key that was new lately: nothing for a small window.
        let key = round - if round % 2 == 0 { 0 } else { random.below(16_000).min(round) | 1 };
        if let Some(&id) = alive.get(&key) {
            policy.record_hit(&store, id);
        } else {
            let id = add(&mut store, &mut policy, key, 1);
            alive.insert(key, id);
            keys.insert(id, key);
        }
        bounded(&store);
        windows.insert(policy.window_target());
        if let Some(victim) = policy.take_victim(&store).map(|it| it.id) {
            bounded(&store);
            alive.remove(&keys.remove(&victim).unwrap());
            store.free(victim);
        }
    }
    assert!(windows.len() > 1, "the window never changed: {windows:?}");
    policy.validate(&store).unwrap();
    store.take_visits();

    policy.set_max_weight(10);
    bounded(&store);
    for _ in 0..MAX - 10 {
        let victim = policy.take_victim(&store).unwrap().id;
        bounded(&store);
        store.free(victim);
    }
    assert_eq!((policy.take_victim(&store).is_none(), policy.weight()), (true, 10));
    policy.validate(&store).unwrap();
    assert!((1..=VISITS).contains(&worst), "{worst} visits in one call");
}

/// What a change of targets leaves over is worked off by later calls.
#[test]
fn regions_come_back_to_their_targets() {
    let mut sim = Sim::new(Policy::new(1_000, 3));
    let mut random = Random(9);
    for _ in 0..40_000 {
        sim.request(random.below(1_500));
    }
    sim.policy.set_max_weight(4_000);
    sim.run((10_000..14_000).chain(10_000..14_000));
    let weigh = |region| {
        let ids: Vec<NodeId> = sim.policy.ranked(&sim.store, End::Back).collect();
        ids.into_iter().filter(|&id| sim.store.region(id) == region).count() as u64
    };
    assert!(weigh(Region::Window) <= sim.policy.window_target());
    let main = sim.policy.max_weight() - sim.policy.window_target();
    assert!(weigh(Region::Protected) <= main * 4 / 5, "{}", weigh(Region::Protected));
}

/// However many weightless entries there are, they neither leave for want of room nor stand in the
/// way of finding it.
#[test]
fn weightless_entries_neither_leave_nor_hinder() {
    let (mut store, mut policy) = (Store::new(), Policy::new(10, 1));
    let weightless: Vec<NodeId> =
        (0..10_000).map(|key| add(&mut store, &mut policy, key, 0)).collect();
    for key in 10_000..10_100 {
        add(&mut store, &mut policy, key, 3);
        store.take_visits();
        if let Some(victim) = policy.take_victim(&store).map(|it| it.id) {
            assert!(store.take_visits() <= VISITS);
            assert_eq!(store.weight(victim), 3);
            store.free(victim);
        }
    }
    assert!(evict_all(&mut store, &mut policy).is_empty());
    assert_eq!((policy.weight(), policy.len()), (9, 10_003));

    policy.set_max_weight(0);
    assert_eq!(evict_all(&mut store, &mut policy).len(), 3);
    assert_eq!((policy.weight(), policy.len()), (0, 10_000));
    for &id in &weightless {
        policy.record_hit(&store, id);
        assert_eq!(store.region(id), Region::Weightless);
        policy.remove(&store, store.node(id));
        policy.remove(&store, store.node(id));
    }
    assert!(policy.len() == 0);
    policy.validate(&store).unwrap();
}

#[test]
fn an_update_takes_the_old_ones_place_and_counts() {
    let (mut store, mut policy) = (Store::new(), Policy::new(1_000, 1));
    // Beyond the window: the oldest are in probation.
    let ids: Vec<NodeId> = (0..500).map(|key| add(&mut store, &mut policy, key, 1)).collect();
    let mut update = |old: NodeId, key: u64, weight: u32| {
        let frequency = policy.frequency(store.hash(old));
        let new = store.alloc(key, weight);
        policy.replace(&store, old, new);
        policy.validate(&store).unwrap();
        assert_eq!(store.region(old), Region::None);
        assert!(policy.frequency(store.hash(new)) > frequency);
        (new, store.region(new), policy.weight())
    };
    assert_eq!(update(ids[499], 499, 2).1, Region::Window);
    let (new, region, weight) = update(ids[0], 0, 7);
    assert_eq!((region, weight), (Region::Protected, 507), "a hit in probation");
    let (new, region, weight) = update(new, 0, 0);
    assert_eq!((region, weight), (Region::Weightless, 500));
    let (new, region, weight) = update(new, 0, 5);
    assert_eq!((region, weight), (Region::Window, 505), "weight again: it starts over");
    assert_eq!(update(new, 0, 900).1, Region::Window);
    // An `old` that is gone: the new one is new.
    assert_eq!(update(ids[0], 0, 1).1, Region::Window);
    policy.record_hit(&store, ids[0]);
    assert_eq!(store.region(ids[0]), Region::None, "a late read record changes nothing");
}

/// A heavy candidate has to beat all whose room it needs; a light one only one.
#[test]
fn room_is_won_by_weight() {
    // 90 residents, asked for once, twice or three times; then a heavy candidate asked for twice.
    let resident = |key: u64| if key < 5 { 0 } else { 3 };
    let survivors = |touches: u64, weight: u32| {
        let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.01));
        for key in 0..100 {
            let id = add(&mut store, &mut policy, key, 1);
            (0..resident(key)).for_each(|_| policy.record_hit(&store, id));
        }
        assert!(policy.take_victim(&store).is_none());
        let heavy = add(&mut store, &mut policy, 1_000, weight);
        (1..touches).for_each(|_| policy.record_hit(&store, heavy));
        let victims = evict_all(&mut store, &mut policy);
        policy.validate(&store).unwrap();
        (victims.len(), store.region(heavy))
    };
    // The newest resident leaves the window for probation, or duels too.
    let (victims, region) = survivors(2, 5);
    assert!(region != Region::None && victims == 5, "{victims} victims, {region:?}");
    let (victims, region) = survivors(2, 20);
    assert!(region == Region::None && victims <= 6, "{victims} victims, {region:?}");
    let (victims, region) = survivors(10, 20);
    assert!(region != Region::None && victims == 20, "{victims} victims, {region:?}");
}

/// An entry too heavy for the window is judged itself, and not the window's lighter ones for it.
#[test]
fn a_heavy_newcomer_does_not_flush_the_window() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.1));
    let ids: Vec<NodeId> = (0..100).map(|key| add(&mut store, &mut policy, key, 1)).collect();
    for _ in 0..5 {
        ids[..90].iter().for_each(|&id| policy.record_hit(&store, id));
    }
    assert_eq!(store.region(ids[90]), Region::Window);
    let heavy = add(&mut store, &mut policy, 1_000, 30);
    assert_eq!(evict_all(&mut store, &mut policy), [heavy]);
}

/// A scan passes through the window and leaves the residents alone.
#[test]
fn a_scan_does_not_flush_the_residents() {
    let mut sim = Sim::new(Policy::new(100, 1));
    sim.run((0..5).flat_map(|_| 0..80));
    sim.run(1_000..3_000);
    let kept = (0..80).filter(|&key| sim.contains(key)).count();
    assert!(kept >= 75, "{kept} of 80 are left");
}

/// However hot the residents are: a newcomer gives way to newer ones only, also a heavy one.
#[test]
fn a_segmented_lru_refuses_no_newcomer() {
    for (weight, newcomers) in [(1, 10), (7, 10), (40, 4)] {
        let (mut store, mut policy) = (Store::new(), Policy::segmented_lru(100, 1));
        let residents: Vec<NodeId> =
            (0..100).map(|key| add(&mut store, &mut policy, key, 1)).collect();
        for _ in 0..5 {
            residents.iter().for_each(|&id| policy.record_hit(&store, id));
        }
        let new: Vec<NodeId> = (1_000..1_000 + newcomers)
            .map(|key| add(&mut store, &mut policy, key, weight))
            .collect();
        let mut left = evict_all(&mut store, &mut policy);
        left.retain(|id| new.contains(id));
        assert!(left.len() < new.len() && left == new[..left.len()], "{left:?} of {new:?}");
        assert!(weight > 1 || left.is_empty(), "{left:?} of {new:?}");
        policy.validate(&store).unwrap();
    }
}

/// A rejected key that comes back soon is let in, though all residents are asked for as often as
/// the sketch can count.
#[test]
fn hot_residents_do_not_keep_newcomers_out_for_good() {
    let mut sim = Sim::new(Policy::with_fixed_window(50, 1, 0.02));
    let mut rounds = 0;
    let got_in = (0..100u64).any(|round| {
        rounds = round;
        sim.run((0..20).flat_map(|_| 0..49));
        // Two newcomers push each other out of the window of one.
        sim.run([1_000, 2_000].into_iter());
        [1_000, 2_000].iter().any(|&key| sim.region(key) == Region::Probation)
    });
    assert!(got_in, "barred for {rounds} rounds");
}

/// A rejected key that comes back after many more rejections than a quarter of the entries is a
/// stranger again.
#[test]
fn rejections_are_forgotten_in_time() {
    let recalled = |distance: u64| {
        let mut sim = Sim::new(Policy::with_fixed_window(50, 1, 0.02));
        sim.run((0..20).flat_map(|_| 0..49));
        let mut recalled = 0;
        for _ in 0..20 {
            for newcomer in 1_000..1_000 + distance {
                sim.run(0..49);
                sim.request(newcomer);
                recalled += u32::from(sim.region(newcomer) == Region::Probation);
            }
        }
        recalled
    };
    assert!(recalled(10) > 0);
    assert_eq!(recalled(40), 0);
}

/// The dice and the sketch's collisions come from the seed.
#[test]
fn the_seed_matters() {
    let held = |seed| {
        let mut sim = Sim::new(Policy::new(50, seed));
        let mut random = Random(4);
        sim.run((0..30_000).map(|_| random.below(20) * random.below(20)));
        (0..400).filter(|&key| sim.contains(key)).collect::<Vec<u64>>()
    };
    assert_eq!(held(1), held(1));
    assert!((2..6).any(|seed| held(seed) != held(1)));
}

#[test]
fn orders_begin_with_the_hottest_and_the_coldest() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.2));
    let ids: Vec<NodeId> = (0..60).map(|key| add(&mut store, &mut policy, key, 1)).collect();
    let weightless = add(&mut store, &mut policy, 99, 0);
    assert_eq!((store.region(ids[0]), store.region(ids[59])), (Region::Probation, Region::Window));
    policy.record_hit(&store, ids[3]);
    policy.record_hit(&store, ids[59]);
    let hottest: Vec<NodeId> = policy.ranked(&store, End::Front).collect();
    let coldest: Vec<NodeId> = policy.ranked(&store, End::Back).collect();
    assert_eq!(hottest[0], ids[3], "protected");
    assert_eq!(hottest[1], ids[59], "the more frequent of the rest");
    assert_eq!(coldest[0], ids[0]);
    assert_eq!(coldest[59..], [ids[3], weightless]);
    assert_eq!(hottest[60], weightless);
}

/// Of two that are equally frequent, the one in probation goes first, in either direction: both
/// orders are the same one, but that those of no weight come last in both.
#[test]
fn one_order_is_the_other_reversed() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.2));
    let ids: Vec<NodeId> = (0..60).map(|key| add(&mut store, &mut policy, key, 1)).collect();
    policy.record_hit(&store, ids[3]);
    let hottest: Vec<NodeId> = policy.ranked(&store, End::Front).collect();
    let mut coldest: Vec<NodeId> = policy.ranked(&store, End::Back).collect();
    assert_eq!(coldest[0], ids[0], "in probation");
    coldest.reverse();
    assert_eq!(hottest, coldest);
}

/// A reload is no use of the entry. Only one that begins or ceases to weigh changes its region.
#[test]
fn a_reload_takes_the_old_ones_place_and_does_not_count() {
    let (mut store, mut policy) = (Store::new(), Policy::new(1_000, 1));
    let ids: Vec<NodeId> = (0..500).map(|key| add(&mut store, &mut policy, key, 1)).collect();
    let order =
        |policy: &Policy, store: &Store| policy.ranked(store, End::Back).collect::<Vec<_>>();
    let mut reload = |old: NodeId, key: u64, weight: u32| {
        let (before, others) = (policy.frequency(store.hash(old)), policy.weight());
        let others = others - u64::from(store.weight(old));
        let place = order(&policy, &store).iter().position(|&id| id == old);
        let new = store.alloc(key, weight);
        policy.replace_reloaded(&store, old, new);
        policy.validate(&store).unwrap();
        assert_eq!(policy.weight(), others + u64::from(weight));
        assert_eq!(store.region(old), Region::None);
        let is_in_place = place == order(&policy, &store).iter().position(|&id| id == new);
        let counts = policy.frequency(store.hash(new)) - before;
        (new, store.region(new), is_in_place, counts)
    };
    for (key, region) in [(1, Region::Probation), (498, Region::Window)] {
        let (same, now, is_in_place, counts) = reload(ids[key], key as u64, 1);
        assert_eq!((now, is_in_place, counts), (region, true, 0), "of the same weight");
        let (heavy, now, is_in_place, counts) = reload(same, key as u64, 7);
        assert_eq!((now, is_in_place, counts), (region, true, 0), "heavier");
        let (light, now, is_in_place, counts) = reload(heavy, key as u64, 3);
        assert_eq!((now, is_in_place, counts), (region, true, 0), "lighter");
        let (without, now, _, counts) = reload(light, key as u64, 0);
        assert_eq!((now, counts), (Region::Weightless, 0));
        let (without, now, is_in_place, counts) = reload(without, key as u64, 0);
        assert_eq!((now, is_in_place, counts), (Region::Weightless, true, 0));
        let (_, now, _, counts) = reload(without, key as u64, 5);
        assert_eq!((now, counts), (Region::Window, 0), "weight again: it starts over");
    }
    // An `old` that is gone: the new one is new, which is a use.
    let (new, before) = (store.alloc(1, 1), policy.frequency(store.hash(ids[1])));
    policy.replace_reloaded(&store, ids[1], new);
    assert_eq!(store.region(new), Region::Window);
    assert!(policy.frequency(store.hash(new)) > before);
}

/// Without duels nobody counts requests: who is in probation leaves before those in the window,
/// however often it was asked for, and the orders say so.
#[test]
fn without_duels_the_orders_are_those_of_the_queues() {
    let (mut store, mut policy) = (Store::new(), Policy::segmented_lru(100, 1));
    for _ in 0..5 {
        let id = add(&mut store, &mut policy, 7, 1);
        policy.remove(&store, store.node(id));
        store.free(id);
    }
    let first = add(&mut store, &mut policy, 7, 1);
    (100..150).for_each(|key| _ = add(&mut store, &mut policy, key, 1));
    assert_eq!(policy.ranked(&store, End::Back).next(), Some(first));
    assert_eq!(policy.ranked(&store, End::Front).last(), Some(first));
    policy.set_max_weight(50);
    assert_eq!(policy.take_victim(&store).map(|it| it.id), Some(first));
}
