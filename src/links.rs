//! Node ids, and the links that lists and the wheel keep inside the nodes.
//!
//! A [`NodeId`] names a node. The mechanisms never see a node. Through a store they see the pair of
//! links that belongs to them, and the other values that their trait asks for. Only the holder of
//! the maintenance lock writes links, so relaxed loads and stores are enough. The links are
//! atomics. So a stale id can cost hit rate but never memory safety, and no mechanism needs
//! `unsafe`.

use crate::macros::number;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedU32;

/// The name of a node: its number in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NodeId(u32);
number!(NodeId(u32));

/// A part of a node that is at hand, with the node's name.
#[derive(Clone, Copy)]
pub struct Named<T> {
    pub id: NodeId,
    pub node: T,
}

impl NodeId {
    /// This id names no node. It is never handed out.
    pub const NONE: Self = Self(0);

    /// The first reserved id. Ids at or above it never name a node; mechanisms may use them for
    /// list heads and marks.
    pub const FIRST_RESERVED: Self = Self(1 << 31);

    /// The number as an index, for a store that keeps its nodes in an array.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// A part of the node, with the name.
    #[inline(always)]
    pub fn with<T>(self, node: T) -> Named<T> {
        Named { id: self, node }
    }

    /// This id and the ids that follow it by number, `count` in all.
    pub fn consecutive(self, count: usize) -> impl Iterator<Item = Self> {
        (self.0..).take(count).map(Self)
    }

    /// Whether a node may have this id.
    #[inline(always)]
    pub fn may_name_node(self) -> bool {
        self != Self::NONE && self < Self::FIRST_RESERVED
    }
}

/// One pair of intrusive links. Those of an unlinked node are the default: both ends are
/// [`NodeId::NONE`].
#[derive(Debug, Default)]
pub struct Links {
    prev: GuardedU32,
    next: GuardedU32,
}

impl Links {
    #[inline]
    pub fn prev(&self) -> NodeId {
        NodeId::from_raw(self.prev.load(Relaxed))
    }

    #[inline]
    pub fn next(&self) -> NodeId {
        NodeId::from_raw(self.next.load(Relaxed))
    }

    #[inline]
    pub fn set_prev(&self, id: NodeId) {
        self.prev.store(id.raw(), Relaxed);
    }

    #[inline]
    pub fn set_next(&self, id: NodeId) {
        self.next.store(id.raw(), Relaxed);
    }

    /// Makes both ends [`NodeId::NONE`].
    #[inline]
    pub fn clear(&self) {
        self.set_prev(NodeId::NONE);
        self.set_next(NodeId::NONE);
    }

    /// Links the id that owns these links between two neighbours of a ring. `links_of` finds the
    /// links of all ids of the ring, those of its head too.
    #[inline(always)]
    pub fn link<'a>(
        &self,
        links_of: impl Fn(NodeId) -> &'a Self,
        prev: NodeId,
        id: NodeId,
        next: NodeId,
    ) {
        debug_assert!(id.may_name_node(), "{id:#x} names no node");
        self.set_prev(prev);
        self.set_next(next);
        links_of(prev).set_next(id);
        links_of(next).set_prev(id);
    }

    /// Takes the id that owns these links out of its ring. Returns the neighbours that it had.
    #[inline(always)]
    pub fn unlink<'a>(&self, links_of: impl Fn(NodeId) -> &'a Self) -> [NodeId; 2] {
        let [prev, next] = [self.prev(), self.next()];
        links_of(prev).set_next(next);
        links_of(next).set_prev(prev);
        self.clear();
        [prev, next]
    }

    /// Puts an unlinked id in the place of the id that owns these links, which leaves the ring.
    #[inline(always)]
    pub fn replace<'a>(&self, links_of: impl Fn(NodeId) -> &'a Self, new: Named<&Self>) {
        new.node.link(links_of, self.prev(), new.id, self.next());
        self.clear();
    }

    /// The number that a user of one direction keeps in place of `prev`.
    #[inline]
    pub fn number(&self) -> u32 {
        self.prev.load(Relaxed)
    }

    #[inline]
    pub fn set_number(&self, number: u32) {
        self.prev.store(number, Relaxed);
    }
}
