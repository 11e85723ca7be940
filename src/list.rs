//! An intrusive doubly linked list of ids.
//!
//! The list owns a head and a count, and is a ring behind the head. The links of the ids are stored
//! with the nodes and reached through a [`LinkStore`]. So moving an id from list to list allocates
//! nothing.
//!
//! ```text
//! head ◄──► a ◄──► b ◄──► c ◄──► head        an empty list is the head alone
//! ```
//!
//! 1. An id is in at most one of the lists that share a store's links. The caller knows which one,
//!    because the links alone do not tell: every list's head has the id [`NodeId::NONE`].
//! 2. A removed id leaves with both links [`NodeId::NONE`].
//! 3. All calls are made by the holder of one lock (see [`crate::links`]). A call that breaks rule
//!    1 can scramble an order, but touches no memory outside the store.

use crate::links::{Links, Named, NodeId};

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "whitebox/recount_list.rs"]
mod recount;

/// Where a list finds the links of an id.
pub trait LinkStore {
    /// The links of an id that was put into a list.
    fn links(&self, id: NodeId) -> &Links;
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Front,
    Back,
}

/// A list of ids, linked through a [`LinkStore`].
#[derive(Debug, Default)]
pub struct List {
    /// Its `next` is the first id, its `prev` the last.
    head: Links,
    len: usize,
}

impl List {
    /// The number of ids in the list.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The last id.
    #[inline]
    pub fn back(&self) -> Option<NodeId> {
        some(self.head.prev())
    }

    /// Inserts an unlinked id at an end. `links` are the id's.
    #[inline]
    pub fn link(&mut self, store: &impl LinkStore, end: End, id: NodeId, links: &Links) {
        let (prev, next) = match end {
            End::Front => (NodeId::NONE, self.head.next()),
            End::Back => (self.head.prev(), NodeId::NONE),
        };
        links.link(|id| self.links(store, id), prev, id, next);
        self.len += 1;
    }

    /// Removes the id that owns `links`, which must be in the list.
    #[inline]
    pub fn unlink(&mut self, store: &impl LinkStore, links: &Links) {
        links.unlink(|id| self.links(store, id));
        self.len -= 1;
    }

    /// Replaces the element that owns `links` by an unlinked id. The element leaves the list.
    #[inline]
    pub fn replace(&mut self, store: &impl LinkStore, links: &Links, new: Named<&Links>) {
        links.replace(|id| self.links(store, id), new);
    }

    /// The ids, from this end on.
    pub fn iter<'a, S: LinkStore>(
        &self,
        store: &'a S,
        end: End,
    ) -> impl Iterator<Item = NodeId> + use<'a, S> {
        let after = move |links: &Links| match end {
            End::Front => some(links.next()),
            End::Back => some(links.prev()),
        };
        std::iter::successors(after(&self.head), move |&id| after(store.links(id)))
    }

    /// The links of an id, or of the head.
    #[inline]
    fn links<'a>(&'a self, store: &'a impl LinkStore, id: NodeId) -> &'a Links {
        if id == NodeId::NONE { &self.head } else { store.links(id) }
    }
}

#[inline]
fn some(id: NodeId) -> Option<NodeId> {
    (id != NodeId::NONE).then_some(id)
}
