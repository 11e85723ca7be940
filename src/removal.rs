//! The causes of removals.

use std::fmt;

/// The reason why a value left the cache.
///
/// Each value that enters the cache leaves it exactly once, with exactly one cause.
///
/// ```
/// use cortado::RemovalCause;
///
/// let by_the_cache = RemovalCause::ALL.into_iter().filter(|cause| cause.was_evicted());
/// assert!(by_the_cache.eq([RemovalCause::Expired, RemovalCause::Size]));
/// assert_eq!(RemovalCause::Replaced.to_string(), "replaced");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RemovalCause {
    /// Its lifetime was over, or was zero to begin with. The maintenance noticed it, or an
    /// operation on its key did.
    Expired,
    /// A call asked for the removal: `remove`, `invalidate`, `invalidate_all`, `retain`, a
    /// computation, `close`.
    Explicit,
    /// A new value for its key took its place.
    Replaced,
    /// The cache had no room for it, or could not hold any value of its weight.
    Size,
}

impl RemovalCause {
    /// All causes, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Expired, Self::Explicit, Self::Replaced, Self::Size];

    /// Returns whether the cache removed the value of its own accord: because of its age or for
    /// want of room.
    #[must_use]
    pub fn was_evicted(&self) -> bool {
        matches!(self, Self::Expired | Self::Size)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Explicit => "explicit",
            Self::Replaced => "replaced",
            Self::Size => "size",
        }
    }
}

impl fmt::Display for RemovalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
