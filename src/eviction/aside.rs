//! The nodes that cannot be evicted now. No region holds them, so no search for room meets them.
//!
//! They count like all other nodes, and every call except `validate` is O(1). A node here has
//! [`Region::None`], and its links hold no neighbours: `next` is a mark, and
//! `prev` the node's place in the vector. So membership needs no bit of its own in the node.

use super::store::{PolicyNode, PolicyStore, Region};
use crate::links::{Links, NodeId};

/// The `next` of every node here.
const MARK: NodeId = NodeId::FIRST_RESERVED;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Aside {
    ids: Vec<NodeId>,
    weight: u64,
}

impl Aside {
    pub fn weight(&self) -> u64 {
        self.weight
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.ids.iter().copied()
    }

    /// Whether the node with these links is here.
    #[inline]
    pub fn holds(links: &Links) -> bool {
        links.next() == MARK
    }

    /// Takes in a node that no region holds.
    pub fn insert(&mut self, store: &impl PolicyStore, id: NodeId) {
        let node = store.node(id);
        debug_assert_eq!(node.region(), Region::None, "{id} is in a region");
        node.links().set_next(MARK);
        Self::set_place(node.links(), self.ids.len());
        self.ids.push(id);
        self.weight += u64::from(node.weight());
    }

    /// Gives a node up. Returns whether it was here.
    pub fn remove(&mut self, store: &impl PolicyStore, node: &impl PolicyNode) -> bool {
        if !Self::holds(node.links()) {
            return false;
        }
        let place = Self::place(node.links());
        self.ids.swap_remove(place);
        if let Some(&moved) = self.ids.get(place) {
            Self::set_place(store.node(moved).links(), place);
        }
        node.links().clear();
        self.weight -= u64::from(node.weight());
        true
    }

    pub fn place(links: &Links) -> usize {
        (links.number() - NodeId::FIRST_RESERVED.raw()) as usize
    }

    /// Reserved numbers, so that nobody takes a place for a neighbour. There are more of them than
    /// nodes.
    fn set_place(links: &Links, place: usize) {
        links.set_number(NodeId::FIRST_RESERVED.raw() + place as u32);
    }
}
