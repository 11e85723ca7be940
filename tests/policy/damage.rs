//! `validate` notices what a fault would leave behind: each kind of damage is done to a sound
//! policy.

use crate::store::Store;
use cortado::internals::links::NodeId;
use cortado::internals::list::End;
use cortado::internals::policy::{Policy, PolicyNode, PolicyStore, Region};

/// What is done to a node.
type Damage = fn(&Store, NodeId);

/// A policy with something in each region.
fn sound() -> (Store, Policy) {
    let (mut store, mut policy) = (Store::new(), Policy::with_fixed_window(100, 1, 0.1));
    for key in 0..60 {
        let id = store.alloc(key, u32::from(key < 55));
        policy.add(&store, id.with(store.node(id)));
        if key % 3 == 0 {
            policy.record_hit(&store, id);
        }
    }
    let probation: Vec<NodeId> = in_region(&store, &policy, Region::Probation);
    probation.iter().take(10).for_each(|&id| policy.record_hit(&store, id));
    policy.validate(&store).unwrap();
    (store, policy)
}

fn in_region(store: &Store, policy: &Policy, region: Region) -> Vec<NodeId> {
    policy.ranked(store, End::Back).filter(|&id| store.region(id) == region).collect()
}

const REGIONS: [Region; 4] =
    [Region::Window, Region::Probation, Region::Protected, Region::Weightless];

#[test]
fn each_kind_of_damage_is_noticed() {
    let damages: [(&str, Damage); 5] = [
        ("says it is nowhere", |store, id| store.node(id).set_region(Region::None)),
        ("says it is elsewhere", |store, id| {
            let other = REGIONS.into_iter().find(|&other| other != store.region(id)).unwrap();
            store.node(id).set_region(other);
        }),
        ("has a link cut", |store, id| store.node(id).links().set_next(id)),
        ("weighs more", |store, id| store.falsify_weight(id, 7)),
        ("weighs nothing, or something", |store, id| {
            let weight = store.weight(id);
            store.falsify_weight(id, 1 - weight);
        }),
    ];
    for region in REGIONS {
        for (what, damage) in damages {
            let (store, policy) = sound();
            let ids = in_region(&store, &policy, region);
            assert!(ids.len() > 1, "{region:?} holds {}", ids.len());
            damage(&store, ids[ids.len() / 2]);
            assert!(policy.validate(&store).is_err(), "one in {region:?} {what}");
        }
    }
}
