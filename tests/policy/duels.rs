//! Who stays and who goes, duel by duel, in a policy whose window is fixed: the counts decide,
//! chance where it is said to, and in the proportion that is said.

use crate::store::{Random, Sim, Store, hash};
use cortado::internals::links::NodeId;
use cortado::internals::list::End;
use cortado::internals::policy::{MOVES, Policy, PolicyStore, Region};

const CAPACITY: u64 = 50;

/// A window of one.
fn narrow(seed: u64) -> Sim {
    Sim::new(Policy::with_fixed_window(CAPACITY, seed, 0.02))
}

/// A full one: each resident was asked for so many times.
fn full(seed: u64, times: u64) -> Sim {
    let mut sim = narrow(seed);
    sim.run((0..times).flat_map(|_| 0..CAPACITY));
    sim
}

fn frequency(sim: &Sim, key: u64) -> u8 {
    sim.policy.frequency(hash(key))
}

/// What became of a duel.
#[derive(Debug, Default)]
struct Duels {
    won: u32,
    lost: u32,
    /// Lost by one who is warm, and of those let in all the same.
    warm: u32,
    lucky: u32,
}

impl Duels {
    /// Takes in a new key and holds the victim, if there is one, to the rules.
    fn add(
        &mut self,
        store: &mut Store,
        policy: &mut Policy,
        key: u64,
    ) -> (NodeId, Option<NodeId>) {
        let id = store.alloc(key, 1);
        policy.add(store, id.with(store.node(id)));
        let [candidate, resident] = policy.next_contenders();
        let in_window =
            policy.ranked(store, End::Back).filter(|&id| store.region(id) == Region::Window);
        let is_duel = in_window.count() as u64 > policy.window_target();
        let heat = |id| policy.frequency(store.hash(id));
        let [c, r] = [candidate, resident].map(|id| id.map(heat));
        let victim = policy.take_victim(store).map(|it| it.id);
        match victim {
            None => (),
            Some(_) if !is_duel => assert_eq!(victim, resident, "the window is not too large"),
            Some(_) if c > r => {
                self.won += 1;
                assert_eq!(victim, resident, "{c:?} against {r:?}");
            }
            Some(_) if c < Some(6) => {
                self.lost += 1;
                assert_eq!(victim, candidate, "{c:?} against {r:?}");
            }
            Some(_) => {
                assert!(victim == candidate || victim == resident);
                self.warm += 1;
                self.lucky += u32::from(victim == resident);
            }
        }
        (id, victim)
    }
}

/// The more frequent stays, and of two that are alike the resident; the window's last duels, and
/// only while the window is larger than its target. One that is warm and loses is let in once in
/// 128 times.
#[test]
fn the_more_frequent_stays() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(CAPACITY, 3, 0.1));
    let (mut duels, mut random) = (Duels::default(), Random(7));
    let mut held: Vec<(u64, NodeId)> = Vec::new();
    for round in 0..80_000 {
        // By turns everything is asked for with falling popularity, and a few keys often among
        // many.
        let key = match round / 1_000 % 2 {
            0 => random.below(20) * random.below(20),
            _ => (1 << 20) + random.below(60),
        };
        if let Some(&(_, id)) = held.iter().find(|&&(other, _)| other == key) {
            policy.record_hit(&store, id);
            continue;
        }
        let (id, victim) = duels.add(&mut store, &mut policy, key);
        held.push((key, id));
        if let Some(victim) = victim {
            held.retain(|&(_, id)| id != victim);
            store.free(victim);
        }
    }
    policy.validate(&store).unwrap();
    let Duels { won, lost, warm, lucky } = duels;
    assert!(won > 1_000 && lost > 1_000 && warm > 1_000, "{duels:?}");
    assert!(lucky > warm / 512 && lucky < warm / 32, "{duels:?}");
}

/// Warm candidates against residents that are asked for as often as the sketch can count.
#[test]
fn who_is_warm_gets_in_by_chance() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(CAPACITY, 5, 0.02));
    let mut duels = Duels::default();
    let mut residents: Vec<NodeId> = Vec::new();
    for key in 0..12_000 {
        let (id, victim) = duels.add(&mut store, &mut policy, key);
        residents.push(id);
        if let Some(victim) = victim {
            residents.retain(|&other| other != victim);
            store.free(victim);
        }
        residents.iter().chain([&id; 7]).for_each(|&id| policy.record_hit(&store, id));
    }
    let Duels { warm, lucky, .. } = duels;
    assert!(warm > 5_000, "{duels:?}");
    assert!(lucky > warm / 256 && lucky < warm / 64, "{duels:?}");
}

/// A rejected key that comes back is let in, however frequent the residents are.
#[test]
fn who_comes_back_is_let_in() {
    for seed in 0..100 {
        let mut sim = full(seed, 2 + seed % 8);
        sim.run([1_000, 1_001].into_iter());
        assert_eq!(sim.region(1_000), Region::None, "less frequent than any resident");
        sim.request(1_000);
        assert_eq!(sim.region(1_000), Region::Probation);
    }
}

/// Who was never turned away is a stranger: one in some thousands is taken for another.
#[test]
fn strangers_are_not_recalled() {
    let mut sim = full(1, 5);
    let mut recalled = 0;
    for stranger in 1_000..21_000 {
        sim.request(stranger);
        recalled += u32::from(sim.region(stranger) != Region::Window);
        if stranger % 8 == 0 {
            sim.run(0..CAPACITY);
        }
    }
    assert!(recalled < 20, "{recalled} of 20,000 strangers");
    assert!(frequency(&sim, 0) > 1, "the residents are asked for");
}

/// A newcomer goes to the window's end, to duel at once, if it is heavier than the window is to be,
/// and only then; one with a hit is protected unless it is heavier than all of the protected region
/// is to be.
#[test]
fn what_just_fits_a_region_goes_to_its_front() {
    let full = || {
        let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.1));
        for key in 0..100 {
            let id = store.alloc(key, 1);
            policy.add(&store, id.with(store.node(id)));
        }
        (store, policy)
    };
    for (weight, at_the_end) in [(9, false), (10, false), (11, true)] {
        let (mut store, mut policy) = full();
        let id = store.alloc(1_000, weight);
        policy.add(&store, id.with(store.node(id)));
        assert_eq!(store.region(id), Region::Window);
        assert_eq!(policy.next_contenders()[0] == Some(id), at_the_end, "{weight} of 10");
    }
    // Of 90 that the window leaves, 72 are for the protected region.
    for (weight, to) in [(71, Region::Protected), (72, Region::Protected), (73, Region::Probation)]
    {
        let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.1));
        let id = store.alloc(1, weight);
        policy.add(&store, id.with(store.node(id)));
        assert_eq!(store.region(id), Region::Probation, "too heavy for the window");
        policy.record_hit(&store, id);
        assert_eq!(store.region(id), to, "{weight} of 72");
        policy.validate(&store).unwrap();
    }
}

fn count(store: &Store, policy: &Policy, region: Region) -> usize {
    policy.ranked(store, End::Back).filter(|&id| store.region(id) == region).count()
}

/// The protected region is filled to its target, four fifths of what the window leaves, and not
/// beyond.
#[test]
fn the_protected_region_is_filled_to_its_target() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.1));
    let ids: Vec<NodeId> = (0..100).map(|key| store.alloc(key, 1)).collect();
    ids.iter().for_each(|&id| policy.add(&store, id.with(store.node(id))));
    for (hits, &id) in (1..).zip(&ids[..90]) {
        policy.record_hit(&store, id);
        assert_eq!(count(&store, &policy, Region::Protected), 72.min(hits));
    }
    for &id in &ids[..90] {
        policy.record_hit(&store, id);
        assert_eq!(count(&store, &policy, Region::Protected), 72);
    }
    policy.validate(&store).unwrap();
}

/// A window that is far beyond its target gives up a few with each call, whatever they weigh, also
/// while there is no room for all.
#[test]
fn the_window_gives_up_heavy_ones_too() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(1_000, 1, 0.5));
    for key in 0..90 {
        let id = store.alloc(key, 5);
        policy.add(&store, id.with(store.node(id)));
    }
    assert_eq!(count(&store, &policy, Region::Window), 90);
    policy.set_max_weight(460);
    let id = store.alloc(100, 20);
    policy.add(&store, id.with(store.node(id)));
    assert_eq!(policy.weight(), 470);
    let [window, probation] = [Region::Window, Region::Probation];
    assert_eq!(count(&store, &policy, probation), MOVES);
    assert_eq!(count(&store, &policy, window), 91 - MOVES);
    policy.validate(&store).unwrap();
}

/// A candidate that has won duels for all of its weight is in probation; what it has won by then is
/// not counted for another.
#[test]
fn who_has_won_its_room_is_on_probation() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.01));
    for key in 0..100 {
        let id = store.alloc(key, 1);
        policy.add(&store, id.with(store.node(id)));
    }
    let heavy = |store: &mut Store, policy: &mut Policy, key: u64| {
        let id = store.alloc(key, 20);
        policy.add(store, id.with(store.node(id)));
        (0..3).for_each(|_| policy.record_hit(store, id));
        assert_eq!(store.region(id), Region::Window);
        assert_eq!(policy.next_contenders()[0], Some(id), "too heavy for the window");
        id
    };
    let first = heavy(&mut store, &mut policy, 1_000);
    for won in 1..=12 {
        let victim = policy.take_victim(&store).unwrap().id;
        assert_eq!((store.weight(victim), store.region(first)), (1, Region::Window), "{won} of 20");
    }
    policy.remove(&store, store.node(first));
    store.free(first);
    policy.set_max_weight(policy.weight());
    let second = heavy(&mut store, &mut policy, 1_001);
    assert_eq!(second, first, "another key gets the id");
    for won in 1..=20 {
        assert_eq!(store.region(second), Region::Window, "{won} of 20");
        let victim = policy.take_victim(&store).unwrap().id;
        assert_eq!(store.weight(victim), 1);
    }
    assert_eq!(store.region(second), Region::Probation);
    assert!(policy.take_victim(&store).is_none());
    policy.validate(&store).unwrap();
}

/// A hit on one too heavy for the protected region does not drive the others out of it.
#[test]
fn a_heavy_hit_does_not_flush_the_protected() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.02));
    let light: Vec<NodeId> = (0..4).map(|key| store.alloc(key, 2)).collect();
    light.iter().for_each(|&id| policy.add(&store, id.with(store.node(id))));
    let heavy = store.alloc(100, 85);
    policy.add(&store, heavy.with(store.node(heavy)));
    for &id in light[..3].iter().chain([&heavy]) {
        assert_eq!(store.region(id), Region::Probation);
        policy.record_hit(&store, id);
    }
    assert_eq!(store.region(heavy), Region::Probation);
    assert!(light[..3].iter().all(|&id| store.region(id) == Region::Protected));
}

/// While there is room for all, the window keeps to its target whatever its entries weigh.
#[test]
fn with_room_for_all_the_window_keeps_to_its_target() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.1));
    for key in 0..30 {
        let id = store.alloc(key, 3);
        policy.add(&store, id.with(store.node(id)));
        let window: u32 = (policy.ranked(&store, End::Back))
            .filter(|&id| store.region(id) == Region::Window)
            .map(|id| store.weight(id))
            .sum();
        assert!(u64::from(window) <= policy.window_target(), "{window} after {key}");
    }
}

/// While there is room for all, the window gives to probation what is beyond its target, at once;
/// when there is not, what it holds beyond its target is to duel, as far as the duels to come need
/// it.
#[test]
fn the_window_gives_up_what_needs_no_duel() {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.1));
    let in_window = |store: &Store, policy: &Policy| {
        policy.ranked(store, End::Back).filter(|&id| store.region(id) == Region::Window).count()
    };
    for key in 0..100 {
        let id = store.alloc(key, 1);
        policy.add(&store, id.with(store.node(id)));
        assert_eq!(in_window(&store, &policy), 10.min(key as usize + 1), "room for all");
    }
    for key in 100..150 {
        let id = store.alloc(key, 1);
        policy.add(&store, id.with(store.node(id)));
        assert_eq!(in_window(&store, &policy), key as usize - 89, "nobody without a duel");
    }
    // Room has come: all but what is left of the target may go, a few with each call.
    policy.set_max_weight(150);
    for _ in 0..20 {
        assert!(policy.take_victim(&store).is_none());
    }
    assert_eq!(in_window(&store, &policy) as u64, policy.window_target());
    policy.validate(&store).unwrap();
}

/// A region is what its byte says it is, and a byte that means none is none.
#[test]
fn regions_are_bytes() {
    let all =
        [Region::None, Region::Window, Region::Probation, Region::Protected, Region::Weightless];
    for region in all {
        assert_eq!(Region::from_byte(region as u8), region);
    }
    for byte in 5..=u8::MAX {
        assert_eq!(Region::from_byte(byte), Region::None);
    }
}
