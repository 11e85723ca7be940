//! The interface through which the policy sees the nodes of the pool.

use crate::hash::Hash32;
use crate::links::{Links, NodeId};
use crate::list::LinkStore;

/// The nodes as the policy sees them. All calls come from the holder of the maintenance lock.
///
/// The weight and the hash of a node never change while a region holds it.
pub trait PolicyStore {
    type Node: PolicyNode;

    /// A node. The reference saves repeated look-ups by id.
    fn node(&self, id: NodeId) -> &Self::Node;
}

impl<S: PolicyStore> LinkStore for S {
    #[inline]
    fn links(&self, id: NodeId) -> &Links {
        self.node(id).links()
    }
}

/// One of a store's nodes.
pub trait PolicyNode {
    /// The node's place in a list.
    fn links(&self) -> &Links;

    fn weight(&self) -> u32;

    /// A well-mixed hash of the node's key.
    fn hash(&self) -> Hash32;

    /// The region that [`PolicyNode::set_region`] stored last. It is [`Region::None`] at first.
    fn region(&self) -> Region;

    fn set_region(&self, region: Region);
}

/// The list of the policy that holds a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Region {
    /// On no list: new, evicted or removed.
    #[default]
    None = 0,
    /// New arrivals.
    Window = 1,
    /// Entries of the main region without a hit, or without a recent one. The victims come from
    /// here.
    Probation = 2,
    /// Entries of the main region with hits.
    Protected = 3,
    /// Entries of weight 0. Their eviction would not help, so they are kept apart from the entries
    /// that may be evicted.
    Weightless = 4,
}

impl Region {
    /// The region stored as `byte`. An unknown byte means [`Region::None`].
    #[inline]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Window,
            2 => Self::Probation,
            3 => Self::Protected,
            4 => Self::Weightless,
            _ => Self::None,
        }
    }
}
