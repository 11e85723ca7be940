//! The index against a `HashMap`, one operation at a time: entries, growing and shrinking at any
//! moment, walks that last through all of it.
use std::collections::{HashMap, HashSet};

use crate::common::effort::share;
use cortado::internals::epoch::{Guard, pin};
use cortado::internals::hash::Hash32;
use cortado::internals::index::{BucketBusy, HashOf, HomeLookup, Index, Locked, Patience, Probe};
use cortado::internals::links::NodeId;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

/// How keys are hashed: each shape stresses something else.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Well.
    Spread,
    /// All tags the same.
    OneTag,
    /// Eight hashes: long chains.
    Eight,
    /// One hash: one chain, whatever the table's size.
    One,
}

impl Shape {
    fn hash(self, key: u64) -> Hash32 {
        let mixed = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        Hash32::from_raw(match self {
            Self::Spread => mixed,
            Self::OneTag => mixed & !0xff | 0x2a,
            Self::Eight => (key as u32 % 8) << 29,
            Self::One => u32::MAX,
        })
    }
}

/// The first id that is given out.
const FIRST: NodeId = NodeId::from_raw(1);

/// The keys of all ids that were ever given out; id 0 is nobody's.
struct Store {
    shape: Shape,
    keys: Vec<u64>,
}

impl HashOf for Store {
    fn hash(&self, id: NodeId) -> Hash32 {
        self.shape.hash(self.keys[id.index()])
    }
}

/// A walk on its way.
struct Walk {
    cursor: Option<Hash32>,
    visited: Vec<NodeId>,
    /// The ids that have been there since it began.
    present: HashSet<NodeId>,
}

struct Model {
    index: Index,
    store: Store,
    entries: HashMap<u64, NodeId>,
    gone: HashSet<NodeId>,
    walk: Option<Walk>,
}

impl Model {
    fn new(shape: Shape) -> Self {
        Self {
            index: Index::with_capacity(112),
            store: Store { shape, keys: vec![u64::MAX] },
            entries: HashMap::new(),
            gone: HashSet::new(),
            walk: None,
        }
    }

    fn node(&mut self, key: u64) -> NodeId {
        self.store.keys.push(key);
        NodeId::from_raw(self.store.keys.len() as u32 - 1)
    }

    fn locked<'a>(&'a self, guard: &'a Guard, key: u64) -> Locked<'a> {
        let hash = self.store.shape.hash(key);
        let found = self.index.search(guard, hash, |id| self.store.keys[id.index()] == key);
        assert_eq!(found.id(), self.entries.get(&key).copied());
        found.lock().expect("nobody else is here")
    }

    /// Inserts, or replaces.
    fn put(&mut self, key: u64) {
        let id = self.node(key);
        let guard = pin();
        let mut locked = self.locked(&guard, key);
        let old = locked.id();
        match old {
            Some(old) => assert_eq!(locked.replace(id), old),
            None => locked.insert(id),
        }
        assert_eq!(locked.id(), Some(id));
        drop(locked);
        self.entries.insert(key, id);
        self.left(old);
    }

    fn remove(&mut self, key: u64) {
        let guard = pin();
        let mut locked = self.locked(&guard, key);
        let old = locked.id();
        if old.is_some() {
            assert_eq!(Some(locked.remove()), old);
        }
        assert_eq!(locked.id(), None);
        drop(locked);
        self.entries.remove(&key);
        self.left(old);
    }

    /// Removes and inserts again under one lock.
    fn renew(&mut self, key: u64) {
        let id = self.node(key);
        let guard = pin();
        let Some(&old) = self.entries.get(&key) else {
            let hash = self.store.shape.hash(key);
            assert!(self.index.lock_id(&guard, hash, id).is_none());
            assert!(self.index.lock_id_with(&guard, hash, id, Patience::Skip).unwrap().is_none());
            return;
        };
        let hash = self.store.shape.hash(key);
        let mut locked =
            self.index.lock_id_with(&guard, hash, old, Patience::Skip).unwrap().unwrap();
        assert_eq!(locked.id(), Some(old));
        assert_eq!(locked.remove(), old);
        locked.insert(id);
        drop(locked);
        self.entries.insert(key, id);
        self.left(Some(old));
    }

    fn left(&mut self, old: Option<NodeId>) {
        let Some(old) = old else { return };
        self.gone.insert(old);
        if let Some(walk) = &mut self.walk {
            walk.present.remove(&old);
        }
    }

    fn find(&self, key: u64) -> Option<NodeId> {
        let (guard, hash) = (pin(), self.store.shape.hash(key));
        let is_match = |id: NodeId| {
            assert!(!self.gone.contains(&id), "id {id} is not in the index");
            self.store.keys[id.index()] == key
        };
        let probe = |id| if is_match(id) { Probe::Hit } else { Probe::Other };
        let found = self.index.find(&guard, hash, probe);
        match self.index.lookup_home(&guard, hash) {
            HomeLookup::Absent => assert_eq!(found, None),
            HomeLookup::Candidate(id) => assert!(!is_match(id) || found == Some(id)),
            HomeLookup::Incomplete => {}
        }
        found
    }

    fn walk_on(&mut self) {
        let walk = self.walk.get_or_insert_with(|| Walk {
            cursor: Some(Hash32::FIRST),
            visited: Vec::new(),
            present: self.entries.values().copied().collect(),
        });
        let cursor = walk.cursor.unwrap();
        walk.cursor = self.index.ids_at(&pin(), &self.store, cursor, &mut walk.visited);
        if walk.cursor.is_none() {
            let visited: HashSet<NodeId> = walk.visited.iter().copied().collect();
            assert_eq!(visited.len(), walk.visited.len(), "an id was visited twice");
            assert!(visited.is_superset(&walk.present), "an id was not visited");
            self.walk = None;
        }
    }

    /// Moves until nothing is left.
    fn settle(&self) {
        while self.index.help(&pin(), &self.store, 1, Patience::Wait) {}
    }

    /// Helps while somebody has the bucket of this hash locked.
    fn help_past_a_lock(&self, hash: Hash32, buckets: usize) {
        let guard = pin();
        let held = self.index.search(&guard, hash, |_| false).lock().expect("nobody else is here");
        let before = self.index.is_moving(&guard);
        let left = self.index.help(&guard, &self.store, buckets, Patience::Skip);
        assert!(!left || before, "there is nothing to do");
        assert_eq!(
            self.index.lock_id_with(&guard, hash, FIRST, Patience::Skip).err(),
            Some(BucketBusy)
        );
        drop(held);
    }

    fn check(&self) {
        assert_eq!(self.index.validate(&pin(), &self.store), Ok(self.entries.len()));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put(u64),
    Remove(u64),
    Renew(u64),
    Find(u64),
    Reserve(usize),
    Help(usize),
    HelpPast(u64, usize),
    Walk(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0_u64..120;
    prop_oneof![
        8 => key.clone().prop_map(Op::Put),
        4 => key.clone().prop_map(Op::Remove),
        2 => key.clone().prop_map(Op::Renew),
        4 => key.prop_map(Op::Find),
        2 => (100_usize..2000).prop_map(Op::Reserve),
        1 => (0_usize..20).prop_map(Op::Reserve),
        4 => (0_usize..12).prop_map(Op::Help),
        2 => (0_u64..120, 0_usize..12).prop_map(|(key, buckets)| Op::HelpPast(key, buckets)),
        3 => (1_u8..8).prop_map(Op::Walk),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![Just(Shape::Spread), Just(Shape::OneTag), Just(Shape::Eight), Just(Shape::One)]
}

/// Failures are kept beside this file.
fn config() -> Config {
    let kept = FileFailurePersistence::WithSource("proptest-regressions");
    let cases = share(Config::default().cases.into()).max(32) as u32;
    Config { cases, failure_persistence: Some(Box::new(kept)), ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn agrees_with_a_hash_map(shape in shape(), ops in prop::collection::vec(op(), 1..400)) {
        let mut model = Model::new(shape);
        for op in ops {
            match op {
                Op::Put(key) => model.put(key),
                Op::Remove(key) => model.remove(key),
                Op::Renew(key) => model.renew(key),
                Op::Find(key) => assert_eq!(model.find(key), model.entries.get(&key).copied()),
                Op::Reserve(entries) => {
                    model.index.resize_for(&pin(), entries);
                }
                Op::Help(buckets) => {
                    model.index.help(&pin(), &model.store, buckets, Patience::Wait);
                }
                Op::HelpPast(key, buckets) => model.help_past_a_lock(shape.hash(key), buckets),
                Op::Walk(steps) => (0..steps).for_each(|_| model.walk_on()),
            }
            model.check();
        }
        model.settle();
        for key in 0..120 {
            assert_eq!(model.find(key), model.entries.get(&key).copied());
        }
    }
}

/// Chains of eight hundred buckets: filled, moved, searched and emptied, at a cost that is
/// quadratic only in looking at the nodes.
#[test]
fn eight_thousand_equal_hashes() {
    let mut model = Model::new(Shape::One);
    for key in 0..8000 {
        model.put(key);
    }
    model.check();
    model.index.resize_for(&pin(), 8000);
    model.settle();
    assert_eq!(model.index.buckets(&pin()), 32);
    model.check();
    for key in 0..8000 {
        assert_eq!(model.find(key), Some(NodeId::from_raw(key as u32 + 1)));
    }
    model.index.resize_for(&pin(), 0);
    model.settle();
    assert_eq!(model.index.buckets(&pin()), 16);
    model.check();
    for key in 0..8000 {
        model.remove(key);
    }
    model.check();
    assert_eq!(model.find(0), None);
}

/// A freed slot is used again, so a bucket under steady change does not grow.
#[test]
fn slots_are_reused() {
    let mut model = Model::new(Shape::Spread);
    for round in 0..10_000 {
        model.put(round % 7);
        model.remove((round + 3) % 7);
    }
    let guard = pin();
    let mut ids = Vec::new();
    let mut cursor = Some(Hash32::FIRST);
    let mut buckets = 0;
    while let Some(position) = cursor {
        cursor = model.index.ids_at(&guard, &model.store, position, &mut ids);
        buckets += 1;
    }
    assert_eq!(buckets, model.index.buckets(&guard));
    assert_eq!(ids.len(), model.entries.len());
    model.check();
}

/// A lock that somebody else has is not waited for, and one that is free is taken.
#[test]
fn trying_to_lock_an_id_does_not_wait() {
    for keys in [1, 40] {
        let mut model = Model::new(Shape::One);
        (0..keys).for_each(|key| model.put(key));
        let guard = pin();
        let (hash, last) = (Shape::One.hash(0), NodeId::from_raw(keys as u32));
        let absent = NodeId::from_raw(keys as u32 + 1);
        let held = model.index.lock_id(&guard, hash, FIRST).unwrap();
        assert_eq!(
            model.index.lock_id_with(&guard, hash, last, Patience::Skip).err(),
            Some(BucketBusy)
        );
        assert_eq!(
            model.index.lock_id_with(&guard, hash, absent, Patience::Skip).err(),
            Some(BucketBusy)
        );
        drop(held);
        assert!(model.index.lock_id_with(&guard, hash, absent, Patience::Skip).unwrap().is_none());
        let mut locked =
            model.index.lock_id_with(&guard, hash, last, Patience::Skip).unwrap().unwrap();
        assert_eq!(locked.remove(), last);
        drop(locked);
        assert!(model.index.lock_id_with(&guard, hash, last, Patience::Skip).unwrap().is_none());
    }
}

/// A search is void once anything in the bucket has changed, and only then.
#[test]
fn a_search_locks_only_what_it_saw() {
    let mut model = Model::new(Shape::One);
    model.put(1);
    let guard = pin();
    let hash = Shape::One.hash(0);

    let found = model.index.search(&guard, hash, |_| false);
    drop(model.index.lock_id(&guard, hash, FIRST));
    drop(found.lock().expect("a lock without a change is none"));

    let found = model.index.search(&guard, hash, |_| false);
    model.index.lock_id(&guard, hash, FIRST).unwrap().remove();
    assert!(found.lock().is_err());

    let found = model.index.search(&guard, hash, |_| false);
    let held = model.index.search(&guard, hash, |_| false).lock().unwrap();
    assert!(found.lock().is_err(), "locked by another");
    drop(held);
}

/// A panic while the lock is held releases it.
#[test]
fn a_panic_unlocks() {
    let mut model = Model::new(Shape::One);
    model.put(1);
    let guard = pin();
    let hash = Shape::One.hash(0);
    let inserted_twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        model.index.lock_id(&guard, hash, FIRST).unwrap().insert(NodeId::from_raw(2));
    }));
    assert!(inserted_twice.is_err());
    model.check();
    assert_eq!(model.index.lock_id(&guard, hash, FIRST).unwrap().id(), Some(FIRST));
}
