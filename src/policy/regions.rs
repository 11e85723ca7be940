//! The four lists and their weights. Front is the most recently used end.
//!
//! Every call is O(1), and keeps list, weight and the node's region byte in step.

use super::store::{PolicyNode, PolicyStore, Region};
use crate::list::List;

/// One list and the weight of what is in it.
#[derive(Debug, Default)]
pub struct Lane {
    pub list: List,
    pub weight: u64,
}

/// All nodes that the policy holds.
#[derive(Debug, Default)]
pub struct Regions {
    /// In the order of [`Region`], from its second on.
    lanes: [Lane; 4],
}

/// Where in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Front,
    Back,
}

impl Regions {
    /// The list of a region that is one.
    #[inline]
    pub fn lane(&self, region: Region) -> &Lane {
        &self.lanes[region as usize - 1]
    }

    pub fn weight(&self) -> u64 {
        self.lane(Region::Window).weight + self.main_weight()
    }

    /// Of probation and protected together.
    pub fn main_weight(&self) -> u64 {
        self.lane(Region::Probation).weight + self.lane(Region::Protected).weight
    }

    pub fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.list.len()).sum()
    }

    /// The next to leave the main region.
    pub fn main_victim(&self) -> Option<u32> {
        self.lane(Region::Probation)
            .list
            .back()
            .or_else(|| self.lane(Region::Protected).list.back())
    }

    /// Links a node that is in no region.
    #[inline]
    pub fn insert<'a, S: PolicyStore + ?Sized>(
        &mut self,
        store: &S,
        (id, node): (u32, S::Node<'a>),
        to: Region,
        end: End,
    ) {
        debug_assert_eq!(node.region(), Region::None, "{id} is in a region already");
        let Some(lane) = self.lane_mut(to) else { return };
        match end {
            End::Front => lane.list.link_front(store, id, node.links()),
            End::Back => lane.list.link_back(store, id, node.links()),
        }
        lane.weight += u64::from(node.weight());
        node.set_region(to);
    }

    /// Unlinks a node and says from where.
    #[inline]
    pub fn remove<'a, S: PolicyStore + ?Sized>(&mut self, store: &S, node: S::Node<'a>) -> Region {
        let from = node.region();
        if let Some(lane) = self.lane_mut(from) {
            lane.list.unlink(store, node.links());
            lane.weight -= u64::from(node.weight());
            node.set_region(Region::None);
        }
        from
    }

    /// Puts `new`, which is in no region and weighs the same, in the place of the node `from`.
    /// False if that is in no region.
    pub fn replace<'a, S: PolicyStore + ?Sized>(
        &mut self,
        store: &S,
        from: S::Node<'a>,
        (new, to): (u32, S::Node<'a>),
    ) -> bool {
        let region = from.region();
        let Some(lane) = self.lane_mut(region) else { return false };
        lane.list.replace(store, from.links(), (new, to.links()));
        from.set_region(Region::None);
        to.set_region(region);
        true
    }

    /// Makes a node the first of the region given.
    #[inline]
    pub fn move_to_front<S: PolicyStore + ?Sized>(&mut self, store: &S, id: u32, to: Region) {
        let node = store.node(id);
        if node.region() != to {
            self.remove(store, node);
            self.insert(store, (id, node), to, End::Front);
        } else if let Some(lane) = self.lane_mut(to) {
            lane.list.move_to_front(store, id);
        }
    }

    /// Recounts lists, weights and region bytes.
    ///
    /// # Errors
    ///
    /// Says what does not add up.
    pub fn validate<S: PolicyStore + ?Sized>(&self, store: &S) -> Result<(), String> {
        for region in [Region::Window, Region::Probation, Region::Protected, Region::Weightless] {
            let lane = self.lane(region);
            lane.list.validate(store).map_err(|error| format!("{region:?}: {error}"))?;
            let mut weight = 0;
            for id in lane.list.iter(store) {
                if store.region(id) != region {
                    return Err(format!("{id} in {region:?} says {:?}", store.region(id)));
                }
                if (store.weight(id) == 0) != (region == Region::Weightless) {
                    return Err(format!("{id} in {region:?} weighs {}", store.weight(id)));
                }
                weight += u64::from(store.weight(id));
            }
            if weight != lane.weight {
                return Err(format!("{region:?} weighs {weight}, not {}", lane.weight));
            }
        }
        Ok(())
    }

    /// By its number: which region a node is in cannot be foretold.
    #[inline]
    fn lane_mut(&mut self, region: Region) -> Option<&mut Lane> {
        self.lanes.get_mut((region as usize).wrapping_sub(1))
    }
}
