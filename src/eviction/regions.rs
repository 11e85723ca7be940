//! The four lists and their weights, and the nodes that are set aside. The front of a list is the
//! most recently used end.
//!
//! Every call except `validate` is O(1), and keeps list, weight and the node's region byte in step.

use super::aside::Aside;
use super::store::{PolicyNode, PolicyStore, Region};
use crate::links::{Named, NodeId};
use crate::list::{End, List};

/// One list and the weight of its nodes.
#[derive(Debug, Default)]
pub struct RegionList {
    pub list: List,
    pub weight: u64,
}

/// All nodes that the policy holds.
#[derive(Debug, Default)]
pub struct Regions {
    /// In the order of [`Region`], without [`Region::None`].
    lists: [RegionList; 4],
    /// The sums over all lists, which every write asks for several times.
    weight: u64,
    len: usize,
    /// Nodes that cannot be evicted now. They are in no region, and count all the same.
    pub aside: Aside,
}

impl Regions {
    /// The list of `region`, which must not be [`Region::None`].
    #[inline]
    pub fn of(&self, region: Region) -> &RegionList {
        &self.lists[region as usize - 1]
    }

    pub fn weight(&self) -> u64 {
        self.weight + self.aside.weight()
    }

    pub fn len(&self) -> usize {
        self.len + self.aside.len()
    }

    /// The next node to leave the main region.
    pub fn main_victim(&self) -> Option<NodeId> {
        self.of(Region::Probation).list.back().or_else(|| self.of(Region::Protected).list.back())
    }

    /// Links a node that is in no region.
    #[inline]
    pub fn insert(
        &mut self,
        store: &impl PolicyStore,
        Named { id, node }: Named<&impl PolicyNode>,
        to: Region,
        end: End,
    ) {
        debug_assert_eq!(node.region(), Region::None, "{id} is in a region already");
        let Some(list) = self.of_mut(to) else { return };
        list.list.link(store, end, id, node.links());
        let weight = u64::from(node.weight());
        list.weight += weight;
        self.weight += weight;
        self.len += 1;
        node.set_region(to);
    }

    /// Unlinks a node and returns its former region.
    #[inline]
    pub fn remove(&mut self, store: &impl PolicyStore, node: &impl PolicyNode) -> Region {
        let from = node.region();
        if let Some(list) = self.of_mut(from) {
            list.list.unlink(store, node.links());
            let weight = u64::from(node.weight());
            list.weight -= weight;
            self.weight -= weight;
            self.len -= 1;
            node.set_region(Region::None);
        }
        from
    }

    /// Puts `new` in the place of the node `from`. `new` must be in no region. If the weights
    /// differ, the caller must [`reweigh`](Self::reweigh) the region. Returns false if `from`
    /// is in none.
    pub fn replace(
        &mut self,
        store: &impl PolicyStore,
        from: &impl PolicyNode,
        Named { id: new, node: to }: Named<&impl PolicyNode>,
    ) -> bool {
        let region = from.region();
        let Some(list) = self.of_mut(region) else { return false };
        list.list.replace(store, from.links(), new.with(to.links()));
        from.set_region(Region::None);
        to.set_region(region);
        true
    }

    /// A node of the region has one weight in place of another. Neither is zero, or both are:
    /// weightless nodes have a region of their own.
    pub fn reweigh(&mut self, region: Region, before: u32, after: u32) {
        let (before, after) = (u64::from(before), u64::from(after));
        if let Some(list) = self.of_mut(region) {
            list.weight = list.weight - before + after;
            self.weight = self.weight - before + after;
        }
    }

    /// Moves a node from another region to the front of the region `to`.
    #[inline]
    pub fn move_to_front(&mut self, store: &impl PolicyStore, id: NodeId, to: Region) {
        let node = store.node(id);
        self.remove(store, node);
        self.insert(store, id.with(node), to, End::Front);
    }

    /// The list of `region`, by index instead of by branches: the processor cannot predict the
    /// region of a node.
    #[inline]
    fn of_mut(&mut self, region: Region) -> Option<&mut RegionList> {
        self.lists.get_mut((region as usize).wrapping_sub(1))
    }
}
