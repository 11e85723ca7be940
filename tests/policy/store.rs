//! A pool for the policy's tests, and a cache of unit weights on top of it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use cortado::internals::hash::Hash32;
use cortado::internals::links::{Links, NodeId};
use cortado::internals::policy::{Policy, PolicyNode, PolicyStore, Region};
use std::cell::Cell;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub struct Node {
    links: Links,
    region: Cell<Region>,
    weight: Cell<u32>,
    hash: Hash32,
}

/// Nodes in a vector; ids are reused, the last one freed first. Counts how often nodes are asked
/// for.
#[derive(Debug)]
pub struct Store {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    visits: Cell<usize>,
}

impl Store {
    pub fn new() -> Self {
        // Id 0 names no node.
        Self { nodes: vec![Node::default()], free: Vec::new(), visits: Cell::new(0) }
    }

    pub fn alloc(&mut self, key: u64, weight: u32) -> NodeId {
        self.alloc_hashed(hash(key), weight)
    }

    pub fn alloc_hashed(&mut self, hash: Hash32, weight: u32) -> NodeId {
        let node = Node { weight: weight.into(), hash, ..Node::default() };
        match self.free.pop() {
            Some(id) => {
                self.nodes[id.index()] = node;
                id
            }
            None => {
                self.nodes.push(node);
                NodeId::from_raw(u32::try_from(self.nodes.len() - 1).unwrap())
            }
        }
    }

    pub fn free(&mut self, id: NodeId) {
        assert_eq!(self.region(id), Region::None, "{id} is still held");
        let links = &self.nodes[id.index()].links;
        assert_eq!(
            (links.prev(), links.next()),
            (NodeId::NONE, NodeId::NONE),
            "{id} is still linked"
        );
        self.free.push(id);
    }

    /// Breaks the word of a store, whose weights never change while a region holds them.
    pub fn falsify_weight(&self, id: NodeId, weight: u32) {
        self.nodes[id.index()].weight.set(weight);
    }

    pub fn weight(&self, id: NodeId) -> u32 {
        self.node(id).weight()
    }

    pub fn hash(&self, id: NodeId) -> Hash32 {
        self.node(id).hash()
    }

    pub fn region(&self, id: NodeId) -> Region {
        self.node(id).region()
    }

    /// Nodes asked for since the last time this was asked.
    pub fn take_visits(&self) -> usize {
        self.visits.replace(0)
    }
}

impl PolicyStore for Store {
    type Node = Node;

    fn node(&self, id: NodeId) -> &Node {
        self.visits.set(self.visits.get() + 1);
        &self.nodes[id.index()]
    }
}

impl PolicyNode for Node {
    fn links(&self) -> &Links {
        &self.links
    }

    fn weight(&self) -> u32 {
        self.weight.get()
    }

    fn hash(&self) -> Hash32 {
        self.hash
    }

    fn region(&self) -> Region {
        self.region.get()
    }

    fn set_region(&self, region: Region) {
        self.region.set(region);
    }
}

/// The finaliser of splitmix64: well mixed, as the cache's hashes are.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

pub fn hash(key: u64) -> Hash32 {
    Hash32::from_raw((mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15)) >> 32) as u32)
}

/// Numbers that are the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// In 0.0..1.0.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A cache that evicts by the policy alone (of unit weights, if not said otherwise): each request
/// looks its key up, and inserts it on a miss.
pub struct Sim {
    pub store: Store,
    pub policy: Policy,
    ids: HashMap<u64, NodeId>,
    keys: HashMap<NodeId, u64>,
    pub hits: u64,
    pub requests: u64,
}

impl Sim {
    pub fn new(policy: Policy) -> Self {
        let (ids, keys) = (HashMap::new(), HashMap::new());
        Self { store: Store::new(), policy, ids, keys, hits: 0, requests: 0 }
    }

    /// Whether it was a hit.
    pub fn request(&mut self, key: u64) -> bool {
        self.request_of(key, 1)
    }

    /// The same with a weight, if the key is new.
    pub fn request_of(&mut self, key: u64, weight: u32) -> bool {
        self.requests += 1;
        if let Some(&id) = self.ids.get(&key) {
            self.hits += 1;
            self.policy.record_hit(&self.store, id);
            return true;
        }
        let id = self.store.alloc(key, weight);
        self.put(key, id);
        self.policy.add(&self.store, id.with(self.store.node(id)));
        self.evict();
        false
    }

    /// Inserts or updates an entry, and makes no room for it.
    pub fn write(&mut self, key: u64, weight: u32) {
        let id = self.store.alloc(key, weight);
        match self.ids.get(&key) {
            Some(&old) => self.policy.replace(&self.store, old, id),
            None => self.policy.add(&self.store, id.with(self.store.node(id))),
        }
        self.put(key, id);
    }

    /// Reloads an entry that is there, and makes no room for it.
    pub fn reload(&mut self, key: u64, weight: u32) {
        let id = self.store.alloc(key, weight);
        self.policy.replace_reloaded(&self.store, self.ids[&key], id);
        self.put(key, id);
    }

    /// The key has this node from now on.
    fn put(&mut self, key: u64, id: NodeId) {
        self.keys.insert(id, key);
        if let Some(old) = self.ids.insert(key, id) {
            self.keys.remove(&old);
            self.store.free(old);
        }
    }

    /// Makes room.
    pub fn evict(&mut self) {
        while let Some(victim) = self.policy.take_victim(&self.store).map(|it| it.id) {
            let key = self.keys.remove(&victim).unwrap();
            self.ids.remove(&key);
            self.store.free(victim);
        }
    }

    /// The entry leaves by another way than eviction, if it is there.
    pub fn remove(&mut self, key: u64) {
        if let Some(id) = self.ids.remove(&key) {
            self.keys.remove(&id);
            self.policy.remove(&self.store, self.store.node(id));
            self.store.free(id);
        }
    }

    pub fn run(&mut self, keys: impl Iterator<Item = u64>) -> &mut Self {
        keys.for_each(|key| {
            self.request(key);
        });
        self
    }

    /// In percent.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests as f64 * 100.0
    }

    pub fn keys(&self) -> Vec<u64> {
        self.ids.keys().copied().collect()
    }

    pub fn contains(&self, key: u64) -> bool {
        self.ids.contains_key(&key)
    }

    pub fn region(&self, key: u64) -> Region {
        self.ids.get(&key).map_or(Region::None, |&id| self.store.region(id))
    }
}

/// The hit ratio in percent of a policy on a sequence of keys.
pub fn hit_ratio(policy: Policy, keys: impl Iterator<Item = u64>) -> f64 {
    let mut sim = Sim::new(policy);
    let ratio = sim.run(keys).hit_ratio();
    sim.policy.validate(&sim.store).unwrap();
    ratio
}
