//! The pool as the index, the policy and the wheel see it.

use super::raw::RawPool;
use crate::clock::NEVER;
use crate::index::HashOf;
use crate::links::Links;
use crate::list::LinkStore;
use crate::node::{Meta, ended_at};
use crate::policy::{PolicyNode, PolicyStore, Region};
use crate::wheel::TimerStore;

/// A quarter of the wheel's circle, 146 years.
pub const FARTHEST: u64 = 1 << 62;

impl HashOf for RawPool {
    #[inline]
    fn hash(&self, id: u32) -> u32 {
        self.meta(id).hash()
    }
}

/// The eviction policy's view.
impl LinkStore for RawPool {
    #[inline]
    fn links(&self, id: u32) -> &Links {
        &self.meta(id).queue
    }
}

impl PolicyStore for RawPool {
    type Node<'a> = &'a Meta;

    #[inline]
    fn node(&self, id: u32) -> &Meta {
        self.meta(id)
    }
}

impl<'a> PolicyNode<'a> for &'a Meta {
    #[inline]
    fn links(self) -> &'a Links {
        &self.queue
    }

    #[inline]
    fn weight(self) -> u32 {
        Meta::weight(self)
    }

    #[inline]
    fn hash(self) -> u32 {
        Meta::hash(self)
    }

    /// Nodes keep two bits. Those of weight 0 are in the weightless region if they are in any, and
    /// keep the number of another one in its place.
    #[inline]
    fn region(self) -> Region {
        match Meta::region(self) {
            0 => Region::None,
            _ if Meta::weight(self) == 0 => Region::Weightless,
            bits => Region::from_byte(bits),
        }
    }

    #[inline]
    fn set_region(self, region: Region) {
        let bits = if region == Region::Weightless { Region::Window } else { region };
        Meta::set_region(self, bits as u8);
    }
}

/// The wheel's view at a moment of the cache's time.
///
/// The wheel's time is a circle, the cache's is not: a deadline further off than a quarter of the
/// circle is shown as the end of that, where the wheel looks again. One that is overdue by more is
/// shown as overdue by as much, or it would seem to lie ahead.
#[derive(Clone, Copy)]
pub struct Timers<'a> {
    pub pool: &'a RawPool,
    pub now: u64,
}

impl TimerStore for Timers<'_> {
    #[inline]
    fn links(&self, id: u32) -> &Links {
        &self.pool.meta(id).timer
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.show(ended_at(self.pool.meta(id).deadline()))
    }
}

impl Timers<'_> {
    /// A deadline as the wheel is to see it.
    #[inline]
    pub fn show(&self, deadline: u64) -> Option<u64> {
        let (first, last) = (self.now.saturating_sub(FARTHEST), self.now.saturating_add(FARTHEST));
        (deadline != NEVER).then(|| deadline.clamp(first, last))
    }
}
