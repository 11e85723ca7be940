//! The events by which writers inform the maintenance.

use crate::hash::Hash32;
use crate::links::NodeId;
use std::num::NonZeroU64;

/// In place of an id.
const NONE: u32 = NodeId::NONE.raw();
/// Beside an id, which is less.
const LATER: u32 = NodeId::FIRST_RESERVED.raw();

/// A write, as the write buffer carries it: `new << 32 | old`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// With its hash, for those who ask for what hangs on it.
    Added(NodeId, Hash32),
    Removed(NodeId),
    Replaced {
        new: NodeId,
        old: NodeId,
        /// Whether the new one ends no earlier than the old one would have, whose deadline was not
        /// made earlier.
        later: bool,
    },
    /// The deadline became earlier, or ceased to be never.
    Rescheduled(NodeId),
}

/// An [`Event`] as one word: on its way from the commit to the buffer, it fits a register.
pub type Packed = NonZeroU64;

impl Event {
    /// As one word.
    ///
    /// # Panics
    /// If it is of no node.
    #[inline(always)]
    pub fn pack(self) -> Packed {
        let (new, old) = match self {
            Self::Added(id, hash) => (id.raw() | LATER, hash.raw()),
            Self::Removed(id) => (NONE, id.raw()),
            Self::Replaced { new, old, later } => {
                (new.raw(), old.raw() | if later { LATER } else { 0 })
            }
            Self::Rescheduled(id) => (id.raw(), id.raw()),
        };
        let word = u64::from(new) << 32 | u64::from(old);
        Packed::new(word).expect("an event is of a node")
    }

    #[inline(always)]
    pub fn unpack(packed: u64) -> Self {
        match ((packed >> 32) as u32, packed as u32) {
            (new, hash) if new & LATER != 0 => {
                Self::Added(NodeId::from_raw(new & !LATER), Hash32::from_raw(hash))
            }
            (NONE, old) => Self::Removed(NodeId::from_raw(old)),
            (new, old) if new == old => Self::Rescheduled(NodeId::from_raw(new)),
            (new, old) => Self::Replaced {
                new: NodeId::from_raw(new),
                old: NodeId::from_raw(old & !LATER),
                later: old & LATER != 0,
            },
        }
    }
}
