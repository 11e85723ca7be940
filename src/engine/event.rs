//! What writers tell the maintenance.

use crate::links::{FIRST_RESERVED, NIL};
use std::num::NonZeroU64;

/// Beside an id, which is less.
const LATER: u32 = FIRST_RESERVED;

/// A write, as the write buffer carries it: `new << 32 | old`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// With its hash, for those who ask for what hangs on it.
    Added(u32, u32),
    Removed(u32),
    Replaced {
        new: u32,
        old: u32,
        /// Whether the new one ends no earlier than the old one would have.
        later: bool,
    },
    /// The deadline became earlier, or ceased to be never.
    Rescheduled(u32),
}

/// An [`Event`] as one word: on its way from the commit to the buffer, it fits a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed(NonZeroU64);

impl Packed {
    #[inline]
    pub fn word(self) -> u64 {
        self.0.get()
    }
}

impl Event {
    /// As one word.
    ///
    /// # Panics
    /// If it is of no node.
    #[inline(always)]
    pub fn pack(self) -> Packed {
        let (new, old) = match self {
            Self::Added(id, hash) => (id | LATER, hash),
            Self::Removed(id) => (NIL, id),
            Self::Replaced { new, old, later } => (new, old | if later { LATER } else { 0 }),
            Self::Rescheduled(id) => (id, id),
        };
        let word = u64::from(new) << 32 | u64::from(old);
        Packed(NonZeroU64::new(word).expect("an event is of a node"))
    }

    #[inline(always)]
    pub fn unpack(packed: u64) -> Self {
        match ((packed >> 32) as u32, packed as u32) {
            (new, hash) if new & LATER != 0 => Self::Added(new & !LATER, hash),
            (NIL, old) => Self::Removed(old),
            (new, old) if new == old => Self::Rescheduled(new),
            (new, old) => Self::Replaced { new, old: old & !LATER, later: old & LATER != 0 },
        }
    }
}
