//! The recount of a wheel.

use crate::clock::Nanos;
use crate::links::NodeId;
use crate::macros::ensure;
use crate::wheel::buckets::Buckets;
use crate::wheel::geometry::{Ring, time_left};
use crate::wheel::{TimerStore, Wheel};

impl<const LANES: usize> Wheel<LANES> {
    /// Recounts every link, bit and id, and checks rule 4 for each id in a bucket. Rule 4 holds
    /// once every id with a shortened deadline has been scheduled again.
    ///
    /// # Errors
    ///
    /// Describes the first error that it finds.
    pub fn validate(&self, store: &impl TimerStore) -> Result<(), String> {
        let mut count = 0;
        let tick_end = self.geometry.levels()[0].delay(self.clock, 0);
        for (number, &level) in self.geometry.levels().iter().enumerate() {
            let backlog = self.buckets.backlog(number);
            count += self.buckets.validate_ring(store, backlog, self.len - count, |_| Ok(()))?;
            for offset in 0..level.buckets {
                let bucket = Ring::of(number, level.index_after(self.clock, offset));
                let delay = level.delay(self.clock, offset);
                for ring in self.buckets.lanes(bucket) {
                    count += self.buckets.validate_ring(store, ring, self.len - count, |id| {
                        let left = store
                            .deadline(id)
                            .map(|at| time_left(self.clock, at).unwrap_or(Nanos::ZERO));
                        match left {
                            Some(left) if delay > left.max(tick_end) => {
                                Err(format!("{id} has {left} ns left, {ring:?} comes in {delay}"))
                            }
                            _ => Ok(()),
                        }
                    })?;
                }
            }
        }
        ensure!(count == self.len, "the wheel counts {}, its rings {count}", self.len);
        Ok(())
    }
}

impl<const LANES: usize> Buckets<LANES> {
    /// Counts the ids of one ring, checks its links in both directions, and calls `each` with every
    /// id.
    ///
    /// # Errors
    ///
    /// Describes the first link or bit that is wrong.
    fn validate_ring(
        &self,
        store: &impl TimerStore,
        ring: Ring,
        limit: usize,
        mut each: impl FnMut(NodeId) -> Result<(), String>,
    ) -> Result<usize, String> {
        let Some(head) = self.head_of(ring) else {
            let is_marked = self.is_marked(ring);
            return if is_marked { Err(format!("{ring:?} has no head")) } else { Ok(0) };
        };
        let (mut prev, mut id, mut count) = (ring.head(), head.next(), 0);
        while id != ring.head() {
            ensure!(id.may_name_node(), "{prev:#x} of {ring:?} is followed by {id:#x}");
            ensure!(count < limit, "{ring:?} goes on after {limit}, which is all there are");
            let links = self.links(store, id);
            ensure!(links.prev() == prev, "{id} of {ring:?} does not point back to {prev:#x}");
            each(id)?;
            (prev, id, count) = (id, links.next(), count + 1);
        }
        let back = self.links(store, id).prev();
        ensure!(back == prev, "the head of {ring:?} does not point back to {prev:#x}");
        let is_marked = self.is_marked(ring);
        ensure!(is_marked == (count > 0), "{ring:?} holds {count}, its bit is {is_marked}");
        Ok(count)
    }
}
