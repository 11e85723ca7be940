//! The recounts that every other test relies on notice what is wrong: each is shown a structure
//! that has been spoilt from outside, through its store, and must say so.

use crate::policy_store::Store;
use crate::timers::{Timers, Wheel};
use cortado::internals::epoch::pin;
use cortado::internals::hash::Hash32;
use cortado::internals::index::{HashOf, Index};
use cortado::internals::links::{Links, NodeId};
use cortado::internals::list::{End, LinkStore, List};
use cortado::internals::policy::{Policy, PolicyNode, PolicyStore, Region};
use cortado::internals::wheel::Geometry;
use std::cell::Cell;

/// That a recount found just this.
#[track_caller]
fn notices<T: std::fmt::Debug>(found: Result<T, String>, what: &str) {
    let error = found.expect_err("nothing was noticed");
    assert!(error.contains(what), "{what:?} is not what was noticed: {error}");
}

struct Chain([Links; 5]);

impl LinkStore for Chain {
    fn links(&self, id: NodeId) -> &Links {
        &self.0[id.index()]
    }
}

impl Chain {
    fn set_next(&self, id: usize, next: u32) {
        self.0[id].set_next(NodeId::from_raw(next));
    }

    fn set_prev(&self, id: usize, prev: u32) {
        self.0[id].set_prev(NodeId::from_raw(prev));
    }
}

/// The ids 1 to 4 in this order.
fn list() -> (List, Chain) {
    let (mut list, store) = (List::default(), Chain(std::array::from_fn(|_| Links::default())));
    for id in (1..=4).map(NodeId::from_raw) {
        list.link(&store, End::Back, id, store.links(id));
    }
    list.validate(&store).unwrap();
    (list, store)
}

#[test]
fn a_list_notices_links_that_do_not_fit() {
    let (list, store) = list();
    store.set_next(2, u32::MAX);
    notices(list.validate(&store), "names no node");
    // Round in a circle.
    store.set_next(2, 1);
    notices(list.validate(&store), "points back to");
    store.set_prev(1, 2);
    notices(list.validate(&store), "points back to");
    // Cut off.
    store.set_prev(1, 0);
    store.set_next(2, 0);
    notices(list.validate(&store), "the tail is 4");
    // One is passed over.
    store.set_next(2, 4);
    store.set_prev(4, 2);
    notices(list.validate(&store), "the list counts 4, its links 3");
}

#[test]
fn a_list_notices_one_too_many() {
    let (mut list, store) = list();
    list.unlink(&store, &store.0[4]);
    // It is still linked from the last of the three.
    store.set_next(3, 4);
    notices(list.validate(&store), "4 follows 3, but the list counts 3");
}

/// A wheel with timers that share a bucket, and one in another.
fn wheel() -> (Wheel, Timers) {
    let (mut wheel, timers) = (Wheel::new(Geometry::default(), 0), Timers::new(4));
    for (id, deadline) in [(1, 5), (2, 5), (3, 5), (4, 50)] {
        timers.set(id, deadline << 30);
        wheel.schedule(&timers, id);
        assert!(timers.is_linked(id));
    }
    wheel.validate(&timers).unwrap();
    (wheel, timers)
}

/// The three timers of the wheel that share a bucket, in its order.
fn ring(timers: &Timers) -> [u32; 3] {
    let is_timer = |&id: &u32| (1..=4).contains(&id);
    let first = (1..=3).find(|&id| !is_timer(&timers.prev(id))).unwrap();
    let second = timers.next(first);
    [first, second, timers.next(second)]
}

#[test]
fn a_wheel_notices_a_timer_that_would_come_too_late() {
    let (wheel, timers) = wheel();
    timers.set(4, 2 << 30);
    notices(wheel.validate(&timers), "ns left");
    timers.set(4, 500 << 30);
    wheel.validate(&timers).expect("early is no error: it is looked at again");
}

#[test]
fn a_wheel_notices_rings_that_do_not_fit() {
    let (wheel, timers) = wheel();
    let [first, second, third] = ring(&timers);
    let head = timers.next(third);
    timers.set_next(second, 0);
    notices(wheel.validate(&timers), "is followed by 0x0");
    timers.set_next(second, first);
    notices(wheel.validate(&timers), "does not point back");
    timers.set_next(second, head);
    notices(wheel.validate(&timers), "the head of");
    timers.set_next(second, third);
    wheel.validate(&timers).unwrap();
    // For ever on the same timer.
    timers.set_next(third, third);
    timers.set_prev(third, third);
    timers.set_next(second, third);
    notices(wheel.validate(&timers), "does not point back");
}

#[test]
fn a_wheel_notices_more_timers_than_it_counts() {
    let (mut wheel, timers) = (Wheel::new(Geometry::default(), 0), Timers::new(1));
    timers.set(1, 5 << 30);
    wheel.schedule(&timers, 1);
    timers.set_next(1, 1);
    notices(wheel.validate(&timers), "goes on after 1");
}

/// Hashes that can be changed under an index.
struct Hashes([Cell<Hash32>; 3]);

impl HashOf for Hashes {
    fn hash(&self, id: NodeId) -> Hash32 {
        self.0[id.index()].get()
    }
}

fn index() -> (Index, Hashes) {
    let all = [0, 0x1234_5678, 0xfedc_ba98].map(Hash32::from_raw);
    let (index, hashes) = (Index::with_capacity(1000), Hashes(all.map(Cell::new)));
    (1..=2).map(NodeId::from_raw).for_each(|id| insert(&index, hashes.hash(id), id));
    assert_eq!(index.validate(&pin(), &hashes), Ok(2));
    (index, hashes)
}

fn insert(index: &Index, hash: Hash32, id: NodeId) {
    let guard = pin();
    index.search(&guard, hash, |_| false).lock().expect("nobody else is here").insert(id);
}

#[test]
fn an_index_notices_what_does_not_belong_there() {
    let (index, hashes) = index();
    let guard = pin();
    let hash = hashes.0[1].replace(Hash32::from_raw(0x1234_5679));
    notices(index.validate(&guard, &hashes), "has fingerprint");
    hashes.0[1].set(Hash32::from_raw(hash.raw() ^ 1 << 31));
    notices(index.validate(&guard, &hashes), "is in bucket");
    hashes.0[1].set(hash);
    let found = index.search(&guard, hash, |id| id == NodeId::from_raw(1));
    let locked = found.lock().expect("nobody else is here");
    notices(index.validate(&guard, &hashes), "is locked");
    drop(locked);
    insert(&index, hash, NodeId::from_raw(1));
    notices(index.validate(&guard, &hashes), "id 1 is there twice");
}

/// A policy with three nodes, one of them without weight.
fn policy() -> (Policy, Store, [NodeId; 3]) {
    let (mut policy, mut store) = (Policy::new(100, 7), Store::new());
    let ids = [(1, 3), (2, 5), (3, 0)].map(|(key, weight)| store.alloc(key, weight));
    ids.iter().for_each(|&id| policy.add(&store, id.with(store.node(id))));
    policy.validate(&store).unwrap();
    (policy, store, ids)
}

#[test]
fn a_policy_notices_nodes_that_say_something_else() {
    let (policy, store, [first, _, weightless]) = policy();
    let region = store.region(first);
    store.node(first).set_region(Region::None);
    notices(policy.validate(&store), "says None");
    store.node(first).set_region(region);
    store.falsify_weight(first, 4);
    notices(policy.validate(&store), "weighs");
    store.falsify_weight(first, 0);
    notices(policy.validate(&store), "weighs 0");
    store.falsify_weight(first, 3);
    store.falsify_weight(weightless, 1);
    notices(policy.validate(&store), "in Weightless weighs 1");
    store.falsify_weight(weightless, 0);
    policy.validate(&store).unwrap();
}
