//! The pool as the index, the policy and the wheel see it.

use super::raw::RawPool;
use crate::clock::{NEVER, Nanos, Timestamp};
use crate::eviction::{PolicyNode, PolicyStore, Region};
use crate::hash::Hash32;
use crate::index::HashOf;
use crate::links::{Links, NodeId};
use crate::node::{Meta, ended_at};
use crate::wheel::TimerStore;

/// The longest time to a deadline that the wheel is shown: a quarter of its circle, 146 years.
pub const FARTHEST: Nanos = Nanos::from_raw(1 << 62);

impl HashOf for RawPool {
    #[inline]
    fn hash(&self, id: NodeId) -> Hash32 {
        self.meta(id).hash()
    }
}

/// The eviction policy's view.
impl PolicyStore for RawPool {
    type Node = Meta;

    #[inline]
    fn node(&self, id: NodeId) -> &Meta {
        self.meta(id)
    }
}

impl PolicyNode for Meta {
    #[inline]
    fn links(&self) -> &Links {
        &self.queue
    }

    #[inline]
    fn weight(&self) -> u32 {
        Meta::weight(self)
    }

    #[inline]
    fn hash(&self) -> Hash32 {
        Meta::hash(self)
    }

    /// A node keeps two bits for its region. A node of weight 0 is in the weightless region if it
    /// is in any. Its bits then hold the number of another region in place of the weightless one.
    #[inline]
    fn region(&self) -> Region {
        match Meta::region(self) {
            0 => Region::None,
            _ if Meta::weight(self) == 0 => Region::Weightless,
            bits => Region::from_byte(bits),
        }
    }

    #[inline]
    fn set_region(&self, region: Region) {
        let bits = if region == Region::Weightless { Region::Window } else { region };
        Meta::set_region(self, bits as u8);
    }
}

/// The wheel's view of the pool, at one moment of the cache's time.
///
/// The wheel's time is a circle, the cache's time is not. A deadline farther off than a quarter of
/// the circle is shown as the end of that quarter, where the wheel looks at it again. A deadline
/// overdue by more than a quarter is shown as overdue by a quarter. Otherwise it would seem to lie
/// ahead.
#[derive(Clone, Copy)]
pub struct Timers<'a> {
    pub pool: &'a RawPool,
    pub now: Timestamp,
}

impl TimerStore for Timers<'_> {
    #[inline]
    fn links(&self, id: NodeId) -> &Links {
        &self.pool.meta(id).timer
    }

    #[inline]
    fn deadline(&self, id: NodeId) -> Option<Timestamp> {
        self.show(ended_at(self.pool.meta(id).deadline()))
    }
}

impl Timers<'_> {
    /// The deadline as the wheel sees it; `None` if there is none.
    #[inline]
    pub fn show(&self, deadline: Timestamp) -> Option<Timestamp> {
        let (first, last) = (self.now.saturating_sub(FARTHEST), self.now.saturating_add(FARTHEST));
        (deadline != NEVER).then(|| deadline.clamp(first, last))
    }
}
