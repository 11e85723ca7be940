//! Looking at a wheel: its ids in the order of their buckets, and the recount of all that must
//! hold.

use super::geometry::{Ring, time_left};
use super::store::TimerStore;
use super::{Wheel, bits};
use crate::clock::{Nanos, Timestamp};
use crate::links::NodeId;
use crate::macros::ensure;

impl<const LANES: usize> Wheel<LANES> {
    /// The rings that are not empty, each with a *bound*, least bound first. No id of the ring has
    /// a deadline before the bound. The bound of the backlogs and of the current bucket of the
    /// finest level, which may hold overdue ids, is the least instant there is.
    ///
    /// The bounds compare as numbers, so this is for a wheel whose clock does not wrap.
    #[cfg(any(feature = "internals", feature = "timer", cortado_loom))]
    pub fn rings(&self) -> impl Iterator<Item = (Timestamp, Ring)> + '_ {
        let mut backlogs = bits(self.buckets.backlogs());
        // By level, the buckets that were handed out: so many after the first.
        let mut next = vec![0; self.geometry.levels().len()];
        std::iter::from_fn(move || {
            if let Some(level) = backlogs.next() {
                return Some((Timestamp::from_raw(0), self.buckets.backlog(level as usize)));
            }
            let bounds = next.iter().enumerate().filter_map(|(number, &from)| {
                let (offset, bound) = self.next_bucket(number, from)?;
                Some((bound, number, offset))
            });
            let (bound, number, offset) = bounds.min()?;
            let level = self.geometry.levels()[number];
            next[number] = offset + 1;
            Some((bound, Ring::of(number, level.index_after(self.clock, offset))))
        })
    }

    /// The next occupied bucket of a level, from this offset on, with its bound. At the finest
    /// level, offsets begin with the current bucket, which holds overdue ids only. At the others,
    /// the current bucket comes last: its ids are a whole turn ahead.
    #[cfg(any(feature = "internals", feature = "timer", cortado_loom))]
    fn next_bucket(&self, number: usize, from: u32) -> Option<(u32, Timestamp)> {
        let level = self.geometry.levels()[number];
        let first = u32::from(number > 0);
        let from = from.max(first);
        let ahead = level.ahead(self.buckets.occupied(number), self.clock);
        let is_occupied = |offset: &u32| ahead >> (offset % level.buckets) & 1 == 1;
        let offset = (from..first + level.buckets).find(is_occupied)?;
        let is_overdue = offset == 0;
        let bound = if is_overdue {
            Timestamp::from_raw(0)
        } else {
            self.clock.saturating_add(level.delay(self.clock, offset))
        };
        Some((offset, bound))
    }

    /// The ids of a bucket or a backlog.
    #[cfg(any(feature = "internals", feature = "timer", cortado_loom))]
    pub fn ids_of<'a, S: TimerStore>(
        &'a self,
        store: &'a S,
        ring: Ring,
    ) -> impl Iterator<Item = NodeId> + use<'a, S, LANES> {
        self.buckets.lanes(ring).flat_map(move |ring| {
            let first = self.buckets.first(ring);
            std::iter::successors(first, move |&id| self.buckets.next(store, ring, id))
        })
    }

    /// Recounts every link, bit and id, and checks rule 4 for each id in a bucket. Rule 4 holds
    /// once every id with a shortened deadline has been scheduled again.
    ///
    /// # Errors
    ///
    /// Describes the first error that it finds.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn validate(&self, store: &impl TimerStore) -> Result<(), String> {
        let mut count = 0;
        let tick_end = self.geometry.levels()[0].delay(self.clock, 0);
        for (number, &level) in self.geometry.levels().iter().enumerate() {
            let backlog = self.buckets.backlog(number);
            count += self.buckets.validate(store, backlog, self.len - count, |_| Ok(()))?;
            for offset in 0..level.buckets {
                let bucket = Ring::of(number, level.index_after(self.clock, offset));
                let delay = level.delay(self.clock, offset);
                for ring in self.buckets.lanes(bucket) {
                    count += self.buckets.validate(store, ring, self.len - count, |id| {
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
