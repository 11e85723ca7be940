//! What can be in force: sets of rules, each the best for some loads and bad for others.

use super::store::Region;

/// How the queues decide.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The window's share of the capacity.
    pub window: f64,
    /// Where a key goes that was rejected lately and comes back.
    pub recall: Region,
    /// One in so many of those is let in although the victim is asked for more often.
    pub chance: u64,
}

impl Rules {
    /// The main region rules, but who comes back soon has a good chance: large caches, mixed loads.
    pub const OPEN: Self = Self { window: 0.02, recall: Region::Protected, chance: 2 };
    /// Who is asked for often stays: loops, scans, popularity that does not change.
    pub const STRICT: Self = Self { window: 0.02, recall: Region::Probation, chance: 8 };
    /// Both: popular keys, and some that are popular for a while.
    pub const BROAD: Self = Self { window: 0.25, recall: Region::Probation, chance: 2 };
    /// Nearly LRU: bursts.
    pub const RECENT: Self = Self { window: 0.95, recall: Region::Probation, chance: 2 };

    /// All that compete, the one that begins first.
    pub const ALL: [Self; 4] = [Self::OPEN, Self::STRICT, Self::BROAD, Self::RECENT];
}
