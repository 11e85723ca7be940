//! What tests ask of the buffers.

use super::read::ReadBuffer;
use super::ring::{Ring, Stripes};
use super::write::WriteBuffer;

impl<const SEGMENTS: usize> Stripes<SEGMENTS> {
    /// The stripes that some thread has pushed into.
    fn iter(&self) -> impl Iterator<Item = &Ring<SEGMENTS>> {
        (0..self.len).filter_map(|number| self.get(number))
    }
}

impl ReadBuffer {
    /// Whether no id is pending.
    pub fn is_empty(&self) -> bool {
        self.stripes.iter().all(|stripe| stripe.account().count() == 0)
    }
}

impl WriteBuffer {
    /// A push whose thread is preempted before it has stored the event. The result stores it.
    #[cfg(test)]
    pub fn stalled_push(&self, event: u64, weight: u32) -> impl FnOnce() + '_ {
        let stripe = self.stripes.mine();
        let (before, _) = stripe.reserve(weight).expect("the stripe is not full");
        move || stripe.store(before, event, weight)
    }

    /// Whether no event is pending. An event that is just being pushed may count already.
    pub fn is_empty(&self) -> bool {
        self.spill.count() == 0 && self.stripes.iter().all(|stripe| stripe.account().count() == 0)
    }

    /// Sum of the weights of all pending events, in the stripes and in the spill.
    pub fn pending_weight(&self) -> u64 {
        let in_stripes: u64 = self.stripes.iter().map(|stripe| stripe.account().weight()).sum();
        in_stripes + self.spill.weight()
    }
}
