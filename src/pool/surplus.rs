//! Giving memory of free nodes back.

use super::address::NodeMemory;
use super::raw::RawPool;

impl RawPool {
    /// Gives memory of free nodes back, if there are more than are kept at hand. Moves at most
    /// `most` free ids. Returns whether there is more to do. Only one thread at a time may call
    /// this.
    pub fn trim(&self, most: usize) -> bool {
        self.reserve.trim(self, most)
    }

    /// All ids, if they are free, are moved by as many calls of [`trim`](Self::trim), or fewer.
    pub fn most_trims(&self, most: usize) -> usize {
        // A call may end early when it has completed a few blocks.
        2 * self.handed_out() / most + 1
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
