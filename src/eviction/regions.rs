//! The four lists and their weights, and the nodes that are set aside. The front of a list is the
//! most recently used end.
//!
//! Every call but [`Regions::ranked`] is O(1), and keeps list, weight and the node's region byte in
//! step.

use super::store::{PolicyNode, PolicyStore, Region};
use crate::links::{Links, Named, NodeId};
use crate::list::{End, List};
use crate::sketch::Sketch;

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
    /// The sum over all lists, which every write asks for several times.
    weight: u64,
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
        self.lists.iter().map(|it| it.list.len()).sum::<usize>() + self.aside.len()
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
        let are_alike = (before == 0) == (after == 0);
        debug_assert!(are_alike, "weightless nodes have a region of their own");
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

    /// The nodes by their prospects. From the back that is roughly the order in which the policy
    /// would evict them:
    ///
    /// 1. Window and probation, each from its end, merged so that the less frequent node comes
    ///    first. Without a sketch, which means without duels: probation, then the window.
    /// 2. Protected, from its end.
    /// 3. Nodes that are set aside, in no order.
    /// 4. Nodes of weight 0, which are never evicted.
    ///
    /// From the front: protected from its front, those set aside, window and probation merged so
    /// that the more frequent node comes first, and those of weight 0.
    pub fn ranked<'a>(
        &'a self,
        sketch: Option<&'a Sketch>,
        store: &'a impl PolicyStore,
        end: End,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let of = move |region| self.of(region).list.iter(store, end);
        let heat = move |id| sketch.map_or(0, |it| it.frequency(it.spread(store.node(id).hash())));
        let hotter_first = end == End::Front;
        let unproven = merge(of(Region::Probation), of(Region::Window), move |a, b| {
            (heat(a) > heat(b)) == hotter_first
        });
        let proven = of(Region::Protected).chain(self.aside.iter());
        let mut parts: [Box<dyn Iterator<Item = NodeId> + 'a>; 2] =
            [Box::new(unproven), Box::new(proven)];
        if hotter_first {
            parts.reverse();
        }
        parts.into_iter().flatten().chain(of(Region::Weightless))
    }

    /// The list of `region`, by index instead of by branches: the processor cannot predict the
    /// region of a node.
    #[inline]
    fn of_mut(&mut self, region: Region) -> Option<&mut RegionList> {
        self.lists.get_mut((region as usize).wrapping_sub(1))
    }
}

/// Merges two sequences. If both have a next element, `first_goes` compares the two and decides
/// whether the element of the first sequence comes first.
fn merge(
    first: impl Iterator<Item = NodeId>,
    second: impl Iterator<Item = NodeId>,
    first_goes: impl Fn(NodeId, NodeId) -> bool,
) -> impl Iterator<Item = NodeId> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(&a), Some(&b)) if !first_goes(a, b) => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}

/// The `next` of every node here.
const MARK: NodeId = NodeId::FIRST_RESERVED;

/// The nodes that cannot be evicted now. No region holds them, so no search for room meets them.
///
/// They count like all other nodes, and every call is O(1). A node here has [`Region::None`], and
/// its links hold no neighbours: `next` is a mark, and `prev` the node's place in the vector. So
/// membership needs no bit of its own in the node.
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
