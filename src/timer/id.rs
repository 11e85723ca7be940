//! Names of timers.

use crate::links::NodeId;
use std::fmt;
use std::num::NonZeroU32;

/// The name of an item in a queue or of a job in a timer.
///
/// It is the number of a place in memory, and a count of the items that were in this place. So the
/// id of an item that has left never names another item of the same queue: a place whose count is
/// used up, after four thousand million items, is not used again. Ids of different queues may be
/// equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    slot: NodeId,
    generation: NonZeroU32,
}

impl TimerId {
    /// The generation is not zero.
    pub(super) fn new(slot: NodeId, generation: u32) -> Self {
        Self { slot, generation: NonZeroU32::new(generation).unwrap_or(NonZeroU32::MIN) }
    }

    pub(super) fn slot(self) -> NodeId {
        self.slot
    }

    pub(super) fn generation(self) -> u32 {
        self.generation.get()
    }
}

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerId({self})")
    }
}

/// Shows the place and the count: `12.3`.
impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}
