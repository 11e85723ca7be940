//! How far a timer is in ending.

/// How a timer ends; see [`Stop`](super::Stop).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// No job begins any more.
    Cancel,
    /// Jobs run as they come due, until this instant.
    Drain(u64),
    /// All jobs are due now.
    FireAll,
}

impl Stopping {
    /// The stricter one. Of two drains, that is the one that ends earlier.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Cancel, _) | (_, Self::Cancel) => Self::Cancel,
            (Self::FireAll, _) | (_, Self::FireAll) => Self::FireAll,
            (Self::Drain(one), Self::Drain(other)) => Self::Drain(one.min(other)),
        }
    }
}
