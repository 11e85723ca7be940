//! Why a value left the cache.

/// Why a value left the cache. Each value that enters leaves exactly once, with exactly one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RemovalCause {
    /// Its lifetime was over (or zero to begin with), whoever noticed: the maintenance, or an
    /// operation on its key that found it.
    Expired,
    /// A call asked for it: `remove`, `invalidate`, `invalidate_all`, `retain`, a computation,
    /// `close`.
    Explicit,
    /// A new value for its key took its place.
    Replaced,
    /// The cache had no room for it, or for anything as heavy.
    Size,
}

impl RemovalCause {
    /// All causes, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Expired, Self::Explicit, Self::Replaced, Self::Size];

    /// Whether the cache removed the value of its own accord: because of its age or for want of
    /// room.
    #[must_use]
    pub fn was_evicted(self) -> bool {
        matches!(self, Self::Expired | Self::Size)
    }
}
