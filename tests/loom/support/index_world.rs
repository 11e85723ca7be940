//! An index of a few nodes for the models, whose nodes tell whether they are looked at too early or
//! too late.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::Arc;

use super::explore;
use cortado::internals::epoch::{Guard, hasten, pin};
use cortado::internals::hash::Hash32;
use cortado::internals::index::{Changed, HashOf, HomeLookup, Index, Patience, Probe};
use cortado::internals::links::NodeId;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use loom::thread;

pub fn model(check: impl Fn() + Send + Sync + 'static) {
    model_at(("LOOM_MAX_PREEMPTIONS", 2), check);
}

pub fn model_at(preemptions: (&str, usize), check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    explore::explore(builder, preemptions, check);
}

/// The key of a node that is not made yet, or has been reclaimed.
const POISON: u64 = u64::MAX;

/// A node. Its key is relaxed on both sides, so that whoever looks at it before its publication has
/// reached him, or when its grace period may be over, finds the poison in some execution.
struct Node {
    key: AtomicU64,
    gone: AtomicBool,
}

/// Node `i` of the store has id `i + 1`.
pub struct Store {
    nodes: Vec<Node>,
}

/// The two low bits of a key choose the bucket, and all keys share a tag.
pub fn hash_of(key: u64) -> Hash32 {
    Hash32::from_raw((key as u32) << 30 | 7)
}

/// Keys of the lower and of the upper half of the table, the first of two, or four, buckets in it.
pub const LOW: [u64; 4] = [0, 4, 8, 12];
pub const HIGH: [u64; 4] = [2, 6, 10, 14];

impl Store {
    fn new(nodes: usize) -> Arc<Self> {
        let node = |_| Node { key: AtomicU64::new(POISON), gone: AtomicBool::new(false) };
        Arc::new(Self { nodes: (0..nodes).map(node).collect() })
    }

    /// Makes a node; the caller publishes it.
    fn make(&self, id: NodeId, key: u64) {
        self.node(id).key.store(key, Relaxed);
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index() - 1]
    }

    fn key(&self, id: NodeId) -> u64 {
        let key = self.node(id).key.load(Relaxed);
        assert_ne!(key, POISON, "id {id} was looked at too early or too late");
        key
    }

    fn probe(&self, id: NodeId, key: u64) -> Probe {
        if self.key(id) != key {
            Probe::Other
        } else if self.node(id).gone.load(Acquire) {
            Probe::Gone
        } else {
            Probe::Hit
        }
    }

    /// Marks a node gone that the index no longer has, and poisons it after the grace period.
    fn retire(self: &Arc<Self>, guard: &Guard, id: NodeId) {
        self.node(id).gone.store(true, Release);
        let store = self.clone();
        guard.defer(move || store.make(id, POISON));
        guard.flush();
    }
}

impl HashOf for Store {
    fn hash(&self, id: NodeId) -> Hash32 {
        hash_of(self.key(id))
    }
}

#[derive(Clone)]
pub struct World {
    pub index: Arc<Index>,
    pub store: Arc<Store>,
}

impl World {
    /// `keys[i]` is node `i + 1`; there are `spare` more nodes after them.
    pub fn new(capacity: usize, keys: &[u64], spare: usize) -> Self {
        let index = Arc::new(Index::with_capacity(capacity));
        let world = Self { index, store: Store::new(keys.len() + spare) };
        for (id, &key) in (1..).zip(keys) {
            assert!(world.insert(id, key));
        }
        world
    }

    pub fn spawn(&self, f: impl FnOnce(&Self) + Send + 'static) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || f(&world))
    }

    pub fn find(&self, key: u64) -> Option<u32> {
        self.find_in(&pin(), key)
    }

    pub fn find_in(&self, guard: &Guard, key: u64) -> Option<u32> {
        let hash = hash_of(key);
        let found = match self.index.lookup_home(guard, hash) {
            HomeLookup::Absent => None,
            HomeLookup::Candidate(id) if self.store.probe(id, key) == Probe::Hit => Some(id),
            _ => self.index.find(guard, hash, |id| self.store.probe(id, key)),
        };
        found.map(NodeId::raw)
    }

    /// Whether the key was not there and was put in.
    pub fn insert(&self, id: u32, key: u64) -> bool {
        let (id, guard) = (NodeId::from_raw(id), pin());
        // After the pin, whose fence would hide a publication that is too weak.
        self.store.make(id, key);
        loop {
            let is_match = |other| self.store.key(other) == key;
            let passing = self.index.search_home(&guard, hash_of(key), is_match);
            let found = match passing {
                Some(found) => found,
                None => self.index.search(&guard, hash_of(key), is_match),
            };
            if found.id().is_some() {
                return false;
            }
            match found.lock() {
                Ok(mut locked) => {
                    locked.insert(id);
                    return true;
                }
                Err(Changed) => thread::yield_now(),
            }
        }
    }

    pub fn replace(&self, id: u32, key: u64) {
        let (id, guard) = (NodeId::from_raw(id), pin());
        self.store.make(id, key);
        loop {
            let is_match = |other| self.store.key(other) == key;
            let found = self.index.search(&guard, hash_of(key), is_match);
            assert!(found.id().is_some(), "key {key} has been there all the time");
            if let Ok(mut locked) = found.lock() {
                let old = locked.replace(id);
                drop(locked);
                return self.store.retire(&guard, old);
            }
            thread::yield_now();
        }
    }

    pub fn remove(&self, id: u32, key: u64) {
        let (id, guard) = (NodeId::from_raw(id), pin());
        let mut locked = self.index.lock_id(&guard, hash_of(key), id).expect("it is there");
        assert_eq!(locked.remove(), id);
        let spare = locked.take_empty_overflow();
        drop(locked);
        if let Some(spare) = spare {
            self.index.retire_overflow(spare);
        }
        self.store.retire(&guard, id);
    }

    /// A table of two buckets that may shrink to one.
    pub fn grown(keys: &[u64], spare: usize) -> Self {
        let world = Self::new(1, keys, spare);
        world.grow();
        assert_eq!(world.index.buckets(&pin()), 2);
        world
    }

    /// Helps until there is nothing left to move.
    pub fn grow(&self) {
        self.resize(usize::MAX);
    }

    pub fn shrink(&self) {
        self.resize(0);
    }

    fn resize(&self, entries: usize) {
        assert!(self.index.resize_for(&pin(), entries));
        while self.help(1, Patience::Wait) {}
        self.free_retired();
    }

    /// Frees retired tables and chains, if no thread may be in them.
    fn free_retired(&self) {
        while let Some(grace) = self.index.awaited_grace()
            && hasten(grace, u32::MAX)
        {
            self.index.free_retired();
        }
    }

    pub fn help(&self, buckets: usize, patience: Patience) -> bool {
        self.index.help(&pin(), &*self.store, buckets, patience)
    }

    pub fn walk(&self) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut cursor = Some(Hash32::FIRST);
        while let Some(position) = cursor {
            cursor = self.index.ids_at(&pin(), &*self.store, position, &mut ids);
        }
        ids.into_iter().map(NodeId::raw).collect()
    }

    pub fn validate(&self) -> usize {
        self.index.validate(&pin(), &*self.store).unwrap()
    }
}
