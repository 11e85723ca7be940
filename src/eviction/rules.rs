//! The sets of rules that can be in force. Each is the best for some workloads and bad for others.
//! `docs/eviction.md` has the measurements.

use super::store::Region;

/// The parameters of the queues.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The window's share of the capacity.
    pub window: f64,
    /// The region of a key that was rejected recently, comes back and is let in.
    pub recall: Region,
    /// One in this many of the keys that come back is let in although its frequency is not higher
    /// than the victim's.
    pub chance: u64,
    /// Whether a newcomer may be rejected. If so, candidates duel, and a node that is heavier than
    /// the window's target duels at once. If not, there are no duels, and a hit in the window
    /// counts for as much as one in probation.
    pub rejects_newcomers: bool,
}

impl Rules {
    /// The main region dominates, but a key that comes back soon has a good chance. For large
    /// caches and mixed workloads.
    pub const OPEN: Self =
        Self { window: 0.02, recall: Region::Protected, chance: 2, rejects_newcomers: true };
    /// Frequently requested keys stay. For loops, scans, and popularity that does not change.
    pub const STRICT: Self =
        Self { window: 0.02, recall: Region::Probation, chance: 8, rejects_newcomers: true };
    /// A compromise. For popular keys together with keys that are popular for a while.
    pub const BROAD: Self =
        Self { window: 0.25, recall: Region::Probation, chance: 2, rejects_newcomers: true };
    /// Nearly LRU. For bursts.
    pub const RECENT: Self =
        Self { window: 0.95, recall: Region::Probation, chance: 2, rejects_newcomers: true };

    /// All sets that compete. The first set is in force at the start.
    pub const ALL: [Self; 4] = [Self::OPEN, Self::STRICT, Self::BROAD, Self::RECENT];
}
