//! Giving memory of free nodes back.

use super::raw::RawPool;
use super::reserve::Surplus;
use crate::clock::Timestamp;

impl RawPool {
    /// Gives memory back that was not needed for a while. Moves at most `most` free ids. Only one
    /// thread at a time may call this.
    pub fn trim(&self, now: Timestamp, most: usize) -> Surplus {
        self.reserve.trim(self, now, most)
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
