//! How far a timer is in ending.

/// How a timer ends; see [`Stop`](super::Stop).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// No job begins any more.
    Cancel,
    /// Jobs that are due by this instant run, however late.
    Settle(u64),
    /// Jobs run as they come due, until this instant.
    Drain(u64),
    /// All jobs are due now.
    FireAll,
}

impl Stopping {
    /// The instant by which the jobs must be due that still run, if there is one.
    pub fn limit(self) -> Option<u64> {
        match self {
            Self::Settle(limit) | Self::Drain(limit) => Some(limit),
            Self::Cancel | Self::FireAll => None,
        }
    }

    /// The stricter one, in the order of `Cancel`, `Settle`, `FireAll`, `Drain`. Of two of one
    /// kind, that is the one with the earlier instant.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Cancel, _) | (_, Self::Cancel) => Self::Cancel,
            (Self::Settle(one), Self::Settle(other)) => Self::Settle(one.min(other)),
            (Self::Settle(one), _) | (_, Self::Settle(one)) => Self::Settle(one),
            (Self::FireAll, _) | (_, Self::FireAll) => Self::FireAll,
            (Self::Drain(one), Self::Drain(other)) => Self::Drain(one.min(other)),
        }
    }
}
