//! Giving memory of free nodes back.

use super::raw::RawPool;

impl RawPool {
    /// Gives memory of free nodes back, except of those kept at hand. Moves at most `most` free
    /// ids; returns whether there is more to do. Only one thread at a time may call this.
    pub fn trim(&self, most: usize) -> bool {
        self.reserve.trim(self, most)
    }

    /// Moves up to `most` free ids to the reserve, needed or not. Returns how many were moved.
    pub fn shelve(&self, most: usize) -> usize {
        self.reserve.put(self, most)
    }

    /// Number of nodes in blocks that were given back, of the nodes handed out so far.
    pub fn parked(&self) -> usize {
        self.reserve.parked()
    }
}
