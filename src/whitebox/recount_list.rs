//! The recount of a list.

use crate::links::NodeId;
use crate::list::{LinkStore, List};
use crate::macros::ensure;

impl List {
    /// Checks every link, and recounts the ids.
    ///
    /// # Errors
    ///
    /// A description of the first violation.
    pub fn validate(&self, store: &impl LinkStore) -> Result<(), String> {
        let (mut prev, mut id, mut count) = (NodeId::NONE, self.head.next(), 0);
        while id != NodeId::NONE {
            ensure!(id.may_name_node(), "{prev} is followed by {id:#x}, which names no node");
            ensure!(count < self.len(), "{id} follows {prev}, but the list counts {count}");
            let links = store.links(id);
            let back = links.prev();
            ensure!(back == prev, "{id} follows {prev} but points back to {back}");
            (prev, id, count) = (id, links.next(), count + 1);
        }
        let (last, len) = (self.head.prev(), self.len());
        ensure!(last == prev, "the tail is {last}, the last id {prev}");
        ensure!(len == count, "the list counts {len}, its links {count}");
        Ok(())
    }
}
