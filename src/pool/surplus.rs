//! Giving memory of free nodes back.

use super::raw::RawPool;

impl RawPool {
    /// Whether more nodes are free than are kept at hand.
    pub fn has_surplus(&self) -> bool {
        self.reserve.has_surplus(self)
    }

    /// Gives memory of free nodes back, if there are more than are kept at hand. Moves at most
    /// `most` free ids. Returns whether there may be more to do.
    pub fn trim(&self, most: usize) -> bool {
        self.reserve.trim(self, most)
    }

    /// There is no surplus after so many calls of [`trim`](Self::trim), or fewer, if no more nodes
    /// become free meanwhile.
    pub fn most_trims(&self, most: usize) -> usize {
        self.reserve.most_trims(self, most)
    }

    /// Moves up to `most` free ids to the reserve, needed or not. Returns how many were moved.
    pub fn shelve(&self, most: usize) -> usize {
        self.reserve.put(self, most)
    }

    /// Number of nodes in blocks that were given back, of the nodes handed out so far.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn parked(&self) -> usize {
        self.reserve.parked()
    }
}
