//! What the policy asks of the nodes: the window through which it sees the pool.

use crate::links::Links;
use crate::list::LinkStore;

/// The nodes as the policy sees them. All calls come from the holder of the maintenance lock.
///
/// Weight and hash of a node never change while a region holds it.
pub trait PolicyStore: LinkStore {
    /// A node, found once for several looks at it.
    type Node<'a>: PolicyNode<'a>
    where
        Self: 'a;

    fn node(&self, id: u32) -> Self::Node<'_>;

    #[inline]
    fn weight(&self, id: u32) -> u32 {
        self.node(id).weight()
    }

    #[inline]
    fn hash(&self, id: u32) -> u32 {
        self.node(id).hash()
    }

    #[inline]
    fn region(&self, id: u32) -> Region {
        self.node(id).region()
    }
}

/// One of a store's nodes.
pub trait PolicyNode<'a>: Copy {
    /// The links that the store finds under the node's id.
    fn links(self) -> &'a Links;

    fn weight(self) -> u32;

    /// A well-mixed hash of the node's key.
    fn hash(self) -> u32;

    /// What [`PolicyNode::set_region`] stored last, at first [`Region::None`].
    fn region(self) -> Region;

    fn set_region(self, region: Region);
}

/// Which of the policy's lists holds a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Region {
    /// None: new, evicted or removed.
    #[default]
    None = 0,
    /// New arrivals.
    Window = 1,
    /// The main region's entries without a hit (or not lately): the victims.
    Probation = 2,
    /// The main region's entries with hits.
    Protected = 3,
    /// Entries of weight 0. Evicting them would not help, so they stand apart from those that may
    /// be.
    Weightless = 4,
}

impl Region {
    /// The region stored as `byte`; an unknown byte is none.
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
