//! The keys of the shadows: the entries that each shadow would hold, without values.
//!
//! A key has one node for all shadows. The node has separate links and a separate region for each
//! shadow. It exists as long as some shadow holds the key. A [`ShadowStore`] is one shadow's view
//! of the nodes.

use super::rules::Rules;
use super::store::{PolicyNode, PolicyStore, Region};
use crate::hash::Hash32;
use crate::links::{Links, NodeId};
use crate::sketch::blocks::spread;
use hashbrown::HashTable;
use std::cell::Cell;

const SHADOWS: usize = Rules::ALL.len();

#[derive(Debug, Default)]
struct Node {
    hash: Hash32,
    regions: [Cell<Region>; SHADOWS],
    links: [Links; SHADOWS],
}

impl Node {
    fn is_held(&self) -> bool {
        self.regions.iter().any(|region| region.get() != Region::None)
    }
}

/// The nodes, found by hash. Two keys with the same hash count as one key.
#[derive(Debug)]
pub struct Keys {
    /// The first node is unused: its id is [`NodeId::NONE`].
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    index: HashTable<NodeId>,
    seed: u64,
}

impl Keys {
    pub fn new(seed: u64) -> Self {
        let nodes = vec![Node::default()];
        Self { nodes, free: Vec::new(), index: HashTable::new(), seed }
    }

    pub fn find(&self, hash: Hash32) -> Option<NodeId> {
        let spread = spread(hash, self.seed).raw();
        self.index.find(spread, |&id| self.nodes[id.index()].hash == hash).copied()
    }

    /// The node of a key. A new node is created if there is none; no shadow holds it yet.
    pub fn get_or_insert(&mut self, hash: Hash32) -> NodeId {
        if let Some(id) = self.find(hash) {
            return id;
        }
        let id = self.free.pop().unwrap_or(NodeId::from_raw(self.nodes.len() as u32));
        if id.index() == self.nodes.len() {
            self.nodes.push(Node::default());
        }
        let Self { nodes, seed, .. } = self;
        nodes[id.index()].hash = hash;
        let spread_of = |&id: &NodeId| spread(nodes[id.index()].hash, *seed).raw();
        self.index.insert_unique(spread(hash, *seed).raw(), id, spread_of);
        id
    }

    /// Forgets a key if no shadow holds it any more.
    pub fn release(&mut self, id: NodeId) {
        let node = &self.nodes[id.index()];
        if node.is_held() {
            return;
        }
        if let Ok(entry) =
            self.index.find_entry(spread(node.hash, self.seed).raw(), |&other| other == id)
        {
            entry.remove();
            self.free.push(id);
        }
    }

    /// The keys whose hash is `unwanted`.
    pub fn matching(&self, unwanted: impl Fn(Hash32) -> bool) -> Vec<NodeId> {
        self.index.iter().copied().filter(|&id| unwanted(self.nodes[id.index()].hash)).collect()
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn store(&self, shadow: usize) -> ShadowStore<'_> {
        ShadowStore { nodes: &self.nodes, shadow }
    }
}

/// The nodes as one shadow sees them. Each node weighs one.
#[derive(Debug)]
pub struct ShadowStore<'a> {
    nodes: &'a [Node],
    shadow: usize,
}

impl PolicyStore for ShadowStore<'_> {
    type Node<'a>
        = ShadowNode<'a>
    where
        Self: 'a;

    #[inline]
    fn node(&self, id: NodeId) -> ShadowNode<'_> {
        ShadowNode { node: &self.nodes[id.index()], shadow: self.shadow }
    }
}

/// A node as one shadow sees it.
#[derive(Clone, Copy, Debug)]
pub struct ShadowNode<'a> {
    node: &'a Node,
    shadow: usize,
}

impl<'a> PolicyNode<'a> for ShadowNode<'a> {
    #[inline]
    fn links(self) -> &'a Links {
        &self.node.links[self.shadow]
    }

    #[inline]
    fn weight(self) -> u32 {
        1
    }

    #[inline]
    fn hash(self) -> Hash32 {
        self.node.hash
    }

    #[inline]
    fn region(self) -> Region {
        self.node.regions[self.shadow].get()
    }

    #[inline]
    fn set_region(self, region: Region) {
        self.node.regions[self.shadow].set(region);
    }
}
