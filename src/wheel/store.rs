//! The interface between a wheel and the objects that its ids stand for.

use crate::clock::Timestamp;
use crate::links::{Links, NodeId};

/// Supplies the links and the deadline of an id to a wheel.
pub trait TimerStore {
    /// The links of `id` that belong to the wheel.
    fn links(&self, id: NodeId) -> &Links;

    /// The present deadline of `id`; `None` if `id` is never due. Instants are nanoseconds on a
    /// circle, and no value of `u64` is reserved. A store that represents "never" as `u64::MAX`
    /// must return `None` for it.
    fn deadline(&self, id: NodeId) -> Option<Timestamp>;
}
