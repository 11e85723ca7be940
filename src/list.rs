//! An intrusive doubly linked list of ids.
//!
//! The list owns three words: head, tail and length. The links are stored with the nodes and
//! reached through a [`LinkStore`]. So moving an id from list to list allocates nothing.
//!
//! ```text
//! head ──► a ◄──► b ◄──► c ◄── tail        prev(a) and next(c) are NONE
//! ```
//!
//! 1. An id is in at most one of the lists that share a store's links. The caller knows which one,
//!    because the links alone do not tell (the only element of a list has both ends
//!    [`NodeId::NONE`]).
//! 2. A removed id leaves with both links [`NodeId::NONE`].
//! 3. All calls are made by the holder of one lock (see [`crate::links`]). A call that breaks rule
//!    1 can scramble an order, but touches no memory outside the store.

use crate::links::{Links, Named, NodeId};
use crate::macros::ensure;

/// Where a list finds the links of an id.
pub trait LinkStore {
    /// The links of an id that was put into a list.
    fn links(&self, id: NodeId) -> &Links;
}

/// A list of ids, linked through a [`LinkStore`].
#[derive(Debug, Default)]
pub struct List {
    head: NodeId,
    tail: NodeId,
    len: usize,
}

impl List {
    /// The number of ids in the list.
    #[cfg(any(feature = "internals", cortado_loom))]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The last id.
    #[inline]
    pub fn back(&self) -> Option<NodeId> {
        some(self.tail)
    }

    /// Inserts an unlinked id at the front. `links` are the id's.
    #[inline]
    pub fn link_front(&mut self, store: &impl LinkStore, id: NodeId, links: &Links) {
        self.link_between(store, NodeId::NONE, id.with(links), self.head);
    }

    /// Inserts an unlinked id at the back. `links` are the id's.
    #[inline]
    pub fn link_back(&mut self, store: &impl LinkStore, id: NodeId, links: &Links) {
        self.link_between(store, self.tail, id.with(links), NodeId::NONE);
    }

    /// Removes the id that owns `links`, which must be in the list.
    #[inline]
    pub fn unlink(&mut self, store: &impl LinkStore, links: &Links) {
        let (prev, next) = (links.prev(), links.next());
        self.join(store, prev, next, next, prev);
        links.clear();
        self.len -= 1;
    }

    /// Replaces the element that owns `links` by an unlinked id. The element leaves the list.
    #[inline]
    pub fn replace(
        &mut self,
        store: &impl LinkStore,
        links: &Links,
        Named { id: new, node: to }: Named<&Links>,
    ) {
        let (prev, next) = (links.prev(), links.next());
        links.clear();
        to.set_prev(prev);
        to.set_next(next);
        self.join(store, prev, new, next, new);
    }

    /// The ids from front to back.
    pub fn iter<'a>(&self, store: &'a impl LinkStore) -> impl Iterator<Item = NodeId> + 'a {
        std::iter::successors(some(self.head), move |&id| some(store.links(id).next()))
    }

    /// The ids from back to front.
    pub fn iter_back<'a>(&self, store: &'a impl LinkStore) -> impl Iterator<Item = NodeId> + 'a {
        std::iter::successors(some(self.tail), move |&id| some(store.links(id).prev()))
    }

    /// Checks every link, and recounts the ids.
    ///
    /// # Errors
    ///
    /// A description of the first violation.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn validate(&self, store: &impl LinkStore) -> Result<(), String> {
        let (mut prev, mut id, mut count) = (NodeId::NONE, self.head, 0);
        while id != NodeId::NONE {
            ensure!(id.may_name_node(), "{prev} is followed by {id:#x}, which names no node");
            ensure!(count < self.len, "{id} follows {prev}, but the list counts {count}");
            let links = store.links(id);
            let back = links.prev();
            ensure!(back == prev, "{id} follows {prev} but points back to {back}");
            (prev, id, count) = (id, links.next(), count + 1);
        }
        ensure!(self.tail == prev, "the tail is {}, the last id {prev}", self.tail);
        ensure!(self.len == count, "the list counts {}, its links {count}", self.len);
        Ok(())
    }

    /// Links `id` between two neighbours. Either of them may be [`NodeId::NONE`], the outside of
    /// the list.
    #[inline]
    fn link_between(
        &mut self,
        store: &impl LinkStore,
        prev: NodeId,
        Named { id, node: links }: Named<&Links>,
        next: NodeId,
    ) {
        debug_assert!(id.may_name_node(), "{id:#x} names no node");
        links.set_prev(prev);
        links.set_next(next);
        self.join(store, prev, id, next, id);
        self.len += 1;
    }

    /// Makes `after` the successor of `prev`, and `before` the predecessor of `next`.
    #[inline]
    fn join(
        &mut self,
        store: &impl LinkStore,
        prev: NodeId,
        after: NodeId,
        next: NodeId,
        before: NodeId,
    ) {
        match prev {
            NodeId::NONE => self.head = after,
            _ => store.links(prev).set_next(after),
        }
        match next {
            NodeId::NONE => self.tail = before,
            _ => store.links(next).set_prev(before),
        }
    }
}

#[inline]
fn some(id: NodeId) -> Option<NodeId> {
    (id != NodeId::NONE).then_some(id)
}
