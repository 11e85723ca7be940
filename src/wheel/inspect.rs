//! Looking at a wheel: its ids in the order of their buckets, where an id is, and the recount of
//! all that must hold.

use super::buckets::{Ring, is_linked};
use super::geometry::time_left;
use super::store::TimerStore;
use super::{Location, Wheel};
use crate::clock::Nanos;
use crate::links::NodeId;

impl Wheel {
    /// All ids, soonest first: the backlog, then level by level, bucket by bucket. The order is
    /// rough within a bucket, and where the levels overlap.
    pub fn soonest<'a, S: TimerStore + ?Sized>(
        &'a self,
        store: &'a S,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let levels = 0..self.geometry.levels().len();
        let buckets = levels.flat_map(|level| self.in_order(level));
        std::iter::once(self.buckets.backlog()).chain(buckets).flat_map(move |ring| {
            let first = self.buckets.first(store, ring);
            std::iter::successors(first, move |&id| self.buckets.next(store, ring, id))
        })
    }

    /// The place of `id`, if it is in the wheel. For tests: it follows the ring of `id` to the end.
    pub fn location<S: TimerStore + ?Sized>(&self, store: &S, id: NodeId) -> Option<Location> {
        let ring = is_linked(store.links(id)).then(|| self.buckets.ring_of(store, id))?;
        Some(if ring == self.buckets.backlog() {
            Location::Backlog
        } else {
            Location::Bucket { level: ring.level(), index: ring.index() }
        })
    }

    /// Recounts every link, bit and id, and checks rule 4 for each id in a bucket. Rule 4 holds
    /// once every id with a shortened deadline has been scheduled again.
    ///
    /// # Errors
    ///
    /// Describes the first error that it finds.
    pub fn validate<S: TimerStore + ?Sized>(&self, store: &S) -> Result<(), String> {
        let mut count =
            self.buckets.validate(store, self.buckets.backlog(), self.len, |_| Ok(()))?;
        let tick_end = self.geometry.levels()[0].delay(self.clock, 0);
        for (number, &level) in self.geometry.levels().iter().enumerate() {
            for offset in 0..level.buckets() {
                let bucket = Ring::of(number, level.index_after(self.clock, offset));
                let delay = level.delay(self.clock, offset);
                count += self.buckets.validate(store, bucket, self.len - count, |id| {
                    let left = store
                        .deadline(id)
                        .map(|at| time_left(self.clock, at).unwrap_or(Nanos::ZERO));
                    match left {
                        Some(left) if delay > left.max(tick_end) => {
                            Err(format!("{id} has {left} ns left, {bucket:?} comes in {delay}"))
                        }
                        _ => Ok(()),
                    }
                })?;
            }
        }
        if count != self.len {
            return Err(format!("the wheel counts {}, its rings {count}", self.len));
        }
        Ok(())
    }

    /// The buckets of a level, soonest first. At the finest level, the current bucket comes first.
    /// At the other levels it comes last: the entries of the current tick have cascaded, and the
    /// bucket holds only entries that are a whole turn ahead.
    fn in_order(&self, number: usize) -> impl Iterator<Item = Ring> + '_ {
        let level = self.geometry.levels()[number];
        let first = u32::from(number > 0);
        (first..first + level.buckets())
            .map(move |offset| Ring::of(number, level.index_after(self.clock, offset)))
    }
}
