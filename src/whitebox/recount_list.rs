//! The recount of a list.

use crate::links::NodeId;
use crate::list::{LinkStore, List};
use crate::macros::ensure;

impl List {
    /// Checks every link, and counts the ids.
    ///
    /// # Errors
    ///
    /// A description of the first violation.
    pub fn validate(&self, store: &impl LinkStore) -> Result<usize, String> {
        let (mut prev, mut id, mut count) = (NodeId::NONE, self.head.next(), 0);
        while id != NodeId::NONE {
            ensure!(id.may_name_node(), "{prev} is followed by {id:#x}, which names no node");
            let links = store.links(id);
            let back = links.prev();
            ensure!(back == prev, "{id} follows {prev} but points back to {back}");
            (prev, id, count) = (id, links.next(), count + 1);
        }
        let last = self.head.prev();
        ensure!(last == prev, "the last id is {last}, but {prev} has no successor");
        Ok(count)
    }
}
