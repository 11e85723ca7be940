//! Looking at a wheel: its ids in the order of their buckets.

use crate::clock::Timestamp;
use crate::links::NodeId;
use crate::wheel::geometry::{Geometry, Ring};
use crate::wheel::{TimerStore, Wheel, bits};

impl<const LANES: usize> Wheel<LANES> {
    /// The levels.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The number of ids in the wheel.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The rings that are not empty, each with a *bound*, least bound first. No id of the ring has
    /// a deadline before the bound. The bound of the backlogs and of the current bucket of the
    /// finest level, which may hold overdue ids, is the least instant there is.
    ///
    /// The bounds compare as numbers, so this is for a wheel whose clock does not wrap.
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
}
