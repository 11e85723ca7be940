//! The intrusive list against `VecDeque`.

use cortado::internals::links::{Links, NodeId};
use cortado::internals::list::{End, LinkStore, List};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;
use std::collections::VecDeque;

const IDS: u32 = 12;

struct Store(Vec<Links>);

impl LinkStore for Store {
    fn links(&self, id: NodeId) -> &Links {
        &self.0[id.index()]
    }
}

fn ids() -> impl Iterator<Item = NodeId> {
    (1..=IDS).map(NodeId::from_raw)
}

fn store() -> Store {
    Store((0..=IDS).map(|_| Links::default()).collect())
}

/// One operation on two lists that share a store.
fn step(store: &Store, lists: &mut [(List, VecDeque<NodeId>); 2], op: u8, which: bool, id: NodeId) {
    let home = lists.iter().position(|(_, model)| model.contains(&id));
    let unlinked = ids().find(|id| !lists.iter().any(|(_, model)| model.contains(id)));
    let (list, model) = &mut lists[home.unwrap_or(usize::from(which))];
    match (op, home.is_some()) {
        (0, false) => {
            list.link(store, End::Front, id, store.links(id));
            model.push_front(id);
        }
        (_, false) => {
            list.link(store, End::Back, id, store.links(id));
            model.push_back(id);
        }
        (0, true) => {
            list.unlink(store, store.links(id));
            list.link(store, End::Front, id, store.links(id));
            model.retain(|&other| other != id);
            model.push_front(id);
        }
        (1, true) => {
            list.unlink(store, store.links(id));
            list.link(store, End::Back, id, store.links(id));
            model.retain(|&other| other != id);
            model.push_back(id);
        }
        (2, true) => {
            list.unlink(store, store.links(id));
            model.retain(|&other| other != id);
        }
        (_, true) => {
            if let Some(new) = unlinked {
                list.replace(store, store.links(id), new.with(store.links(new)));
                *model.iter_mut().find(|other| **other == id).unwrap() = new;
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn agrees_with_the_model(
        ops in vec((0..4_u8, any::<bool>(), 1..=IDS), 0..100),
    ) {
        let store = store();
        let mut lists = [(List::default(), VecDeque::new()), (List::default(), VecDeque::new())];
        for (op, which, id) in ops {
            step(&store, &mut lists, op, which, NodeId::from_raw(id));
            for (list, model) in &lists {
                list.validate(&store).unwrap();
                let ids: Vec<NodeId> = list.iter(&store, End::Front).collect();
                let mut back: Vec<NodeId> = list.iter(&store, End::Back).collect();
                back.reverse();
                prop_assert_eq!(&ids, &Vec::from(model.clone()));
                prop_assert_eq!(&back, &ids);
                prop_assert_eq!((list.len(), list.back()), (model.len(), model.back().copied()));
            }
            for id in ids().filter(|id| !lists.iter().any(|(_, model)| model.contains(id))) {
                prop_assert_eq!((store.links(id).prev(), store.links(id).next()), (NodeId::NONE, NodeId::NONE));
            }
        }
    }
}

#[test]
fn validate_sees_each_kind_of_damage() {
    let filled = || {
        let (store, mut list) = (store(), List::default());
        for id in ids().take(4) {
            list.link(&store, End::Back, id, store.links(id));
        }
        list.validate(&store).unwrap();
        (store, list)
    };
    let damages: [fn(&[Links]); 5] = [
        |links| links[3].set_prev(NodeId::from_raw(1)),
        |links| links[3].set_next(NodeId::NONE),
        |links| links[4].set_next(NodeId::from_raw(1)),
        |links| links[2].set_next(NodeId::from_raw(4)),
        |links| links[2].set_next(NodeId::FIRST_RESERVED),
    ];
    for damage in damages {
        let (store, list) = filled();
        damage(&store.0);
        assert!(list.validate(&store).is_err());
    }
}

/// The zero ends a list, and the wheel's heads have numbers from 2^31 on.
#[test]
fn ids_of_nodes_have_thirty_one_bits() {
    let may = |number: u32| NodeId::from_raw(number).may_name_node();
    assert_eq!([0, 1, u32::MAX >> 1].map(may), [false, true, true]);
    assert_eq!([1 << 31, (1 << 31) + 1, u32::MAX].map(may), [false; 3]);
}
